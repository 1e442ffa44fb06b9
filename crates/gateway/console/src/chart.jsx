// Charts in SVG. Each has its numbers in a table beside it, so they are hidden from screen readers.

const WIDTH = 720;

// Columns of parts upon each other: [{label, parts: [{name, value}]}]. `names` give the colours.
export function Columns({ columns, names, height = 160, format }) {
  const sum = (column) => column.parts.reduce((total, part) => total + part.value, 0);
  const most = Math.max(...columns.map(sum), 0) || 1;
  const step = WIDTH / columns.length;
  const every = Math.ceil(columns.length / 8);
  return (
    <svg class="chart" viewBox={`0 0 ${WIDTH} ${height + 24}`} aria-hidden="true">
      {[0, 0.5, 1].map((share) => (
        <line key={share} class="grid" x1={0} x2={WIDTH} y1={height * (1 - share) + 1}
          y2={height * (1 - share) + 1} />))}
      <text class="axis" x={0} y={12}>{format(most)}</text>
      {columns.map((column, i) => {
        let top = height + 1;
        return (
          <g key={column.label}>
            {column.parts.filter((part) => part.value > 0).map((part) => {
              const size = ((height - 14) * part.value) / most;
              top -= size;
              return (
                <rect key={part.name} class={`series-${names.indexOf(part.name) % 6}`}
                  x={i * step + step * 0.15} width={step * 0.7} y={top}
                  height={Math.max(size, 1)} rx={Math.min(2, step * 0.2)}>
                  <title>{`${column.label}, ${part.name}: ${format(part.value)}`}</title>
                </rect>);
            })}
            {i % every === 0 && (
              <text class={i % (2 * every) === 0 ? 'axis' : 'axis minor'}
                x={Math.min(i * step + step / 2, WIDTH - 30)} y={height + 20}
                text-anchor={i === 0 ? 'start' : 'middle'}>{column.label}</text>)}
          </g>);
      })}
    </svg>
  );
}

export const Legend = ({ names }) => (
  <ul class="legend">
    {names.map((name, i) => (
      <li key={name}><svg viewBox="0 0 10 10" aria-hidden="true">
        <rect class={`series-${i % 6}`} width="10" height="10" rx="2" /></svg>{name}</li>))}
  </ul>
);

// Two numbers from 0 to 1 as bars.
export const Scores = ({ result }) => (
  <dl class="scores">
    <Score name="meaning" value={result.vector_score} />
    <Score name="words" value={result.keyword_score} />
  </dl>
);

const Score = ({ name, value }) => (
  <div class={`score ${name}`}>
    <dt>{name}</dt>
    <dd>
      <div class="bar" aria-hidden="true">
        <div style={{ width: `${100 * Math.min(1, Math.max(0, value || 0))}%` }} />
      </div>
      <span>{value === null || value === undefined ? 'not used' : value.toFixed(3)}</span>
    </dd>
  </div>
);
