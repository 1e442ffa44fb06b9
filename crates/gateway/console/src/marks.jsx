// Text with some of its words marked. PostgreSQL counts characters, JavaScript half of some.

const parse = (range) => /^\[(\d+),(\d+)\)$/.exec(range)?.slice(1).map(Number);

// Texts and marked texts, in turn. `matches` are ranges as in "[3,9)".
export function pieces(text, matches) {
  const letters = Array.from(text);
  const found = [];
  let end = 0;
  for (const match of matches || []) {
    const range = parse(match);
    if (!range || range[0] < end) continue;
    found.push({ text: letters.slice(end, range[0]).join('') });
    found.push({ text: letters.slice(range[0], range[1]).join(''), marked: true });
    [, end] = range;
  }
  found.push({ text: letters.slice(end).join('') });
  return found.filter((piece) => piece.text);
}

export const Marked = ({ text, matches }) =>
  pieces(text, matches).map((piece, i) =>
    (piece.marked ? <mark key={i}>{piece.text}</mark> : piece.text));

// A text cut into segments by the chunks that lie on it: [{text, chunks: [index, ...]}].
export function segments(text, chunks, from = 0, to = Infinity) {
  const letters = Array.from(text);
  const spans = chunks.map((chunk) => ({
    index: chunk.chunk_index,
    start: chunk.start_index,
    end: chunk.start_index + Array.from(chunk.content).length,
  }));
  const first = Math.max(0, from);
  const last = Math.min(letters.length, to);
  const inside = (place) => place > first && place < last;
  const places = new Set([first, last]);
  for (const span of spans) {
    if (inside(span.start)) places.add(span.start);
    if (inside(span.end)) places.add(span.end);
  }
  const cuts = [...places].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((start, i) => ({
    text: letters.slice(start, cuts[i + 1]).join(''),
    chunks: spans.filter((span) => span.start <= start && span.end > start)
      .map((span) => span.index),
  }));
}
