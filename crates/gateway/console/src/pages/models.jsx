// Models: their calls, errors and cost, by day.
import { useState } from 'preact/hooks';
import { get } from '../api.js';
import { Columns, Legend } from '../chart.jsx';
import { NONE, compact, money, number } from '../format.js';
import { Badge, Card, Empty, Loaded, Page, Select, Table, useData } from '../ui.jsx';

const MEASURES = {
  cost: ['Cost', money], calls: ['Calls', number], errors: ['Errors', number],
  tokens: ['Tokens', compact],
};
const DAYS = 30;

export function Models() {
  const state = useData((signal) => get('/v1/model-usage', signal), []);
  return (
    <Page title="Models" about="What embeds, reranks and answers, and what it costs.">
      <Loaded state={state}>{(data) => (
        <>
          <Usage days={data.days} />
          <Card title="Models" flush>
            {data.models.length === 0 ? <Empty>Only the built-in model is used. It has no cost.
            </Empty> : (
              <Table label="Models" head={['Model', 'Kind', 'Provider', 'At its server', 'Used by',
                '#Calls', '#Errors', '#Tokens', '#Cost']}>
                {data.models.map((one) => (
                  <tr key={one.name}>
                    <td><strong>{one.name}</strong>
                      {!one.may_use && <> <Badge tone="warn">not granted</Badge></>}</td>
                    <td>{one.kind}</td><td>{one.provider}</td><td>{one.model || NONE}</td>
                    <td>{one.used_by?.join(', ') || NONE}</td>
                    <td class="right">{number(one.calls)}</td>
                    <td class="right">{number(one.errors)}</td>
                    <td class="right">{compact(one.tokens)}</td>
                    <td class="right">{money(one.cost)}</td>
                  </tr>))}
              </Table>)}
          </Card>
        </>)}</Loaded>
    </Page>
  );
}

function Usage({ days }) {
  const hasCost = days.some((day) => day.cost > 0);
  const [measure, setMeasure] = useState(hasCost ? 'cost' : 'calls');
  const [, format] = MEASURES[measure];
  const names = [...new Set(days.map((day) => day.model))].sort();
  const today = Date.now();
  const columns = Array.from({ length: DAYS }, (_, i) => {
    const day = new Date(today - (DAYS - 1 - i) * 86400000).toISOString().slice(0, 10);
    return {
      label: day.slice(5),
      parts: names.map((name) => ({
        name,
        value: Number(days.find((one) => one.model === name && one.day === day)?.[measure] || 0),
      })),
    };
  });
  return (
    <Card title="By day" actions={<Select label="Measure" value={measure} onChange={setMeasure}
      options={Object.entries(MEASURES).map(([id, [name]]) => [id, name])} />}>
      {days.length === 0 ? <Empty>No model has been called yet.</Empty> : (
        <>
          <Columns columns={columns} names={names} format={format} />
          <Legend names={names} />
          <details><summary>Numbers</summary>
            <Table label="Calls by day" head={['Day', 'Model', '#Calls', '#Errors', '#Tokens',
              '#Cost']}>
              {days.slice(-100).reverse().map((day) => (
                <tr key={`${day.day} ${day.model}`}><td>{day.day}</td><td>{day.model}</td>
                  <td class="right">{number(day.calls)}</td>
                  <td class="right">{number(day.errors)}</td>
                  <td class="right">{number(day.tokens)}</td>
                  <td class="right">{money(day.cost)}</td></tr>))}
            </Table></details>
        </>)}
    </Card>
  );
}
