// A filter as rows of a form: conditions that all must hold.
import { Icon } from '../ui.jsx';

const OPERATORS = [
  ['eq', 'is'], ['ne', 'is not'], ['contains', 'contains'], ['in', 'is one of'],
  ['gt', '>'], ['gte', '≥'], ['lt', '<'], ['lte', '≤'], ['start with', 'starts with'],
  ['before', 'is before'], ['after', 'is after'], ['empty', 'is empty'],
  ['not empty', 'is not empty'],
];
const KEYS = ['category', 'tags', 'title', 'uri', 'source', 'document_type', 'heading', 'page',
  'indexed_at'];
const WITHOUT_VALUE = ['empty', 'not empty'];

// A number or a truth value is meant as one; all else is text.
function valueOf({ operator, value }) {
  if (operator === 'in') return value.split(',').map((one) => valueOf({ value: one.trim() }));
  if (['true', 'false'].includes(value)) return value === 'true';
  return value !== '' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}

// The filter of the conditions that have a key. Undefined: there are none.
export function filterOf(conditions) {
  const given = conditions.filter((one) => one.key.trim());
  if (given.length === 0) return undefined;
  return {
    operator: 'and',
    conditions: given.map((one) => ({
      key: one.key.trim(),
      operator: one.operator,
      ...(!WITHOUT_VALUE.includes(one.operator) && { value: valueOf(one) }),
    })),
  };
}

export function FilterForm({ conditions, onChange }) {
  const change = (i, part) => onChange(
    conditions.map((one, j) => (i === j ? { ...one, ...part } : one)));
  return (
    <fieldset class="filter">
      <legend>Filter</legend>
      <datalist id="filter-keys">{KEYS.map((key) => <option key={key} value={key} />)}</datalist>
      {conditions.map((one, i) => (
        <div class="condition" key={i}>
          <input aria-label={`Key ${i + 1}`} list="filter-keys" placeholder="key" value={one.key}
            onInput={(event) => change(i, { key: event.currentTarget.value })} />
          <select aria-label={`Operator ${i + 1}`} value={one.operator}
            onChange={(event) => change(i, { operator: event.currentTarget.value })}>
            {OPERATORS.map(([id, name]) => <option key={id} value={id}>{name}</option>)}
          </select>
          {!WITHOUT_VALUE.includes(one.operator) && (
            <input aria-label={`Value ${i + 1}`} placeholder="value" value={one.value}
              onInput={(event) => change(i, { value: event.currentTarget.value })} />)}
          <button type="button" class="quiet" aria-label={`Remove condition ${i + 1}`}
            onClick={() => onChange(conditions.filter((_, j) => j !== i))}>
            <Icon name="close" /></button>
        </div>))}
      <button type="button" onClick={() =>
        onChange([...conditions, { key: '', operator: 'eq', value: '' }])}>
        <Icon name="plus" />Add a condition</button>
    </fieldset>
  );
}
