// A client of one Quadrill server, for Node 18 or later and for browsers. Types and documentation: index.d.ts.

const RESULTS = "application/sparql-results+json, application/n-quads;q=0.9";
const PASSING = [429, 502, 503, 504]; // HTTP statuses of a busy or starting server, or of a proxy before it
const SILENCE_MS = 60_000; // a feed without data for so long is lost: the server sends a comment every 15 seconds
const LONGEST_WAIT_MS = 30_000;
const LONGEST_EVENT = 64 << 20; // characters
const XSD = "http://www.w3.org/2001/XMLSchema#";
const WHOLE = new Set(
  ("integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger " +
    "unsignedInt unsignedLong unsignedShort unsignedByte").split(" ").map((name) => XSD + name));
const REAL = new Set(["double", "float", "decimal"].map((name) => XSD + name));

export class QuadrillError extends Error {
  constructor(message, { status = null, problem = {}, retryAfter = null, cause } = {}) {
    super(problem.hint ? `${message}. ${problem.hint}` : message, { cause });
    this.name = "QuadrillError";
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? (status === null ? "unreachable" : "error");
    this.hint = problem.hint ?? null;
    this.retryAfter = retryAfter;
  }
}

export function plainValue(term) {
  if (term === undefined) return null;
  const { type, value, datatype } = term;
  if (type === "triple") {
    return Object.fromEntries(Object.entries(value).map(([part, each]) => [part, plainValue(each)]));
  }
  if (WHOLE.has(datatype) && /^[+-]?\d+$/.test(value)) {
    return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value.replace("+", ""));
  }
  if (REAL.has(datatype)) {
    const number = Number(value.replace("INF", "Infinity"));
    return Number.isNaN(number) && value !== "NaN" ? value : number;
  }
  if (datatype === XSD + "boolean") return value === "true" || value === "1";
  if (datatype === XSD + "dateTime") {
    const moment = new Date(/(Z|[+-]\d\d:\d\d)$/.test(value) ? value : `${value}Z`);
    return Number.isNaN(moment.getTime()) ? value : moment;
  }
  return value;
}

export class Answer {
  constructor(document) {
    this.document = document;
    this.variables = document.head?.vars ?? [];
    this.bindings = document.results?.bindings ?? [];
    this.boolean = document.boolean ?? null;
    this.quads = document.quads ?? null;
    this.at = document.at ?? null;
    this.version = document.version ?? null;
  }

  rows() {
    return this.bindings.map((row) =>
      Object.fromEntries(this.variables.map((name) => [name, plainValue(row[name])])));
  }
}

export class Client {
  #headers;
  #fetch;
  #timeout;

