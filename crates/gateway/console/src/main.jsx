// The console: login, navigation, and the page that the address names.
import './style.css';
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, key, whenRefused } from './api.js';
import { Fault, Icon, Loading } from './ui.jsx';
import { Ask } from './pages/ask.jsx';
import { Documents } from './pages/documents.jsx';
import { Indexes } from './pages/indexes.jsx';
import { Models } from './pages/models.jsx';
import { Overview } from './pages/overview.jsx';
import { Search } from './pages/search.jsx';
import { Sources } from './pages/sources.jsx';

const PAGES = [
  ['overview', 'Overview', Overview],
  ['sources', 'Sources', Sources],
  ['search', 'Search', Search],
  ['documents', 'Documents', Documents],
  ['ask', 'Ask', Ask],
  ['indexes', 'Indexes', Indexes],
  ['models', 'Models', Models],
];

const place = () => location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);

function usePlace() {
  const [parts, setParts] = useState(place);
  useEffect(() => {
    const follow = () => setParts(place());
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return parts;
}

function Login({ refused, onLogin }) {
  const [value, setValue] = useState('');
  const [error, setError] = useState(refused);
  const [busy, setBusy] = useState(false);
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    key.set(value.trim());
    try {
      onLogin(await get('/v1/access'));
    } catch (problem) {
      key.forget();
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form class="card" onSubmit={submit}>
        <img src="console.svg" alt="" width="44" height="44" />
        <h1>rag console</h1>
        <p class="muted">Log in with a key of <code>rag_create_api_key</code>. You see what its
          role may see.</p>
        <Fault error={error} />
        <div class="field">
          <label for="key">API key</label>
          <input id="key" type="password" autoComplete="off" spellcheck={false} required ref={field}
            placeholder="rag_…" value={value}
            onInput={(event) => setValue(event.currentTarget.value)} />
        </div>
        <button class="primary" disabled={busy}>{busy ? 'Checking…' : 'Log in'}</button>
        <p class="help">The key stays in this tab, until you close it or log out.</p>
      </form>
    </main>
  );
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem('rag-theme') || 'auto');
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('rag-theme', theme);
  }, [theme]);
  return (
    <label class="theme"><span aria-hidden="true">Theme</span>
      <select aria-label="Theme" value={theme}
        onChange={(event) => setTheme(event.currentTarget.value)}>
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function Console({ access, onLogout, onAccess }) {
  const parts = usePlace();
  const main = useRef();
  const [name, title, Shown] = PAGES.find(([page]) => page === parts[0]) || PAGES[0];
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} – rag console`;
    if (!isFirst.current) main.current.querySelector('h1')?.focus();
    isFirst.current = false;
    // on a phone the links are wider than the screen
    document.querySelector('nav [aria-current]')?.scrollIntoView({ inline: 'center' });
    scrollTo(0, 0);
  }, [parts.slice(0, 3).join('/')]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        main.current.focus();
      }}>Skip to the page</a>
      <header class="side">
        <a class="brand" href="#/overview"><img src="console.svg" alt="" width="28" height="28" />
          <span>rag</span></a>
        <nav aria-label="Console">
          {PAGES.map(([page, label]) => (
            <a key={page} href={`#/${page}`} aria-current={page === name ? 'page' : undefined}>
              <Icon name={page} />{label}</a>))}
        </nav>
        <div class="who">
          <p><span class="muted">Role</span> <strong>{access.role}</strong>
            {access.is_standby && <span class="badge warn">standby, read-only</span>}</p>
          <Theme />
          {key.get() && <button type="button" onClick={onLogout}>Log out</button>}
        </div>
      </header>
      <main ref={main} tabIndex={-1} id="main">
        <Shown key={name} access={access} parts={parts.slice(1)} onAccess={onAccess} />
      </main>
    </div>
  );
}

function App() {
  const [access, setAccess] = useState();
  const [refused, setRefused] = useState();
  const [known, setKnown] = useState(false);
  const load = async () => {
    try {
      setAccess(await get('/v1/access'));
    } catch (error) {
      if (key.get()) setRefused(error);
    }
    setKnown(true);
  };
  useEffect(() => {
    whenRefused((problem) => {
      key.forget();
      setRefused(problem);
      setAccess(undefined);
    });
    // without a key, a gateway with an anonymous role answers
    load();
  }, []);
  if (!known) return <Loading />;
  if (!access) {
    return <Login refused={refused} onLogin={(found) => {
      setRefused(undefined);
      setAccess(found);
    }} />;
  }
  const logout = () => {
    key.forget();
    setAccess(undefined);
  };
  return <Console access={access} onLogout={logout} onAccess={load} />;
}

render(<App />, document.getElementById('console'));
