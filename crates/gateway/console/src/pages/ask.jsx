// Questions that a chat model answers, as it writes, with citations that open the chunk.
import { useEffect, useRef, useState } from 'preact/hooks';
import { stream } from '../api.js';
import { number, score } from '../format.js';
import {
  Address, Card, Empty, Fault, Field, Page, Select, documentLink,
} from '../ui.jsx';

export function Ask({ access }) {
  const names = access.collections.map((one) => one.name);
  const [query, setQuery] = useState('');
  const [collection, setCollection] = useState(
    names.includes('default') ? 'default' : names[0]);
  const [model, setModel] = useState('');
  const [turns, setTurns] = useState([]);
  const running = useRef();
  useEffect(() => () => running.current?.abort(), []);
  const busy = turns.at(-1)?.busy;
  const ask = async (event) => {
    event.preventDefault();
    const history = turns.filter((turn) => turn.text && !turn.error).flatMap((turn) => [
      { role: 'user', content: turn.query }, { role: 'assistant', content: turn.text },
    ]).slice(-20);
    const turn = { query, collection, text: '', context: [], busy: true };
    const show = (part) => {
      Object.assign(turn, part);
      setTurns([...turns, { ...turn }]);
    };
    running.current = new AbortController();
    setQuery('');
    show({});
    try {
      const request = {
        query, collection, stream: true, ...(model && { model }),
        ...(history.length > 0 && { conversation_history: history }),
      };
      for await (const { event: name, data } of
        stream('/v1/answer', request, running.current.signal)) {
        if (name === 'context') show({ context: data });
        else if (name === 'text') show({ text: turn.text + (data.text ?? data) });
        else if (name === 'error') show({ error: new Error(data.detail || data.message) });
        else show({ end: data });
      }
    } catch (error) {
      if (error.name !== 'AbortError') show({ error });
    }
    show({ busy: false });
  };
  return (
    <Page title="Ask" about="A chat model answers from what a search finds."
      actions={turns.length > 0 && !busy && (
        <button type="button" onClick={() => setTurns([])}>New conversation</button>)}>
      {access.chat_models.length === 0 && (
        <div class="note warn"><strong>There is no chat model that you may use.</strong>
          <span>An administrator creates one with rag_create_model.</span></div>)}
      <div class="turns" aria-live="polite">
        {turns.map((turn, i) => <Turn key={i} turn={turn} />)}
      </div>
      <form class="card" onSubmit={ask}>
        <Field label="Question">{(field) => (
          <textarea {...field} rows={2} required value={query}
            placeholder="How often is a signing key replaced?"
            onInput={(event) => setQuery(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && !event.shiftKey) {
                event.preventDefault();
                if (query.trim() && !busy) event.currentTarget.form.requestSubmit();
              }
            }} />)}</Field>
        <div class="ask-line">
          <Select label="Collection" value={collection} onChange={setCollection} options={names} />
          <Select label="Model" value={model} onChange={setModel}
            options={[['', 'of the server'], ...access.chat_models]} />
          {busy
            ? <button type="button" onClick={() => running.current.abort()}>Stop</button>
            : <button class="primary">Ask</button>}
        </div>
      </form>
    </Page>
  );
}

function Turn({ turn }) {
  return (
    <article class="turn">
      <p class="question">{turn.query}</p>
      <Card>
        <p class={turn.busy ? 'answer busy' : 'answer'}>
          <Cited text={turn.text} turn={turn} />
          {turn.busy && !turn.text && <span class="muted">Searching…</span>}
        </p>
        <Fault error={turn.error} />
        {turn.context.length > 0
          ? <Context turn={turn} />
          : !turn.busy && !turn.error && <Empty>Nothing was found.</Empty>}
        {turn.end && <p class="foot">{turn.end.model}, {turn.end.provider}
          {turn.end.metadata?.tokens && `; ${number(turn.end.metadata.tokens.total)} tokens`}</p>}
      </Card>
    </article>
  );
}

// The text, with each [1] that names a chunk as a link to it.
function Cited({ text, turn }) {
  return text.split(/(\[\d+\])/).map((part, i) => {
    const place = /^\[(\d+)\]$/.exec(part);
    const chunk = place && turn.context[Number(place[1]) - 1];
    return chunk
      ? <Cite key={i} chunk={chunk} collection={turn.collection}>{place[1]}</Cite> : part;
  });
}

const Cite = ({ chunk, collection, children }) => (
  <a class="cite" href={documentLink(collection, chunk.document_id, chunk.chunk_id)}
    title={chunk.title || chunk.uri} aria-label={`Source ${children}`}>{children}</a>
);

const Context = ({ turn }) => (
  <details class="context" open={!turn.busy}>
    <summary>What the model was given</summary>
    <ol>{turn.context.map((chunk, i) => (
      <li key={i}>
        <p><a href={documentLink(turn.collection, chunk.document_id, chunk.chunk_id)}>
          {chunk.title || chunk.uri}</a> <span class="muted">{score(chunk.score)}</span></p>
        <p class="muted"><Address uri={chunk.uri} /></p>
        <p class="text">{chunk.snippet}</p>
      </li>))}</ol>
  </details>
);
