// What the store and the streams know, for completion: prefixes, streams, graphs, predicates, classes. Every question
// has a limit and a time-out; the answers are kept for the version of the store that they were asked at.

import { call } from "../base/api.js";
import { byId } from "../base/dom.js";

const KEPT = "quadrill.vocabulary";
const AGAIN_MS = 3_000;
const SAMPLE = 3_000;
const MOST = 400;
const STREAMS_READ = 12;
const EMPTY = { prefixes: {}, streams: [], graphs: [], predicates: [], classes: [] };

const PATTERNS = { predicates: "?s ?iri ?o", classes: "?s a ?iri" };
const everywhere = (pattern) => [pattern, `GRAPH ?g { ${pattern} }`];

let known = read();
let asking = null;

/** What is known now, {prefixes, streams, graphs, predicates, classes}; asks behind it where the store has moved on. */
export async function vocabulary() {
  const version = byId("store-version")?.textContent ?? "";
  const fresh = known.version === version || Date.now() - known.at < AGAIN_MS;
  if (!fresh && asking === null) asking = ask(version).finally(() => (asking = null));
  return known.at === 0 ? (await asking) ?? known.found : known.found;
}

async function ask(version) {
  let complete = true;
  // What cannot be had is not offered, and asked for again soon: completion never complains.
  const quietly = async (work, otherwise) => {
    try {
      return await work();
    } catch {
      complete = false;
      return otherwise;
    }
  };
  const [prefixes, streams, graphs, predicates, classes] = await Promise.all([
    quietly(async () => Object.fromEntries((await call("GET", "/prefixes")).data.map(({ prefix, uri }) => [prefix, uri])), {}),
    quietly(async () => (await call("GET", "/streams")).data.streams.map(({ name, iri }) => ({ name, iri })), []),
    quietly(() => iris(`SELECT ?iri WHERE { GRAPH ?iri {} } LIMIT ${MOST}`), []),
    ...Object.values(PATTERNS).map((pattern) => quietly(() => namesIn(pattern), [])),
  ]);
  const pushed = await Promise.all(streams.slice(0, STREAMS_READ).map(({ name }) => quietly(() => predicatesOf(name), [])));
  const found = { prefixes, streams, graphs, predicates: [...new Set([...pushed.flat(), ...predicates])], classes };
  known = { version: complete ? version : null, at: Date.now(), found };
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(known));
  } catch {
    // Too large to keep: it is asked for again on the next page.
  }
  return found;
}

async function iris(query) {
  const { data } = await call("POST", "/query?timeout=2", { body: query, type: "application/sparql-query", accept: "application/sparql-results+json" });
  return data.results.bindings.filter(({ iri }) => iri?.type === "uri").map(({ iri }) => iri.value);
}

/** The names that a pattern binds, in the default graph and the others; of a store that is too large for that, of a sample. */
async function namesIn(pattern) {
  const found = await Promise.all(everywhere(pattern).map(async (where) => {
    try {
      return await iris(`SELECT DISTINCT ?iri WHERE { ${where} } LIMIT ${MOST}`);
    } catch {
      return iris(`SELECT ?iri WHERE { ${where} } LIMIT ${SAMPLE}`);
    }
  }));
  return [...new Set(found.flat())];
}

async function predicatesOf(stream) {
  const { data } = await call("GET", `/streams/${encodeURIComponent(stream)}/elements?limit=20`);
  const lines = data.elements.flatMap(({ quads }) => quads.split("\n"));
  return [...new Set(lines.map((line) => /^\S+ <([^>]*)>/.exec(line)?.[1]).filter(Boolean))];
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? { version: null, at: 0, found: EMPTY };
  } catch {
    return { version: null, at: 0, found: EMPTY };
  }
}
