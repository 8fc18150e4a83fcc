// Requests to the service: their problems (RFC 9457), stage times and offsets.

const KEY = "swiftlet.key";
const TOTAL = "total";
const DEFAULT_RETRY_SECONDS = 5;

const HEADINGS = {
  0: "The service cannot be reached",
  401: "This service asks for a key",
  403: "This key is not accepted",
  429: "The service is busy",
  503: "Not ready for searches",
  504: "The search ran out of time",
};
const SENTENCES = {
  0: "It may have stopped, or this device has no connection to it.",
  401: "Ask the operator of the service for one.",
  403: "Check it for a missing character, or ask for another one.",
};

/** An answer that is not a success, or none at all (status 0). */
export class Problem extends Error {
  constructor(status, fields = {}, retryAfterSeconds = null) {
    super(fields.title || `The service answered ${status}`);
    this.status = status;
    this.detail = typeof fields.detail === "string" ? fields.detail : "";
    this.heading = HEADINGS[status] ?? this.message;
    this.sentence = asSentence(SENTENCES[status] ?? this.detail);
    this.words = `${this.heading}. ${this.sentence}`;
    this.requestId = typeof fields.request_id === "string" ? fields.request_id : "";
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

function asSentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Pass the answer of a request to `draw`, or write into an element why there is none. */
export async function fill(target, request, draw) {
  try {
    await draw(await request());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) throw error;
    target.textContent = error.words;
  }
}

/** The hits of a request, their `index`, `next` if more may follow, and the milliseconds of each stage. */
export async function search(asked, signal) {
  const started = performance.now();
  const response = await ask("search", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(asked),
    signal,
  });
  const { hits, index, next } = await read(response);
  const answeredBy = response.headers.get("X-Request-Id");
  for (const hit of hits) hit.answeredBy = answeredBy;
  const times = serverTiming(response.headers.get("Server-Timing") ?? "");
  return { hits, index, next, ...stagesOf(times, performance.now() - started) };
}

/** Note in the query log which hit was opened; the page does not wait for it. */
export async function reportOpened({ answeredBy, document_id: id }) {
  const body = JSON.stringify({ request_id: answeredBy, document_id: id });
  const headers = { "Content-Type": "application/json" };
  await ask("feedback", { method: "POST", headers, body, keepalive: true }).catch(() => {});
}

/** The answer to whoever has an admin key; a body is posted. */
export async function fetchAsAdmin(path, key, body) {
  return read(await ask(path, { method: body ? "POST" : "GET", body, headers: { Authorization: `Bearer ${key}` } }));
}

/** A stored document. */
export async function fetchDocument(documentId, signal) {
  return read(await ask(`documents/${encodeURIComponent(documentId)}`, { signal }));
}

/** The index and the encoder of the service. */
export async function fetchInfo() {
  return read(await ask("info"));
}

/** The values of each facet and their counts, of the documents that pass a filter in JSON. */
export async function fetchFacets(filter) {
  const { facets } = await read(await ask(filter ? `facets?${new URLSearchParams({ filter })}` : "facets"));
  return facets;
}

/** The score in each mode below which a hit is weak. */
export async function fetchWeak() {
  return (await read(await ask("weak"))).weak_below;
}

/** The original of a document. */
export async function fetchFile(documentId) {
  return (await ask(`files/${encodeURIComponent(documentId)}`)).blob();
}

/** Titles of documents that have the typed words. */
export async function fetchSuggestions(text, limit, signal) {
  const { suggestions } = await read(await ask(`suggest?${new URLSearchParams({ q: text, limit })}`, { signal }));
  return suggestions;
}

/** Put documents into the index; the answer has their number. */
export async function putDocuments(documents, key) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}` };
  return read(await ask("documents", { method: "PUT", headers, body: JSON.stringify({ documents }) }));
}

const ofThisPage = new Map();

/** Keep a value for this tab. */
export function keep(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // The browser has no storage: the value is then kept as long as the page is open.
  }
  ofThisPage.set(name, value);
}

/** What was kept under a name, if anything. */
export function kept(name) {
  try {
    return ofThisPage.get(name) ?? sessionStorage.getItem(name);
  } catch {
    return ofThisPage.get(name);
  }
}

/** Keep a key for this tab, and send it from now on. */
export function keepKey(key) {
  keep(KEY, key);
}

/** Whether requests are sent with a key. */
export function hasKey() {
  return Boolean(kept(KEY));
}

/** The header with the key, if there is one. */
export function authorisation() {
  const key = kept(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...authorisation(), ...options.headers } });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem(0);
  }
  if (response.ok) return response;
  const fields = await response.json().catch(() => ({}));
  throw new Problem(response.status, fields ?? {}, retryAfterSeconds(response));
}

async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem(0);
  }
}

function retryAfterSeconds(response) {
  if (response.status !== 429 && response.status !== 503) return null;
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return Number.isNaN(seconds) ? DEFAULT_RETRY_SECONDS : Math.max(1, seconds);
}

function serverTiming(header) {
  const times = new Map();
  for (const metric of header.split(",")) {
    const [name, ...parameters] = metric.split(";").map((part) => part.trim());
    const duration = parameters.find((parameter) => parameter.startsWith("dur="));
    if (duration) times.set(name, Number(duration.slice("dur=".length)));
  }
  return times;
}

// If a proxy dropped the header, the total is the time that the browser measured.
function stagesOf(times, measured) {
  const milliseconds = times.get(TOTAL) ?? measured;
  const stages = [...times].filter(([name]) => name !== TOTAL);
  const rest = milliseconds - stages.reduce((sum, [, duration]) => sum + duration, 0);
  if (stages.length && rest > 0) stages.push(["other", rest]);
  return { milliseconds, stages };
}

/**
 * Where the character number `characters` begins in a JavaScript string.
 *
 * The service counts code points; a string here counts UTF-16 units, two for an emoji.
 */
export function unitOffset(text, characters) {
  let unit = 0;
  for (let character = 0; character < characters && unit < text.length; character += 1) {
    unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
  }
  return unit;
}
