// Collections: sizes, health, their indexes, and how much the index of vectors finds.
import { useState } from 'preact/hooks';
import { get, post } from '../api.js';
import { bytes, milliseconds, number } from '../format.js';
import { Badge, Card, Empty, Fault, Loaded, Page, Table, useData } from '../ui.jsx';

export function Indexes({ parts }) {
  const state = useData((signal) => get('/v1/collections', signal), []);
  return (
    <Page title="Indexes" about="Size, health and recall of each collection.">
      <Loaded state={state}>{(data) => (data.collections.length === 0
        ? <Card><Empty>There is no collection that you may read.</Empty></Card>
        : <>
          <Card flush>
            <Table label="Collections" head={['Collection', 'State', '#Documents', '#Chunks',
              '#Size', 'Model', 'Share']}>
              {data.collections.map((one) => (
                <tr key={one.name}>
                  <td><a href={`#/indexes/${encodeURIComponent(one.name)}`}
                    aria-current={one.name === parts[0] ? 'true' : undefined}>{one.name}</a></td>
                  <td><Badge>{one.state}</Badge></td>
                  <td class="right">{number(one.document_count)}</td>
                  <td class="right">{number(one.chunk_count)}</td>
                  <td class="right">{bytes(one.total_size_bytes)}</td>
                  <td>{one.model}</td>
                  <td><Share part={one.total_size_bytes} all={data.collections} /></td>
                </tr>))}
            </Table>
          </Card>
          {parts[0] && <Collection key={parts[0]} name={parts[0]} />}
        </>)}</Loaded>
    </Page>
  );
}

function Share({ part, all }) {
  const sum = all.reduce((total, one) => total + (one.total_size_bytes || 0), 0) || 1;
  return (
    <div class="bar" aria-hidden="true"><div style={{ width: `${(100 * part) / sum}%` }} /></div>
  );
}

function Collection({ name }) {
  const path = `/v1/collections/${encodeURIComponent(name)}`;
  const collection = useData((signal) => get(path, signal), [name]);
  const indexes = useData((signal) => get(`${path}/indexes`, signal), [name]);
  const [recall, setRecall] = useState();
  const [error, setError] = useState();
  const [busy, setBusy] = useState(false);
  const measure = async () => {
    setBusy(true);
    setError(undefined);
    try {
      setRecall((await post(`${path}/recall`, { queries: 50 })).recall);
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const hasVectors = indexes.data?.indexes.some((one) => one.method === 'rag_hnsw');
  return (
    <>
      <Loaded state={collection}>{(data) => (
        <Card title={name} actions={<Badge>{data.status?.state}</Badge>}>
          {data.status?.detail && <p>{data.status.detail}</p>}
          <Sizes status={data.status} />
        </Card>)}</Loaded>
      <Loaded state={indexes}>{(data) => (
        <Card title="Its indexes" flush actions={hasVectors && (
          <button type="button" disabled={busy} onClick={measure}>
            {busy ? 'Measuring…' : 'Measure recall'}</button>)}>
          <Fault error={error} />
          {data.indexes.length === 0 ? <Empty>There is no index yet.</Empty> : (
            <Table label="Indexes" head={['Index', 'Method', '#Size', '#Entries', 'Health']}>
              {data.indexes.map((one) => (
                <tr key={one.index}>
                  <td>{one.index}</td>
                  <td>{one.method}</td>
                  <td class="right">{bytes(one.bytes)}</td>
                  <td class="right">{number(one.details?.vectors ?? one.details?.documents)}</td>
                  <td>{!one.is_valid ? <Badge tone="bad">invalid</Badge>
                    : one.details?.hint ? <><Badge tone="warn">hint</Badge> {one.details.hint}</>
                      : <Badge tone="good">sound</Badge>}</td>
                </tr>))}
            </Table>)}
          {recall && <Recall rows={recall} />}
        </Card>)}</Loaded>
    </>
  );
}

const PARTS = [
  ['Texts', 'text_bytes'], ['Chunks', 'chunk_bytes'], ['Embeddings', 'embedding_bytes'],
  ['Index of vectors', 'vector_index_bytes'], ['Index of words', 'keyword_index_bytes'],
];

function Sizes({ status }) {
  const most = Math.max(...PARTS.map(([, part]) => status[part] || 0)) || 1;
  return (
    <dl class="scores sizes">
      {PARTS.map(([label, part]) => (
        <div class="score" key={part}><dt>{label}</dt><dd>
          <div class="bar" aria-hidden="true">
            <div style={{ width: `${(100 * (status[part] || 0)) / most}%` }} /></div>
          <span>{bytes(status[part])}</span></dd></div>))}
    </dl>
  );
}

const Recall = ({ rows }) => (
  <div class="inset">
    <h3>Recall of 50 random chunks</h3>
    <Table label="Recall" head={['#ef_search', '#Recall', '#With the index', '#Exact', 'Found']}>
      {rows.map((row) => (
        <tr key={row.ef_search}>
          <td class="right">{row.ef_search}</td>
          <td class="right">{(100 * row.recall).toFixed(1)} %</td>
          <td class="right">{milliseconds(row.milliseconds)}</td>
          <td class="right">{milliseconds(row.exact_milliseconds)}</td>
          <td><div class="bar" aria-hidden="true">
            <div style={{ width: `${100 * row.recall}%` }} /></div></td>
        </tr>))}
    </Table>
  </div>
);
