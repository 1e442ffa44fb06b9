// Sources: a list, and one of them with its runs.
import { useEffect, useState } from 'preact/hooks';
import { address, get, post } from '../api.js';
import { NONE, bytes, interval, number, plural } from '../format.js';
import {
  Badge, Card, Empty, Fault, Icon, Input, Loaded, Page, Pager, Progress, Select, Table, Time,
  useData, useSettled,
} from '../ui.jsx';
import { SourceForm } from './source_form.jsx';

const SIZE = 50;
const PHASES = ['Pending', 'Running', 'Completed', 'Failed', 'Retrying', 'Suspended'];

export function Sources({ access, parts }) {
  return parts[0]
    ? <Source key={parts[0]} name={parts[0]} access={access} />
    : <List access={access} />;
}

// True if the role may press the buttons of a source. The server decides again.
function mayManage(access, source) {
  const writable = access.collections.some((one) => one.name === source.collection && one.write);
  return !access.is_standby
    && (access.roles.includes(source.owner) || (access.is_admin && writable));
}

function List({ access }) {
  const [contains, setContains] = useState('');
  const [phase, setPhase] = useState('');
  const [collection, setCollection] = useState('');
  const [trail, setTrail] = useState([]);
  const [creates, setCreates] = useState(false);
  const name = useSettled(contains);
  useEffect(() => setTrail([]), [name, phase, collection]);
  const after = trail.at(-1);
  const state = useData((signal) => get(address('/v1/sources', {
    limit: SIZE, contains: name, phase, collection, after,
  }), signal), [name, phase, collection, after], 5000);
  const create = access.is_admin && !access.is_standby && (
    <button type="button" class="primary" onClick={() => setCreates(true)}>
      <Icon name="plus" />New source</button>);
  return (
    <Page title="Sources" about="Where documents come from, and when." actions={create}>
      <form class="toolbar" role="search" onSubmit={(event) => event.preventDefault()}>
        <Input label="Name" type="search" value={contains} onChange={setContains} />
        <Select label="Phase" value={phase} onChange={setPhase}
          options={[['', 'All'], ...PHASES]} />
        <Select label="Collection" value={collection} onChange={setCollection}
          options={[['', 'All'], ...access.collections.map((one) => one.name)]} />
      </form>
      <Loaded state={state}>{(data) => (data.sources.length === 0
        ? <Card><Empty>{name || phase || collection ? 'No source is like this.'
          : 'There is no source that you can see.'}</Empty></Card>
        : <Card flush>
          <Table label="Sources" head={['Name', 'Kind', 'Collection', 'Phase', 'Last indexed',
            'Next run', '#Documents']}>
            {data.sources.map((source) => (
              <tr key={source.name}>
                <td><a href={`#/sources/${encodeURIComponent(source.name)}`}>{source.name}</a></td>
                <td>{source.kind}</td>
                <td>{source.collection}</td>
                <td><Badge>{source.phase}</Badge></td>
                <td><Time at={source.last_indexed} /></td>
                <td><Time at={source.next_retry || source.next_scheduled_run} /></td>
                <td class="right">{number(source.documents_processed)}</td>
              </tr>))}
          </Table>
          <Pager trail={trail} setTrail={setTrail} next={data.next}
            shown={data.sources.length} />
        </Card>)}</Loaded>
      {creates && <SourceForm access={access} onClose={() => setCreates(false)}
        onCreated={(source) => {
          location.hash = `#/sources/${encodeURIComponent(source.name)}`;
        }} />}
    </Page>
  );
}

function Source({ name, access }) {
  const path = `/v1/sources/${encodeURIComponent(name)}`;
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState({});
  const source = useData((signal) => get(path, signal), [name], 2000);
  const runs = useData((signal) => get(address('/v1/runs', { source: name, limit: 20 }), signal),
    [name], 2000);
  const act = async (call, text) => {
    setBusy(true);
    setOutcome({});
    try {
      await call();
      setOutcome({ text });
      source.reload();
      runs.reload();
    } catch (error) {
      setOutcome({ error });
    }
    setBusy(false);
  };
  const check = async () => {
    const { kind, spec, collection, schedule, credentials } = source.data;
    const { problems } = await post('/v1/sources/validate', {
      kind, spec, collection,
      ...(schedule && { schedule }), ...(credentials && { credentials }),
    });
    if (problems.length > 0) {
      throw new Error(problems.map((one) => `${one.field}: ${one.problem}`).join('; '));
    }
  };
  const buttons = source.data && mayManage(access, source.data) && (
    <>
      <button type="button" class="primary" disabled={busy}
        onClick={() => act(() => post(`${path}/sync`), 'A run is queued.')}>Sync now</button>
      {source.data.suspend
        ? <button type="button" disabled={busy}
          onClick={() => act(() => post(`${path}/resume`), 'The source is resumed.')}>
          Resume</button>
        : <button type="button" disabled={busy}
          onClick={() => act(() => post(`${path}/suspend`), 'The source is suspended.')}>
          Suspend</button>}
      {access.is_admin && <button type="button" disabled={busy}
        onClick={() => act(check, 'The definition has no problems.')}>Validate</button>}
    </>);
  return (
    <Page title={name} about={<a href="#/sources">All sources</a>} actions={buttons}>
      <Fault error={outcome.error} />
      {outcome.text && <div class="note good" role="status"><strong>{outcome.text}</strong></div>}
      <Loaded state={source}>{(data) => <Definition source={data} />}</Loaded>
      <Loaded state={runs}>{(data) => (
        <Runs runs={data.runs} mayCancel={Boolean(buttons)}
          onCancel={(id) => act(() => post(`/v1/runs/${id}/cancel`),
            'The run is cancelled.')} />)}</Loaded>
    </Page>
  );
}

