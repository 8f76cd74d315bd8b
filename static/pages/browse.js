// One thing of the store: the triples from and to it, a page at a time, as every commit leaves them. Inferred ones lead to their reason.

import { call } from "../base/api.js";
import { linkIris } from "../base/browse.js";
import { byId, el, poll, serverState, setText } from "../base/dom.js";
import { count } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { at } from "../base/root.js";
import { shortIri, termNode, termText } from "../base/terms.js";
import { openFeed, showFeedState } from "../feeds/feed.js";
import { setsByGraph, whyMark } from "../rules/quads.js";
import { triplesQuery } from "../rules/triples.js";

const PAGE_ROWS = 50;
const TIMEOUT_S = 10;
const SHARE = 0.1;
const NAMES = { from: ["Predicate", "Object", "Graph"], to: ["Subject", "Predicate", "Graph"] };
const iri = new URLSearchParams(location.search).get("iri");
const { owned } = serverState({ owned: [] });
const thing = { type: "uri", value: iri };
const place = { from: 0, to: 0 };
let prefixes = {};
let changed = true;

/** One row more than a page says whether there is another page. */
function question(direction, sets) {
  const triple = direction === "from" ? `<${iri}> ?predicate ?other` : `?other ?predicate <${iri}>`;
  return triplesQuery(triple, sets, [...owned, ...sets.map(({ into }) => into)], PAGE_ROWS + 1, place[direction]);
}

async function show(direction, sets) {
  const panel = byId(direction);
  const { data } = await call("POST", `/query?timeout=${TIMEOUT_S}`, { body: question(direction, [...sets.values()]), type: "application/sparql-query", accept: "application/sparql-results+json" });
  const rows = data.results.bindings;
  const shown = rows.slice(0, PAGE_ROWS);
  redraw(panel.querySelector("tbody"), shown.map((each) => row(direction, each, sets)));
  panel.querySelector(".empty").hidden = rows.length > 0;
  panel.querySelector(".scroll").hidden = rows.length === 0;
  setText(panel.querySelector("[data-shown]"), rows.length === 0 ? "" : `${count(place[direction] + 1)} to ${count(place[direction] + shown.length)}`);
  panel.querySelector("[data-back]").disabled = place[direction] === 0;
  panel.querySelector("[data-on]").disabled = rows.length <= PAGE_ROWS;
  panel.querySelector("[data-pages]").hidden = place[direction] === 0 && rows.length <= PAGE_ROWS;
}

function row(direction, { predicate, other, graph, asserted }, sets) {
  const quad = [...(direction === "from" ? [thing, predicate, other] : [other, predicate, thing]), ...(graph ? [graph] : [])];
  const where = [graph ? termNode(graph, prefixes) : el("span", { class: "muted" }, "default graph"),
    sets.has(graph?.value) ? [" ", whyMark(quad, prefixes, asserted?.value === "true")] : null];
  const ends = (direction === "from" ? [predicate, other] : [other, predicate]).map((term) => termNode(term, prefixes));
  return linkIris(el("tr", { dataset: { key: quad.map(termText).join(" ") } },
    [...ends, where].map((cell, i) => el("td", { "data-name": NAMES[direction][i] }, cell))));
}

async function update() {
  if (!changed) return;
  changed = false;
  try {
    const { sets } = await setsByGraph();
    await Promise.all([show("from", sets), show("to", sets)]);
    clearProblem(byId("problem"));
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

async function begin() {
  prefixes = await serverPrefixes();
  const short = shortIri(iri, prefixes);
  if (short !== null) {
    setText(document.querySelector("h1"), short);
    document.querySelector(".iri-line").hidden = false;
  }
  poll(update, 1000, SHARE);
  openFeed((seen) => `/changes?after=${seen ?? byId("store-version").textContent}`, {
    kinds: ["message", "reset"],
    onEvent: () => {
      changed = true;
    },
    onState: showFeedState,
  });
}

for (const direction of ["from", "to"]) {
  const move = (by) => {
    clearProblem(byId("problem"));
    place[direction] = Math.max(0, place[direction] + by);
    setsByGraph().then(({ sets }) => show(direction, sets)).catch((problem) => showProblem(byId("problem"), problem));
  };
  byId(direction).querySelector("[data-back]").addEventListener("click", () => move(-PAGE_ROWS));
  byId(direction).querySelector("[data-on]").addEventListener("click", () => move(PAGE_ROWS));
}
byId("ask").href = at(`/ui/sparql?${new URLSearchParams({ query: `SELECT * WHERE {\n  <${iri}> ?predicate ?object\n}\nLIMIT 100` })}`);
if (/^[^<>"{}|^`\\\s]+$/.test(iri)) begin();
else showProblem(byId("problem"), { title: "No IRI", detail: `${iri} is no IRI: it has a space or a character that an IRI cannot have.` });
