// Numbers, sizes and times for people.

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const NONE = '–';

const isMissing = (value) => value === null || value === undefined;

export const number = (value) => (isMissing(value) ? NONE : whole.format(value));
export const compact = (value) => (isMissing(value) ? NONE : short.format(value));
export const score = (value) => (isMissing(value) ? NONE : value.toFixed(3));

export function bytes(value) {
  if (isMissing(value)) return NONE;
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

export function milliseconds(value) {
  if (isMissing(value)) return NONE;
  if (value > 0 && value < 0.1) return '< 0.1 ms';
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function money(value) {
  if (isMissing(value)) return NONE;
  return value >= 1 || value === 0 ? value.toFixed(2) : value.toPrecision(2);
}

const UNITS = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });

// A time as in "3 min. ago".
export function ago(time) {
  if (!time) return NONE;
  const seconds = (new Date(time) - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, least]) => Math.abs(seconds) >= least) || UNITS[3];
  return relative.format(Math.trunc(seconds / size), unit);
}

export const exact = (time) => (time ? new Date(time).toLocaleString() : '');

// An interval of PostgreSQL, such as 00:01:02.5, in short.
export function interval(text) {
  const match = /^(?:(\d+) days? ?)?(?:(\d+):(\d+):([\d.]+))?/.exec(text || '');
  if (!match || !match[0]) return text || NONE;
  const [days, hours, minutes, seconds] = match.slice(1).map((part) => Number(part || 0));
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes) return `${minutes} min ${Math.floor(seconds)} s`;
  return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
}

export const plural = (count, one, many = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : many}`;

// The address that a link may have: of the web alone.
export function webAddress(uri) {
  try {
    const url = new URL(uri);
    return ['http:', 'https:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