const Fact = ({ name, children }) => <div><dt>{name}</dt><dd>{children}</dd></div>;

function Definition({ source }) {
  const drift = source.conditions?.find((one) => one.type === 'AutoIndexerDriftDetected');
  return (
    <Card>
      <dl class="facts">
        <Fact name="Phase"><Badge>{source.phase}</Badge></Fact>
        <Fact name="Kind">{source.kind}</Fact>
        <Fact name="Collection">{source.collection}</Fact>
        <Fact name="Schedule">{source.schedule || 'none'}</Fact>
        <Fact name="Last indexed"><Time at={source.last_indexed} /></Fact>
        <Fact name="Next run"><Time at={source.next_retry || source.next_scheduled_run} /></Fact>
        <Fact name="Runs">{number(source.successful_run_count)} completed, {' '}
          {number(source.error_run_count)} failed</Fact>
        <Fact name="Owner">{source.owner || NONE}</Fact>
        <Fact name="Drift">{drift?.status === 'True'
          ? <Badge tone="warn">{drift.reason}</Badge> : drift?.reason || NONE}</Fact>
        {source.last_commit && <Fact name="Commit"><code>{source.last_commit.slice(0, 12)}</code>
        </Fact>}
        {source.credentials && <Fact name="Credentials">{source.credentials}</Fact>}
      </dl>
      {source.errors?.length > 0 && (
        <div class="note bad"><strong>The last run had errors</strong>
          <ul>{source.errors.map((error, i) => <li key={i}>{error}</li>)}</ul></div>)}
      <details><summary>Definition</summary>
        <pre tabIndex={0}>{JSON.stringify(source.spec, null, 2)}</pre></details>
    </Card>
  );
}

function Runs({ runs, mayCancel, onCancel }) {
  const [open, setOpen] = useState();
  const current = runs.find((run) => run.phase === 'Running');
  return (
    <Card title="Runs" flush>
      {current && <Current id={current.run_id} />}
      {runs.length === 0 ? <Empty>The source has not run yet.</Empty> : (
        <Table label="Runs" head={['#Run', 'Started by', 'Phase', 'When', '#Took', '#Added',
          '#Updated', '#Deleted', '#Failed', '#Read', ' ']}>
          {runs.map((run) => (
            <tr key={run.run_id}>
              <td class="right"><button type="button" class="link" onClick={() =>
                setOpen(run.run_id)}>{run.run_id}</button></td>
              <td>{run.trigger}{run.attempt > 1 && `, attempt ${run.attempt}`}</td>
              <td><Badge>{run.phase}</Badge></td>
              <td><Time at={run.started_at || run.queued_at} /></td>
              <td class="right">{interval(run.duration)}</td>
              <td class="right">{number(run.documents_added)}</td>
              <td class="right">{number(run.documents_updated)}</td>
              <td class="right">{number(run.documents_deleted)}</td>
              <td class="right">{number(run.documents_failed)}</td>
              <td class="right">{bytes(run.bytes_fetched)}</td>
              <td>{mayCancel && ['Pending', 'Running'].includes(run.phase) && (
                <button type="button" onClick={() => onCancel(run.run_id)}>Cancel</button>)}</td>
            </tr>))}
        </Table>)}
      {open && <Details key={open} id={open} />}
    </Card>
  );
}

function Current({ id }) {
  const state = useData((signal) => get(`/v1/runs/${id}`, signal), [id], 1000);
  const progress = state.data?.progress;
  return (
    <div class="inset">
      <p><strong>Run {id}</strong>{' '}
        {progress ? <>{number(progress.documents_done)}
          {progress.documents_total ? ` of ${number(progress.documents_total)}` : ''} documents,
          {' '}{progress.stage}</> : 'begins'}
      </p>
      <Progress done={progress?.documents_done} total={progress?.documents_total}
        label={`Run ${id}`} />
    </div>
  );
}

function Details({ id }) {
  const state = useData((signal) => get(`/v1/runs/${id}`, signal), [id]);
  return (
    <div class="inset">
      <Loaded state={state}>{(run) => (
        <>
          <h3>Run {id}</h3>
          <p class="muted">{plural(run.chunks_written ?? 0, 'chunk')} written,{' '}
            {number(run.chunks_embedded ?? 0)} embedded, {number(run.chunks_reused ?? 0)} reused
            {run.waiting && `. Waits: ${run.waiting}`}{run.note && `. ${run.note}`}</p>
          {run.errors?.map((error, i) => (
            <div class="note bad" key={i}><strong>{error.message}</strong>
              {error.detail && <span>{error.detail}</span>}
              {error.hint && <span>{error.hint}</span>}</div>))}
          {run.document_errors.length > 0 && (
            <Table label="Documents with errors"
              head={['Document', 'Stage', 'Severity', 'Message']}>
              {run.document_errors.map((error, i) => (
                <tr key={i}><td class="uri">{error.uri}</td><td>{error.stage}</td>
                  <td><Badge>{error.severity}</Badge></td><td>{error.message}</td></tr>))}
            </Table>)}
        </>)}</Loaded>
    </div>
  );
}
