// What is wrong, what runs, how searches do, and what is stored.
import { useEffect, useState } from 'preact/hooks';
import { get } from '../api.js';
import {
  bytes, compact, interval, milliseconds, money, number, plural,
} from '../format.js';
import { Columns } from '../chart.jsx';
import { Badge, Card, Empty, Loaded, Page, Progress, Table, Time, useData } from '../ui.jsx';

const SHOWN = 20;

export function Overview() {
  const [pause, setPause] = useState(3000);
  const status = useData((signal) => get('/v1/status', signal), [], pause);
  const isBusy = status.data?.progress.length > 0;
  useEffect(() => setPause(isBusy ? 1500 : 6000), [isBusy]);
  const overview = useData((signal) => get('/v1/overview', signal), [], 15000);
  const searches = useData((signal) => get('/v1/search-stats', signal), [], 15000);
  return (
    <Page title="Overview">
      <Loaded state={overview}>{(data) => (
        <Tiles overview={data} minutes={searches.data?.minutes} />)}</Loaded>
      <Loaded state={status}>{(data) => <Problems problems={data.problems} />}</Loaded>
      {status.data && <Runs progress={status.data.progress} />}
      <Loaded state={searches}>{(data) => <Searches stats={data} />}</Loaded>
      {overview.data?.failing.length > 0 && <Failing sources={overview.data.failing} />}
    </Page>
  );
}

function Problems({ problems }) {
  const notices = problems.filter((problem) => problem.severity === 'notice');
  const serious = problems.filter((problem) => problem.severity !== 'notice');
  const errors = serious.filter((problem) => problem.severity === 'error').length;
  const counts = [
    errors && plural(errors, 'error'),
    serious.length - errors && plural(serious.length - errors, 'warning'),
  ].filter(Boolean).join(', ');
  return (
    <>
      {serious.length === 0
        ? <div class="note good" role="status"><strong>Everything works.</strong>
          <span>No source, collection or index has a problem.</span></div>
        : <Card title={counts} flush><ProblemList problems={serious} /></Card>}
      {notices.length > 0 && (
        <details class="card">
          <summary>{plural(notices.length, 'notice')}: what waits as it should</summary>
          <ProblemList problems={notices} />
        </details>)}
    </>
  );
}

// What has the problem, as a link if it is a source.
function Thing({ name }) {
  const source = /^source (.+)$/.exec(name)?.[1];
  return source
    ? <>source <a href={`#/sources/${encodeURIComponent(source)}`}>{source}</a></> : name;
}

const ProblemList = ({ problems }) => (
  <>
    <ul class="rows">
      {problems.slice(0, SHOWN).map((problem, i) => (
        <li key={i} class="problem">
          <Badge>{problem.severity}</Badge>
          <div>
            <p><strong><Thing name={problem.object} /></strong>: {problem.problem}</p>
            {problem.remedy && <p class="muted">{problem.remedy}</p>}
          </div>
        </li>))}
    </ul>
    {problems.length > SHOWN && <p class="foot">and {plural(problems.length - SHOWN, 'other')}</p>}
  </>
);

const Tile = ({ name, value, about, href }) => (
  <div class="tile">
    <dt>{href ? <a href={href}>{name}</a> : name}</dt>
    <dd><strong>{value}</strong>{about && <span>{about}</span>}</dd>
  </div>
);

