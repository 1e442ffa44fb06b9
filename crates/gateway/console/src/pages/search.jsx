// Searches: results with marks and scores, two settings side by side, and what each part did.
import { useState } from 'preact/hooks';
import { post } from '../api.js';
import { Scores } from '../chart.jsx';
import { milliseconds, number, plural, score } from '../format.js';
import { Marked } from '../marks.jsx';
import {
  Address, Badge, Card, Check, Empty, Fault, Field, Input, Loading, Page, Select, Slider,
  documentLink,
} from '../ui.jsx';
import { FilterForm, filterOf } from './filter.jsx';

const DEFAULTS = {
  mode: '', top_k: 5, byQuery: true, vector_weight: 0.7, fusion: '', rerank: '',
  score_threshold: 0, per_document: 0, neighbours: 0,
};

// The body of a request, without what is left to the collection.
function requestOf(query, collection, filter, chosen) {
  const settings = {};
  if (!chosen.byQuery) settings.vector_weight = chosen.vector_weight;
  if (chosen.fusion) settings.fusion = chosen.fusion;
  for (const name of ['score_threshold', 'per_document', 'neighbours']) {
    if (chosen[name] > 0) settings[name] = chosen[name];
  }
  return {
    query, collection, top_k: chosen.top_k, settings,
    ...(chosen.mode && { mode: chosen.mode }), ...(filter && { filter }),
  };
}

