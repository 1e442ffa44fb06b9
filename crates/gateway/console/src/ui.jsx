// Parts that all pages have.
import { useCallback, useEffect, useId, useRef, useState } from 'preact/hooks';
import { ago, exact, webAddress } from './format.js';

// Loads data, again when `inputs` change, and every `every` milliseconds while the page is seen.
export function useData(load, inputs, every) {
  const [state, setState] = useState({ loading: true });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  useEffect(() => {
    const abort = new AbortController();
    let timer;
    const run = async () => {
      try {
        const data = await load(abort.signal);
        if (!abort.signal.aborted) setState({ data });
      } catch (error) {
        if (!abort.signal.aborted) setState((old) => ({ data: old.data, error }));
      }
      if (every && !abort.signal.aborted) timer = setTimeout(next, every);
    };
    const next = () => {
      if (document.hidden) timer = setTimeout(next, every);
      else run();
    };
    setState((old) => ({ ...old, loading: true }));
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...inputs, round, every]);
  return { ...state, reload };
}

// A value that follows another one once it has stayed the same for a while.
export function useSettled(value, delay = 250) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return settled;
}

const ICONS = {
  overview: 'M3 12h4l3-8 4 16 3-8h4',
  sources: 'M4 6c0-3 16-3 16 0s-16 3-16 0v12c0 3 16 3 16 0V6M4 12c0 3 16 3 16 0',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14Zm5 12 5 5',
  documents: 'M6 3h8l5 5v13H6zM14 3v5h5M9 13h7M9 17h7',
  ask: 'M4 5h16v11H10l-5 4v-4H4z',
  indexes: 'M4 20V10m5 10V4m5 16v-7m5 7V8',
  models: 'M7 7h10v10H7zM10 3v4m4-4v4m-4 10v4m4-4v4M3 10h4m-4 4h4m10-4h4m-4 4h4',
  plus: 'M12 5v14M5 12h14',
  close: 'm6 6 12 12M18 6 6 18',
};

export const Icon = ({ name }) => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d={ICONS[name]} /></svg>
);

export const Page = ({ title, about, actions, children }) => (
  <>
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {about && <p class="muted">{about}</p>}
      </div>
      {actions && <div class="actions">{actions}</div>}
    </header>
    {children}
  </>
);

export const Card = ({ title, actions, children, flush }) => (
  <section class={flush ? 'card flush' : 'card'}>
    {title && <header class="card-head"><h2>{title}</h2>{actions}</header>}
    {children}
  </section>
);

export const Fault = ({ error }) => error && (
  <div class="note bad" role="alert">
    <strong>{error.message}</strong>
    {error.hint && <span>{error.hint}</span>}
  </div>
);

export const Empty = ({ children }) => <p class="empty">{children}</p>;

// The error of a load, what shows that it runs, or its data.
export function Loaded({ state, children }) {
  return (
    <>
      <Fault error={state.error} />
      {state.data ? children(state.data) : state.loading && <Loading />}
    </>
  );
}

export const Loading = () => <p class="loading" role="status"><span>Loading…</span></p>;

const TONES = {
  Completed: 'good', Running: 'busy', Pending: 'plain', Failed: 'bad', Retrying: 'warn',
  Suspended: 'plain', Terminating: 'plain', error: 'bad', warning: 'warn', notice: 'plain',
  ready: 'good', active: 'good', empty: 'plain', building: 'busy', syncing: 'busy', stale: 'warn',
  mixed: 'warn', degraded: 'warn', damaged: 'bad', pending: 'plain',
};

export const Badge = ({ children, tone }) => (
  <span class={`badge ${tone || TONES[children] || 'plain'}`}>{children}</span>
);

export const Time = ({ at }) => <time dateTime={at} title={exact(at)}>{ago(at)}</time>;

// A part of a whole. Without a total it moves to show that something happens.
export function Progress({ done, total, label }) {
  const known = total > 0;
  const share = known ? Math.min(100, (100 * done) / total) : 0;
  return (
    <div class={known ? 'progress' : 'progress unknown'} role="progressbar" aria-label={label}
      aria-valuemin={0} aria-valuemax={100} aria-valuenow={known ? Math.round(share) : undefined}>
      <div style={known ? { width: `${share}%` } : undefined} />
    </div>
  );
}

export function Field({ label, help, children }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': help ? `${id}-help` : undefined })}
      {help && <p class="help" id={`${id}-help`}>{help}</p>}
    </div>
  );
}

export const Select = ({ label, help, value, onChange, options }) => (
  <Field label={label} help={help}>
    {(field) => (
      <select {...field} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => {
          const [choice, name] = Array.isArray(option) ? option : [option, option];
          return <option key={choice} value={choice}>{name}</option>;
        })}
      </select>
    )}
  </Field>
);

export const Input = ({ label, help, value, onChange, ...rest }) => (
  <Field label={label} help={help}>
    {(field) => (
      <input {...field} {...rest} value={value}
        onInput={(event) => onChange(event.currentTarget.value)} />
    )}
  </Field>
);

export const Check = ({ label, checked, onChange }) => (
  <label class="check">
    <input type="checkbox" checked={checked}
      onChange={(event) => onChange(event.currentTarget.checked)} />
    {label}
  </label>
);

export function Slider({ label, value, onChange, min = 0, max = 1, step = 0.05, shown }) {
  return (
    <Field label={<>{label} <output>{shown ?? value}</output></>}>
      {(field) => (
        <input {...field} type="range" min={min} max={max} step={step} value={value}
          onInput={(event) => onChange(Number(event.currentTarget.value))} />
      )}
    </Field>
  );
}

// A table that scrolls sideways on its own where it does not fit.
export const Table = ({ head, label, children }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    <table>
      <thead><tr>{head.map((name) => (
        <th key={name} scope="col" class={name.startsWith('#') ? 'right' : undefined}>
          {name.replace('#', '')}
        </th>))}</tr></thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

// Pages of a list that is read from one name to the next: `trail` has where each page begins.
export function Pager({ trail, setTrail, next, shown }) {
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={trail.length === 0}
        onClick={() => setTrail(trail.slice(0, -1))}>Previous</button>
      <span>Page {trail.length + 1}{shown !== undefined && `, ${shown} shown`}</span>
      <button type="button" disabled={!next} onClick={() => setTrail([...trail, next])}>
        Next</button>
    </nav>
  );
}

export function Dialog({ title, onClose, children, wide }) {
  const dialog = useRef();
  const id = useId();
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return (
    <dialog ref={dialog} class={wide ? 'wide' : undefined} aria-labelledby={id} onClose={onClose}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close"
          onClick={() => dialog.current.close()}><Icon name="close" /></button>
      </header>
      {children}
    </dialog>
  );
}

// An address as text, and as a link if it is one of the web.
export function Address({ uri }) {
  const web = webAddress(uri);
  return web
    ? <a class="uri" href={web} target="_blank" rel="noopener noreferrer">{uri}</a>
    : <span class="uri">{uri}</span>;
}

export const documentLink = (collection, id, chunk) =>
  `#/documents/${encodeURIComponent(collection)}/${encodeURIComponent(id)}`
  + (chunk === undefined || chunk === null ? '' : `/${chunk}`);