  constructor(url = "http://127.0.0.1:7878", { token, timeout = 60_000, fetch = globalThis.fetch } = {}) {
    this.url = (url.includes("://") ? url : `http://${url}`).replace(/\/*$/, "/");
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#timeout = timeout;
    this.#fetch = fetch.bind(globalThis); // browsers refuse a fetch that is called as a method of another object
  }

  async request(method, path, { params = {}, headers = {}, body, json, signal } = {}) {
    const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== false);
    const query = new URLSearchParams(given.map(([name, value]) => [name, moment(value)]));
    const type = json === undefined ? {} : { "Content-Type": "application/json" };
    let answer;
    try {
      answer = await this.#fetch(`${this.url}${path}${given.length ? `?${query}` : ""}`, {
        method,
        headers: { ...this.#headers, ...type, ...headers },
        body: json === undefined ? body : JSON.stringify(json),
        signal: signal ?? AbortSignal.timeout(this.#timeout),
        cache: "no-store",
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw lost(this.url, error);
    }
    if (!answer.ok) throw await refused(answer);
    return answer;
  }

  async query(text, { timeout } = {}) {
    const headers = { "Content-Type": "application/sparql-query", Accept: RESULTS };
    const answer = await this.request("POST", "query", { params: { timeout }, headers, body: text });
    return answerOf(answer);
  }

  async update(text) {
    await this.request("POST", "update", { headers: { "Content-Type": "application/sparql-update" }, body: text });
  }

  async declareStream(stream, members = {}) {
    return this.#json("PUT", ...streamOf(stream, "", {}), { json: members });
  }

  async push(stream, data, { mediaType, at, each, partial, wait, idempotencyKey } = {}) {
    const [body, type] = bodyOf(data, mediaType);
    const headers = { "Content-Type": type, ...(idempotencyKey ? { "Idempotency-Key": idempotencyKey } : {}) };
    return this.#json("POST", ...streamOf(stream, "", { at, each, partial, wait }), { headers, body });
  }

  async heartbeat(stream, at) {
    await this.#json("POST", ...streamOf(stream, ":heartbeat", { at }));
  }

  async register(text, { name, replace, ...options } = {}) {
    const json = { query: text, ...options };
    return name === undefined
      ? this.#json("POST", "queries", {}, { json })
      : this.#json("PUT", pathOf(name), { replace }, { json });
  }

  async queries() {
    return (await this.#json("GET", "queries", {})).queries;
  }

  async describe(name) {
    return this.#json("GET", pathOf(name), {});
  }

  async drop(name) {
    await this.request("DELETE", pathOf(name));
  }

  async current(name) {
    return answerOf(await this.request("GET", `${pathOf(name)}/results`, { headers: { Accept: "application/json" } }));
  }

  async *feed(name, { resume, snapshot = false, progress = false, signal } = {}) {
    const place = { last: resume ?? (await this.describe(name)).feed?.last_id, retry: 2000 };
    let first = true, whole = snapshot && resume === undefined, failures = 0;
    while (!signal?.aborted) {
      const connection = new AbortController();
      const end = () => connection.abort(signal?.reason);
      signal?.addEventListener("abort", end);
      let timer;
      const heard = () => {
        clearTimeout(timer);
        timer = setTimeout(() => connection.abort(new Error(`the feed of ${name} is silent`)), SILENCE_MS);
      };
      try {
        heard();
        const answer = await this.request("GET", `${pathOf(name)}/results`, {
          params: whole ? { snapshot: true } : place.last === 0 ? { from: 0 } : {},
          headers: { Accept: "text/event-stream", ...(!whole && place.last ? { "Last-Event-ID": place.last } : {}) },
          signal: connection.signal,
        });
        if (answer.status === 204) return;
        first = false;
        for await (const event of eventsOf(answer.body, heard, place)) {
          failures = 0;
          whole = false;
          if (progress || event.kind !== "progress") yield event;
        }
      } catch (error) {
        if (signal?.aborted) return;
        const passing = !(error instanceof QuadrillError) || error.status === null || PASSING.includes(error.status);
        if (first || !passing) throw error;
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        connection.abort();
      }
      failures += 1;
      await pause(Math.min(LONGEST_WAIT_MS, (place.retry * 2 ** Math.min(failures - 1, 30)) / 4), signal);
    }
  }

  async #json(method, path, params, options = {}) {
    const text = await (await this.request(method, path, { params, ...options })).text();
    return text ? JSON.parse(text) : {};
  }
}

// Parses Server-Sent Events by the rules of the HTML standard, section 9.2.6; place gets their ids and times.
async function* eventsOf(body, heard, place) {
  const reader = body.getReader(), decoder = new TextDecoder();
  let text = "", id = "", kind = "", data = [];
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const chunk = decoder.decode(value, { stream: true });
      const whole = text.endsWith("\r") || /[\r\n]/.test(chunk);
      text += chunk;
      if (text.length > LONGEST_EVENT) throw new QuadrillError("an event of the feed is too long", { status: 200 });
      if (!whole) continue; // a long event is split into lines once, not after each chunk
      const lines = text.split(/\r\n|\n|\r(?!$)/);
      text = lines.pop();
      for (const line of lines) {
        const [, name, content] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
        if (line === "") {
          if (data.length) yield eventOf(kind || "message", id, data.join("\n"), place);
          [kind, data] = ["", []];
        } else if (name === "data") data.push(content ?? "");
        else if (name === "event") kind = content ?? "";
        else if (name === "id") id = content ?? "";
        else if (name === "retry" && /^\d{1,9}$/.test(content ?? "")) place.retry = Number(content);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(kind, id, data, place) {
  // Events of these kinds have no id: the parser repeats the one before.
  const number = id && kind !== "progress" && kind !== "reset" ? Number(id) : null;
  place.last = number ?? place.last;
  return { id: number, kind, answer: new Answer(JSON.parse(data)) };
}

function bodyOf(data, mediaType) {
  if (typeof data === "string" || ArrayBuffer.isView(data) || data instanceof ArrayBuffer) {
    if (!mediaType) throw new TypeError("text and bytes need their mediaType, for instance text/turtle");
    return [data, mediaType];
  }
  if (typeof data?.[Symbol.iterator] === "function") {
    return [[...data].map((record) => `${JSON.stringify(record)}\n`).join(""), "application/x-ndjson"];
  }
  if (data === null || typeof data !== "object") throw new TypeError(`${data} cannot be pushed`);
  return [JSON.stringify(data), "application/json"];
}

function streamOf(stream, what, params) {
  if (stream.includes(":")) return [`streams${what}`, { iri: stream, ...params }];
  return [`streams/${encodeURIComponent(stream)}${what}`, params];
}

function pathOf(name) {
  return `queries/${encodeURIComponent(name)}`;
}

function moment(value) {
  return value instanceof Date ? value.toISOString() : String(value);
}

async function answerOf(answer) {
  const type = answer.headers.get("Content-Type") ?? "";
  return new Answer(type.includes("json") ? await answer.json() : { quads: await answer.text() });
}

async function refused(answer) {
  const problem = await answer.json().catch(() => null);
  const after = answer.headers.get("Retry-After") ?? "";
  return new QuadrillError(problem?.detail ?? `the server answered ${answer.status} ${answer.statusText}`, {
    status: answer.status,
    problem: problem?.detail ? problem : {},
    retryAfter: /^\d+$/.test(after) ? Number(after) : null,
  });
}

function lost(url, error) {
  return new QuadrillError(`no server answers at ${url}: ${error.cause?.message ?? error.message}`, { cause: error });
}

function pause(milliseconds, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}
