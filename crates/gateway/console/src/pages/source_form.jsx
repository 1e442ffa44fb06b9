// The form of a new source. kinds.json says which keys the spec of a kind has.
import { useState } from 'preact/hooks';
import { post } from '../api.js';
import { Badge, Check, Dialog, Fault, Field, Input, Select } from '../ui.jsx';
import kinds from '../kinds.json';

const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);

// The spec of a form, without keys that were left empty.
export function specOf(kind, values) {
  const spec = {};
  for (const { name, type } of kinds[kind].keys) {
    const value = values[name];
    if (value === undefined || value === '') continue;
    if (type === 'texts') spec[name] = lines(value);
    else if (type === 'number') spec[name] = Number(value);
    else if (type === 'boolean') spec[name] = value === 'true';
    else if (type === 'object') spec[name] = JSON.parse(value);
    else spec[name] = value;
  }
  return spec;
}

function Key({ definition, value = '', onChange }) {
  const { name, type, required, about, example, choices } = definition;
  const label = required ? `${name} *` : name;
  if (choices || type === 'boolean') {
    const options = choices || ['true', 'false'];
    return <Select label={label} help={about} value={value} onChange={onChange}
      options={[['', 'default'], ...options]} />;
  }
  if (type === 'texts' || type === 'object') {
    return (
      <Field label={label} help={type === 'texts' ? `${about}; one a line` : `${about}; JSON`}>
        {(field) => <textarea {...field} rows={3} required={required} placeholder={example}
          value={value} onInput={(event) => onChange(event.currentTarget.value)} />}
      </Field>);
  }
  return <Input label={label} help={about} required={required} placeholder={example} value={value}
    onChange={onChange} {...(type === 'number' && { type: 'number', step: 'any' })} />;
}

export function SourceForm({ access, onClose, onCreated }) {
  const writable = access.collections.filter((one) => one.write).map((one) => one.name);
  const [kind, setKind] = useState('folder');
  const [values, setValues] = useState({});
  const [name, setName] = useState('');
  const [collection, setCollection] = useState(
    writable.includes('default') ? 'default' : writable[0]);
  const [schedule, setSchedule] = useState('');
  const [credentials, setCredentials] = useState('');
  const [suspend, setSuspend] = useState(false);
  const [problems, setProblems] = useState();
  const [error, setError] = useState();
  const [busy, setBusy] = useState(false);
  const definition = () => ({
    name, kind, collection, spec: specOf(kind, values),
    ...(schedule && { schedule }), ...(credentials && { credentials }),
  });
  const run = async (call) => {
    setBusy(true);
    setError(undefined);
    setProblems(undefined);
    try {
      await call();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const validate = () => run(async () => {
    setProblems((await post('/v1/sources/validate', definition())).problems);
  });
  const create = (event) => {
    event.preventDefault();
    run(async () => onCreated(await post('/v1/sources', { ...definition(), suspend })));
  };
  return (
    <Dialog title="New source" onClose={onClose} wide>
      <form onSubmit={create} class="form">
        <fieldset class="kinds">
          <legend>Kind</legend>
          {Object.entries(kinds).map(([id, one]) => (
            <label key={id} class={id === kind ? 'kind chosen' : 'kind'}>
              <input type="radio" name="kind" value={id} checked={id === kind}
                onChange={() => setKind(id)} />
              <strong>{id}</strong><span>{one.about}</span>
            </label>))}
        </fieldset>
        <div class="two">
          <Input label="Name *" required value={name} onChange={setName}
            help="names the source; namespace/name in a namespace" />
          <Select label="Collection" value={collection} onChange={setCollection}
            options={writable} help="that it fills" />
        </div>
        <div class="two">
          {kinds[kind].keys.map((one) => (
            <Key key={`${kind} ${one.name}`} definition={one} value={values[one.name]}
              onChange={(value) => setValues({ ...values, [one.name]: value })} />))}
        </div>
        <div class="two">
          <Input label="Schedule" value={schedule} onChange={setSchedule} placeholder="@hourly"
            help="such as @daily or 0 3 * * *; empty: one run" />
          <Input label="Credentials" value={credentials} onChange={setCredentials}
            help="name of a secret" />
        </div>
        <Check label="Suspended: no scheduled runs" checked={suspend} onChange={setSuspend} />
        <Fault error={error} />
        {problems && (problems.length === 0
          ? <div class="note good" role="status"><strong>The definition has no problems.</strong>
          </div>
          : <div role="status"><ul class="rows">{problems.map((one, i) => (
            <li key={i} class="problem"><Badge>{one.severity}</Badge>
              <div><p><strong>{one.field}</strong> {one.problem}</p>
                {one.hint && <p class="muted">{one.hint}</p>}</div></li>))}</ul></div>)}
        <footer class="buttons">
          <button type="button" disabled={busy} onClick={validate}>Validate</button>
          <button class="primary" disabled={busy}>Create</button>
        </footer>
      </form>
    </Dialog>
  );
}