function Tiles({ overview, minutes = [] }) {
  const { sources, sizes, usage } = overview;
  const all = Object.values(sources).reduce((sum, count) => sum + count, 0);
  const failed = (sources.Failed || 0) + (sources.Retrying || 0);
  const found = minutes.reduce((sum, minute) => sum + minute.count, 0);
  // of the busiest minutes: a percentile of percentiles would be none
  const slowest = Math.max(0, ...minutes.map((minute) => minute.p95_ms || 0));
  return (
    <dl class="tiles">
      <Tile name="Sources" href="#/sources" value={number(all)}
        about={failed ? `${failed} failing` : Object.entries(sources)
          .map(([phase, count]) => `${count} ${phase.toLowerCase()}`).join(', ') || 'none yet'} />
      <Tile name="Documents" href="#/documents" value={compact(sizes.documents)}
        about={`in ${plural(sizes.collections, 'collection')}`} />
      <Tile name="Size" href="#/indexes" value={bytes(sizes.bytes)}
        about={plural(sizes.chunks, 'chunk')} />
      <Tile name="Searches, last hour" value={compact(found)}
        about={found ? `95 % below ${milliseconds(slowest)}` : 'through this gateway'} />
      <Tile name="Models, 30 days" href="#/models" value={money(usage.cost)}
        about={`${plural(usage.calls, 'call')}, ${plural(usage.tokens, 'token')}`} />
    </dl>
  );
}

function Runs({ progress }) {
  return (
    <Card title="In progress">
      {progress.length === 0 && <Empty>No run is in progress.</Empty>}
      {progress.map((run) => {
        const what = run.source || `rebuild of ${run.collection}`;
        return (
          <div class="run" key={`${run.run_id} ${what}`}>
            <div class="run-head">
              <strong>{run.source
                ? <a href={`#/sources/${encodeURIComponent(run.source)}`}>{what}</a>
                : what}</strong>
              <Badge tone="busy">{run.stage}</Badge>
              <span class="muted">
                {number(run.documents_done)}
                {run.documents_total ? ` of ${number(run.documents_total)}` : ''} documents
                {run.eta ? `, ${interval(run.eta)} left` : ''}
              </span>
            </div>
            <Progress done={run.documents_done} total={run.documents_total} label={what} />
            {run.current_uri && <p class="muted uri">{run.current_uri}</p>}
          </div>);
      })}
    </Card>
  );
}

function Searches({ stats }) {
  const seen = new Map(stats.minutes.map((minute) => [minute.minute, minute]));
  const now = Math.floor(Date.now() / 60000) * 60;
  const columns = Array.from({ length: 60 }, (_, i) => {
    const minute = now - (59 - i) * 60;
    const at = new Date(minute * 1000);
    return {
      label: at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' }),
      parts: [{ name: 'searches', value: seen.get(minute)?.count || 0 }],
    };
  });
  return (
    <Card title="Searches">
      {stats.minutes.length === 0
        ? <Empty>This gateway has answered no search in the last hour.</Empty>
        : <><p class="muted">A minute, through this gateway, in the last hour</p>
          <Columns columns={columns} names={['searches']} height={110} format={number} /></>}
      {stats.searches.length > 0 && (
        <Table label="Searches since the start of the server"
          head={['Collection', 'Mode', '#Searches', '#Empty', '#Errors', '#Mean', '#Slowest']}>
          {stats.searches.slice(0, 10).map((row) => (
            <tr key={`${row.collection} ${row.mode}`}>
              <td>{row.collection}</td><td>{row.mode}</td>
              <td class="right">{number(row.calls)}</td><td class="right">{number(row.empty)}</td>
              <td class="right">{number(row.errors)}</td>
              <td class="right">{milliseconds(row.mean_ms)}</td>
              <td class="right">{milliseconds(row.max_ms)}</td>
            </tr>))}
        </Table>)}
      {stats.searches.length > 0 && <p class="foot">Since the start of the server, also through
        SQL</p>}
    </Card>
  );
}

const Failing = ({ sources }) => (
  <Card title="Sources that fail" flush>
    <ul class="rows">
      {sources.map((source) => (
        <li key={source.name} class="problem">
          <Badge>{source.phase}</Badge>
          <div>
            <p><a href={`#/sources/${encodeURIComponent(source.name)}`}>{source.name}</a></p>
            <p class="muted">{source.errors?.[0]}</p>
            {source.next_retry && <p class="muted">Next attempt <Time at={source.next_retry} /></p>}
          </div>
        </li>))}
    </ul>
  </Card>
);
