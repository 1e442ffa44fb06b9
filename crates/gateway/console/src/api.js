// Requests to the gateway, with the key of the session.

const KEY = 'rag-key';

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

// What a request that failed says: the body of RFC 9457.
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || `the gateway answered with status ${status}`);
    this.status = status;
    this.hint = body?.hint;
  }
}

// Called with each 401 of a session that has a key.
let onRefused = () => {};
export const whenRefused = (call) => { onRefused = call; };

async function send(method, path, body, signal) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: 'the gateway does not answer' });
  }
  if (!response.ok) {
    const problem = new Problem(response.status, await response.json().catch(() => null));
    if (response.status === 401 && key.get()) onRefused(problem);
    throw problem;
  }
  return response;
}

const json = async (...request) => (await send(...request)).json();

export const get = (path, signal) => json('GET', path, undefined, signal);
export const post = (path, body, signal) => json('POST', path, body, signal);

// A path with parameters, without those that are empty.
export function address(path, parameters) {
  const given = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== null && value !== '');
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

// Posts a request, and yields the server-sent events of its answer as {event, data}.
export async function* stream(path, body, signal) {
  const response = await send('POST', path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split('\n').map((line) => {
        const colon = line.indexOf(': ');
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
