// What the store and the streams know, for completion: prefixes, streams, graphs, predicates, classes. Every question
// has a limit and a time-out; the answers are kept for the version of the store that they were asked at.

import { call } from "../base/api.js";
import { byId } from "../base/dom.js";

const KEPT = "quadrill.vocabulary";
const AGAIN_MS = 3_000;
const SAMPLE = 20_000;
const MOST = 400;
const STREAMS_READ = 12;
const EMPTY = { prefixes: {}, streams: [], graphs: [], predicates: [], classes: [] };

const counted = (pattern) => `SELECT ?iri (COUNT(*) AS ?n) WHERE {
  { SELECT ?iri WHERE { ${pattern} } LIMIT ${SAMPLE} } UNION { SELECT ?iri WHERE { GRAPH ?g { ${pattern} } } LIMIT ${SAMPLE} }
} GROUP BY ?iri ORDER BY DESC(?n) LIMIT ${MOST}`;
const QUESTIONS = {
  graphs: `SELECT ?iri WHERE { GRAPH ?iri {} } LIMIT ${MOST}`,
  predicates: counted("?s ?iri ?o"),
  classes: counted("?s a ?iri"),
};

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
  const [prefixes, streams, graphs, predicates, classes] = await Promise.all([
    quietly(async () => Object.fromEntries((await call("GET", "/prefixes")).data.map(({ prefix, uri }) => [prefix, uri])), {}),
    quietly(async () => (await call("GET", "/streams")).data.streams.map(({ name, iri }) => ({ name, iri })), []),
    ...Object.values(QUESTIONS).map((text) => quietly(() => iris(text), [])),
  ]);
  const pushed = await Promise.all(streams.slice(0, STREAMS_READ).map(({ name }) => quietly(() => predicatesOf(name), [])));
  const found = { prefixes, streams, graphs, predicates: [...new Set([...pushed.flat(), ...predicates])], classes };
  known = { version, at: Date.now(), found };
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

async function predicatesOf(stream) {
  const { data } = await call("GET", `/streams/${encodeURIComponent(stream)}/elements?limit=20`);
  const lines = data.elements.flatMap(({ quads }) => quads.split("\n"));
  return [...new Set(lines.map((line) => /^\S+ <([^>]*)>/.exec(line)?.[1]).filter(Boolean))];
}

/** What cannot be had is not offered: completion never complains. */
async function quietly(work, otherwise) {
  try {
    return await work();
  } catch {
    return otherwise;
  }
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? { version: null, at: 0, found: EMPTY };
  } catch {
    return { version: null, at: 0, found: EMPTY };
  }
}