export function Search({ access }) {
  const names = access.collections.map((one) => one.name);
  const [query, setQuery] = useState('');
  const [collection, setCollection] = useState(
    names.includes('default') ? 'default' : names[0]);
  const [conditions, setConditions] = useState([]);
  const [sides, setSides] = useState([DEFAULTS]);
  const [found, setFound] = useState([]);
  const [steps, setSteps] = useState();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState();
  const attempt = async (call) => {
    setBusy(true);
    setError(undefined);
    setSteps(undefined);
    try {
      await call(filterOf(conditions));
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const search = (event) => {
    event.preventDefault();
    attempt(async (filter) => {
      setFound(await Promise.all(sides.map(async (side) => {
        const began = performance.now();
        const request = requestOf(query, collection, filter, side);
        if (side.rerank) request.rerank = side.rerank;
        const { results } = await post('/v1/search', request);
        return { results, took: performance.now() - began };
      })));
    });
  };
  const explain = () => attempt(async (filter) => {
    const answer = await post('/v1/explain', requestOf(query, collection, filter, sides[0]));
    setSteps(answer.steps);
  });
  const change = (i, change_) => setSides(
    sides.map((side, j) => (i === j ? { ...side, ...change_ } : side)));
  const isComparing = sides.length === 2;
  return (
    <Page title="Search" about="See what is found, and why.">
      <form class="card" onSubmit={search} role="search">
        <div class="ask-line search-line">
          <Field label="Query">{(field) => (
            <input {...field} type="search" required value={query} class="large"
              placeholder="how do I rotate the signing keys?"
              onInput={(event) => setQuery(event.currentTarget.value)} />)}</Field>
          <Select label="Collection" value={collection} onChange={setCollection} options={names} />
          <button class="primary" disabled={busy}>Search</button>
          <button type="button" disabled={busy || !query} onClick={explain}>Explain</button>
        </div>
        <FilterForm conditions={conditions} onChange={setConditions} />
        <Check label="Compare two settings" checked={isComparing} onChange={(on) => {
          setSides(on ? [sides[0], { ...sides[0], mode: 'keyword' }] : [sides[0]]);
          setFound(on ? found : found.slice(0, 1));
        }} />
        <div class={isComparing ? 'sides' : ''}>
          {sides.map((side, i) => (
            <Settings key={i} title={isComparing ? `Settings ${'AB'[i]}` : 'Settings'}
              open={isComparing} side={side} onChange={(part) => change(i, part)}
              rerankers={access.rerankers} />))}
        </div>
      </form>
      <Fault error={error} />
      {busy && <Loading />}
      {steps && <Waterfall steps={steps} />}
      <div class={isComparing ? 'sides' : ''}>
        {found.map((side, i) => (
          <Results key={i} title={isComparing ? `Results ${'AB'[i]}` : 'Results'} {...side}
            others={isComparing ? found[1 - i]?.results : undefined} />))}
      </div>
    </Page>
  );
}

function Settings({ title, open, side, onChange, rerankers }) {
  return (
    <details class="settings" open={open}>
      <summary>{title}</summary>
      <div class="grid-form">
        <Select label="Mode" value={side.mode} onChange={(mode) => onChange({ mode })}
          options={[['', 'of the collection'], 'hybrid', 'vector', 'keyword']} />
        <Select label="Fusion" value={side.fusion} onChange={(fusion) => onChange({ fusion })}
          options={[['', 'of the collection'], 'weighted', 'rrf']} />
        <Select label="Reranker" value={side.rerank} onChange={(rerank) => onChange({ rerank })}
          options={[['', 'none'], 'late', ...rerankers]} />
        <Input label="Results" type="number" min={1} max={100} value={side.top_k}
          onChange={(value) => onChange({ top_k: Number(value) || 5 })} />
        <div>
          <Check label="Weights by the query" checked={side.byQuery}
            onChange={(byQuery) => onChange({ byQuery })} />
          {!side.byQuery && (
            <Slider label="Meaning against words" value={side.vector_weight}
              shown={`${side.vector_weight.toFixed(2)} : ${(1 - side.vector_weight).toFixed(2)}`}
              onChange={(value) => onChange({ vector_weight: value })} />)}
        </div>
        <Slider label="Least score" value={side.score_threshold}
          shown={side.score_threshold.toFixed(2)}
          onChange={(value) => onChange({ score_threshold: value })} />
        <Slider label="Chunks of a document" value={side.per_document} max={10} step={1}
          shown={side.per_document || 'any'}
          onChange={(value) => onChange({ per_document: value })} />
        <Slider label="Neighbours" value={side.neighbours} max={10} step={1}
          onChange={(value) => onChange({ neighbours: value })} />
      </div>
    </details>
  );
}

function Results({ title, results, took, others }) {
  const isNew = (result) => others && !others.some((one) => one.chunk_id === result.chunk_id);
  return (
    <section class="results">
      <header class="card-head"><h2>{title}</h2>
        <span class="muted" role="status">{plural(results.length, 'result')},{' '}
          {milliseconds(took)}</span></header>
      {results.length === 0 && <Card><Empty>Nothing was found.</Empty></Card>}
      <ol>
        {results.map((result) => (
          <li key={result.chunk_id} class="card result">
            <header>
              <span class="rank" aria-hidden="true">{result.rank}</span>
              <div>
                <h3><a href={documentLink(result.collection, result.document_id,
                  result.chunk_index)}>{result.title || result.uri}</a></h3>
                <p class="muted"><Address uri={result.uri} />{where(result)}</p>
              </div>
              {isNew(result) && <Badge tone="busy">only here</Badge>}
              <span class="total" title="score">{score(result.score)}</span>
            </header>
            {result.heading_path?.length > 0 && (
              <p class="path">{result.heading_path.join(' › ')}</p>)}
            <p class="text"><Marked text={result.content} matches={result.matches} /></p>
            <Scores result={result} />
          </li>))}
      </ol>
    </section>
  );
}

function where(result) {
  if (result.page) return `, page ${result.page}`;
  if (!result.start_line) return '';
  return result.end_line > result.start_line
    ? `, lines ${result.start_line}–${result.end_line}` : `, line ${result.start_line}`;
}

function Waterfall({ steps }) {
  const parts = steps.filter((step) => step.step !== 'total');
  const total = parts.reduce((sum, step) => sum + (step.milliseconds || 0), 0) || 1;
  let before = 0;
  const all = steps.find((step) => step.step === 'total');
  return (
    <Card title="What the search did"
      actions={all && <span class="muted">{all.detail}, {milliseconds(all.milliseconds)}</span>}>
      <ol class="waterfall">
        {parts.map((step, i) => {
          const took = step.milliseconds || 0;
          const left = (100 * before) / total;
          before += took;
          return (
            <li key={i}>
              <strong>{step.step}</strong>
              <div class="lane" aria-hidden="true"><div style={{
                marginLeft: `${Math.min(left, 99.5)}%`,
                width: `${Math.max(0.5, (100 * took) / total)}%`,
              }} /></div>
              <span class="right">{milliseconds(step.milliseconds)}</span>
              <p class="muted">{step.detail}{step.rows !== null
                && `; ${plural(step.rows, 'row')}`}{step.pages > 0
                && `, ${number(step.pages)} pages`}</p>
            </li>);
        })}
      </ol>
    </Card>
  );
}
