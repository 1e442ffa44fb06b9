// Documents: a list, and one of them with its chunks drawn on its text.
import { useEffect, useRef, useState } from 'preact/hooks';
import { address, get } from '../api.js';
import { NONE, number, plural } from '../format.js';
import { segments } from '../marks.jsx';
import {
  Address, Badge, Card, Empty, Input, Loaded, Page, Pager, Select, Table, Time, documentLink,
  useData, useSettled,
} from '../ui.jsx';

const SIZE = 50;
// Chunks that are drawn at a time: a page with more takes too long.
const DRAWN = 200;

export function Documents({ access, parts }) {
  const [collection, id, chunk] = parts;
  return id
    ? <Document key={`${collection} ${id}`} collection={collection} id={id}
      chunk={chunk} />
    : <List access={access} chosen={collection} />;
}

function List({ access, chosen }) {
  const names = access.collections.map((one) => one.name);
  const first = names.includes('default') ? 'default' : names[0];
  const collection = names.includes(chosen) ? chosen : first;
  const [contains, setContains] = useState('');
  const [source, setSource] = useState('');
  const [trail, setTrail] = useState([]);
  const text = useSettled(contains);
  const from = useSettled(source);
  useEffect(() => setTrail([]), [text, from, collection]);
  const after = trail.at(-1);
  const state = useData((signal) => get(address('/v1/documents', {
    collection, contains: text, source: from, limit: SIZE, after,
  }), signal), [collection, text, from, after]);
  return (
    <Page title="Documents" about="What was indexed, as searches see it.">
      <form class="toolbar" role="search" onSubmit={(event) => event.preventDefault()}>
        <Select label="Collection" value={collection} options={names}
          onChange={(name) => { location.hash = `#/documents/${encodeURIComponent(name)}`; }} />
        <Input label="Title or address" type="search" value={contains} onChange={setContains} />
        <Input label="Source" value={source} onChange={setSource} placeholder="all" />
      </form>
      <Loaded state={state}>{(data) => (data.documents.length === 0
        ? <Card><Empty>No document is like this.</Empty></Card>
        : <Card flush>
          <Table label="Documents" head={['Title', 'Address', 'Type', 'Source', '#Chunks',
            'Indexed', 'Status']}>
            {data.documents.map((one) => (
              <tr key={one.document_id}>
                <td><a href={documentLink(one.collection, one.document_id)}>
                  {one.title || one.uri}</a></td>
                <td class="uri">{one.uri}</td>
                <td>{one.document_type}</td>
                <td>{one.source || NONE}</td>
                <td class="right">{number(one.chunk_count)}</td>
                <td><Time at={one.indexed_at} /></td>
                <td><Badge>{one.status}</Badge></td>
              </tr>))}
          </Table>
          <Pager trail={trail} setTrail={setTrail} next={data.next}
            shown={data.documents.length} />
        </Card>)}</Loaded>
    </Page>
  );
}

function Document({ collection, id, chunk }) {
  const state = useData((signal) => get(address(
    `/v1/documents/${encodeURIComponent(id)}`, { collection, chunks: true }), signal),
  [collection, id]);
  const back = <a href={`#/documents/${encodeURIComponent(collection)}`}>All documents</a>;
  return (
    <Page title={state.data?.title || state.data?.uri || 'Document'} about={back}>
      <Loaded state={state}>{(data) => (
        <>
          <Facts document={data} />
          <Text document={data} chunk={chunk} />
        </>)}</Loaded>
    </Page>
  );
}

const Fact = ({ name, children }) => <div><dt>{name}</dt><dd>{children}</dd></div>;

function Facts({ document: data }) {
  const metadata = Object.entries(data.metadata || {});
  return (
    <Card>
      <dl class="facts">
        <Fact name="Address"><Address uri={data.uri} /></Fact>
        <Fact name="Collection">{data.collection}</Fact>
        <Fact name="Source">{data.source
          ? <a href={`#/sources/${encodeURIComponent(data.source)}`}>{data.source}</a>
          : data.former_source ? `${data.former_source} (dropped)` : NONE}</Fact>
        <Fact name="Type">{data.document_type}</Fact>
        <Fact name="Status"><Badge>{data.status}</Badge></Fact>
        <Fact name="Revision"><code title={data.content_hash}>
          {(data.metadata?.commit || data.content_hash || NONE).slice(0, 12)}</code></Fact>
        <Fact name="First stored"><Time at={data.created_at} /></Fact>
        <Fact name="Fetched"><Time at={data.fetched_at} /></Fact>
        <Fact name="Indexed"><Time at={data.indexed_at} /></Fact>
        {data.category && <Fact name="Category">{data.category}</Fact>}
        {data.tags?.length > 0 && <Fact name="Tags">{data.tags.join(', ')}</Fact>}
      </dl>
      {data.error && <div class="note bad"><strong>{data.error}</strong></div>}
      {metadata.length > 0 && (
        <details><summary>Metadata</summary>
          <dl class="facts">{metadata.map(([name, value]) => (
            <Fact key={name} name={name}>
              {typeof value === 'string' ? value : JSON.stringify(value)}</Fact>))}</dl>
        </details>)}
    </Card>
  );
}

// `name` is the position or the id of the chunk that is chosen.
function Text({ document: data, chunk: name }) {
  const { chunks } = data;
  const [from, setFrom] = useState(0);
  const chosen = useRef();
  const place = chunks.findIndex(
    (one) => String(one.chunk_index) === name || one.chunk_id === name);
  const chunk = chunks[place]?.chunk_index;
  useEffect(() => {
    if (place >= 0) setFrom(Math.floor(place / DRAWN) * DRAWN);
  }, [place]);
  const shown = chunks.slice(from, from + DRAWN);
  useEffect(() => {
    chosen.current?.scrollIntoView({ block: 'center' });
  }, [place, from]);
  const begin = from === 0 ? 0 : shown[0]?.start_index;
  const end = from + DRAWN < chunks.length ? chunks[from + DRAWN].start_index : Infinity;
  const parts = segments(data.content || '', shown, begin, end);
  let last = -1;
  return (
    <Card title={plural(chunks.length, 'chunk')}
      actions={<span class="muted">Colours change where a chunk begins. Yellow text is in two
        chunks.</span>}>
      {chunks.length > DRAWN && (
        <nav class="pager" aria-label="Parts of the document">
          <button type="button" disabled={from === 0} onClick={() => setFrom(from - DRAWN)}>
            Previous</button>
          <span>Chunks {from} to {Math.min(from + DRAWN, chunks.length) - 1}</span>
          <button type="button" disabled={from + DRAWN >= chunks.length}
            onClick={() => setFrom(from + DRAWN)}>Next</button>
        </nav>)}
      <div class="document" tabIndex={0} role="region" aria-label="Text of the document">
        {parts.map((part, i) => {
          const newest = part.chunks.at(-1);
          const begins = newest !== undefined && newest > last;
          if (begins) last = newest;
          const isChosen = chunk !== undefined && part.chunks.includes(chunk);
          const tone = part.chunks.length > 1 ? 'both'
            : newest === undefined ? 'outside' : newest % 2 ? 'odd' : 'even';
          return (
            <span key={i} class={`piece ${tone}${isChosen ? ' chosen' : ''}`}>
              {begins && <a class="number" ref={newest === chunk ? chosen : undefined}
                href={documentLink(data.collection, data.document_id, newest)}
                aria-label={`Chunk ${newest}`}>{newest}</a>}
              {part.text}
            </span>);
        })}
      </div>
    </Card>
  );
}
