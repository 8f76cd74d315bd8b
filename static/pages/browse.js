// One thing of the store: the triples that lead from it and to it, a page at a time.

import { call } from "../base/api.js";
import { linkIris } from "../base/browse.js";
import { byId, el, put, setText } from "../base/dom.js";
import { count } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { prefixesOf, shortIri, termNode } from "../base/terms.js";

const PAGE_ROWS = 50;
const TIMEOUT_S = 10;
const iri = new URLSearchParams(location.search).get("iri");
const place = { from: 0, to: 0 };
let prefixes = prefixesOf();

/** What is asked for: pairs in the default graph and in all others, with the graph. One row more tells whether there is another page. */
function question(direction) {
  const pattern = direction === "from" ? `<${iri}> ?predicate ?other` : `?other ?predicate <${iri}>`;
  return `SELECT ?predicate ?other ?graph WHERE { { ${pattern} } UNION { GRAPH ?graph { ${pattern} } } } LIMIT ${PAGE_ROWS + 1} OFFSET ${place[direction]}`;
}

async function show(direction) {
  const panel = byId(direction);
  try {
    const { data } = await call("POST", `/query?timeout=${TIMEOUT_S}`, { body: question(direction), type: "application/sparql-query", accept: "application/sparql-results+json" });
    const rows = data.results.bindings;
    const shown = rows.slice(0, PAGE_ROWS);
    put(panel.querySelector("tbody"), shown.map((row) => linkIris(el("tr", {}, cells(direction, row).map((cell) => el("td", {}, cell))))));
    panel.querySelector(".empty").hidden = rows.length > 0;
    panel.querySelector(".scroll").hidden = rows.length === 0;
    setText(panel.querySelector("[data-shown]"), rows.length === 0 ? "" : `${count(place[direction] + 1)} to ${count(place[direction] + shown.length)}`);
    panel.querySelector("[data-back]").disabled = place[direction] === 0;
    panel.querySelector("[data-on]").disabled = rows.length <= PAGE_ROWS;
    panel.querySelector("[data-pages]").hidden = place[direction] === 0 && rows.length <= PAGE_ROWS;
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

function cells(direction, { predicate, other, graph }) {
  const ends = [termNode(predicate, prefixes), termNode(other, prefixes)];
  return [...(direction === "from" ? ends : ends.reverse()), graph ? termNode(graph, prefixes) : el("span", { class: "muted" }, "default graph")];
}

async function begin() {
  try {
    const { data } = await call("GET", "/prefixes");
    prefixes = { ...prefixes, ...Object.fromEntries(data.map(({ prefix, uri }) => [prefix, uri])) };
  } catch {
    // Without the server's prefixes names are longer.
  }
  const short = shortIri(iri, prefixes);
  if (short !== null) {
    setText(document.querySelector("h1"), short);
    document.querySelector(".iri-line").hidden = false;
  }
  await Promise.all([show("from"), show("to")]);
}

for (const direction of ["from", "to"]) {
  const turn = (by) => {
    clearProblem(byId("problem"));
    place[direction] = Math.max(0, place[direction] + by);
    show(direction);
  };
  byId(direction).querySelector("[data-back]").addEventListener("click", () => turn(-PAGE_ROWS));
  byId(direction).querySelector("[data-on]").addEventListener("click", () => turn(PAGE_ROWS));
}
byId("ask").href = `/ui/sparql?${new URLSearchParams({ query: `SELECT * WHERE {\n  <${iri}> ?predicate ?object\n}\nLIMIT 100` })}`;
if (/^[^<>"{}|^`\\\s]+$/.test(iri)) begin();
else showProblem(byId("problem"), { title: "No IRI", detail: `${iri} is no IRI: it has a space or a character that an IRI cannot have.` });
