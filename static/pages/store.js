// The store: its graphs with their sizes, and every commit as it happens.

import { call } from "../base/api.js";
import { triplesPath } from "../base/browse.js";
import { commandBox, curl } from "../base/curl.js";
import { announce, breakable, byId, el, put, serverState, setText } from "../base/dom.js";
import { openFeed, showFeedState } from "../feeds/feed.js";
import { count, counted, instant } from "../base/format.js";
import { confirmed } from "../base/ask.js";
import { menu, step } from "../base/menu.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { ROOT } from "../base/root.js";

const FORMATS = { "": "by the file's ending", "text/turtle": "Turtle", "application/trig": "TriG", "application/n-triples": "N-Triples",
  "application/n-quads": "N-Quads", "application/rdf+xml": "RDF/XML", "application/ld+json": "JSON-LD" };
const ENDINGS = { ttl: "text/turtle", trig: "application/trig", nt: "application/n-triples", nq: "application/n-quads",
  rdf: "application/rdf+xml", owl: "application/rdf+xml", xml: "application/rdf+xml", jsonld: "application/ld+json", json: "application/ld+json" };
const MAX_COMMITS = 200;
const SHOWN_AT_FIRST = 30;
const state = serverState({ version: 0, graphs: [] });
// The default graph has the empty name here.
const quads = new Map(state.graphs.map(({ iri, quads: many }) => [iri, many]));
// The graphs of rule sets, which only their sets change.
const inferred = new Set(state.graphs.filter((graph) => graph.inferred).map(({ iri }) => iri));
const dropped = new Set();
let version = state.version;

function graphPath(iri) {
  return iri === "" ? "/store?default" : `/store?${new URLSearchParams({ graph: iri })}`;
}

function graphRow([iri, many]) {
  return el("tr", { dataset: { key: iri } },
    el("th", { scope: "row" }, iri === "" ? "default graph" : breakable(iri)),
    el("td", { class: "num", "data-name": "Quads" }, count(many)),
    // A graph that is named by a blank node cannot be asked for by name.
    iri.startsWith("_:") ? el("td") : el("td", { class: "actions" },
      el("a", { class: "button-link", href: triplesPath(iri) }, "Browse"), " ",
      el("a", { class: "button-link", href: graphPath(iri), download: "graph.ttl" }, "Download"), " ",
      inferred.has(iri) ? el("a", { class: "button-link", href: "/ui/rules" }, "Inferred")
        : menu(`graph-${iri}`, iri || "default graph", step(iri === "" ? "Clear" : "Drop", { needs: "write", on: { click: () => drop(iri) } }))));
}

function showGraphs() {
  const entries = [...quads.entries()].sort(([a], [b]) => (a === "" ? -1 : b === "" ? 1 : a.localeCompare(b)));
  redraw(byId("graphs").tBodies[0], entries.map(graphRow));
  redraw(byId("graph-names"), entries.filter(([iri]) => iri !== "").map(([iri]) => el("option", { value: iri })));
  const total = [...quads.values()].reduce((sum, many) => sum + many, 0);
  const derived = [...inferred].reduce((sum, iri) => sum + (quads.get(iri) ?? 0), 0);
  const quadText = derived === 0 ? counted(total, "quad") : `${counted(total, "quad")} (${count(derived)} of them inferred)`;
  const named = entries.length - (quads.has("") ? 1 : 0);
  byId("no-quads").hidden = total > 0;
  setText(byId("summary"), `${quadText} in ${counted(named, "named graph")} and the default graph, version ${count(version)}.`);
  setText(byId("store-version"), version);
}

put(byId("first-file"),
  commandBox(curl("POST", "/store?graph=http://example.org/rooms", { type: "text/turtle",
    body: "PREFIX ex: <http://example.org/>\nex:sensor1 ex:in ex:kitchen ." })),
  commandBox(`quadrill load FILE.ttl --server ${location.origin}${ROOT}`));

function onCommit({ kind, data }) {
  if (kind === "reset") {
    // The log does not reach back to where we stood: what is shown is right only if nothing came since.
    if (data.version > version) location.reload();
    return;
  }
  const changes = Object.entries({ ...data.graphs, ...data.inferred });
  if (data.version > version) {
    version = data.version;
    for (const key of Object.keys(data.inferred ?? {})) inferred.add(key);
    for (const key of Object.keys(data.graphs)) inferred.delete(nameOf(key));
    addUp(changes);
    showGraphs();
  }
  showCommit(data, changes);
}

function addUp(changes) {
  for (const [key, change] of changes) {
    const iri = nameOf(key);
    // The commit of a drop from this page may come after the graph has left the list.
    if (dropped.delete(iri) && change.added === 0) continue;
    quads.set(iri, Math.max(0, (quads.get(iri) ?? 0) + change.added - change.removed));
  }
}

function showCommit(data, changes) {
  byId("no-changes").hidden = true;
  const body = byId("changes").tBodies[0];
  body.prepend(el("tr", { class: "fresh" },
    el("td", { class: "stamp", "data-name": "Version" }, count(data.version)),
    el("td", { class: "stamp", "data-name": "At" }, instant(data.at)),
    el("td", { "data-name": "Graphs" }, changes.length === 0 ? el("span", { class: "muted" }, "no quads") : changes.map(([key, change]) =>
      el("div", {}, el("span", { class: "added" }, `+${count(change.added)}`), " ", el("span", { class: "removed" }, `−${count(change.removed)}`), " ",
        nameOf(key) === "" ? "default graph" : breakable(nameOf(key)))))));
  while (body.rows.length > MAX_COMMITS) body.lastElementChild.remove();
}

function nameOf(key) {
  return key === "default" ? "" : key;
}

async function drop(iri) {
  const [title, word] = iri === "" ? ["Clear the default graph?", "Clear"] : [`Drop the graph ${iri}?`, "Drop"];
  if (!(await confirmed(title, `${counted(quads.get(iri) ?? 0, "quad")} are removed from the store, in one commit.`, word))) return;
  clearProblem(byId("problem"));
  try {
    if (iri !== "") dropped.add(iri);
    await call("DELETE", graphPath(iri));
    if (iri !== "") quads.delete(iri);
    showGraphs();
  } catch (problem) {
    dropped.delete(iri);
    showProblem(byId("problem"), problem);
  }
}

async function upload(event) {
  event.preventDefault();
  const place = byId("upload-problem");
  clearProblem(place);
  const file = byId("upload-file").files[0];
  if (!file) {
    showProblem(place, { title: "No file", detail: "Choose a file first." });
    return;
  }
  const type = byId("upload-type").value || ENDINGS[file.name.split(".").pop().toLowerCase()];
  if (!type) {
    showProblem(place, { title: "Unknown format", detail: `The ending of ${file.name} names no RDF format.`, hint: "Choose the format." });
    return;
  }
  const iri = byId("upload-graph").value.trim();
  // A quads file names its graphs itself, so that it goes to the whole dataset unless a graph is given.
  const whole = iri === "" && ["application/trig", "application/n-quads"].includes(type);
  try {
    await call(byId("upload-method").value, whole ? "/store" : graphPath(iri), { body: file, type });
    announce(`${file.name} is loaded.`);
  } catch (problem) {
    showProblem(place, problem);
  }
}

put(byId("upload-type"), Object.entries(FORMATS).map(([type, label]) => el("option", { value: type }, label)));
byId("upload").addEventListener("submit", upload);
showGraphs();
openFeed((seen) => `/changes?after=${seen ?? Math.max(0, state.version - SHOWN_AT_FIRST)}`, {
  kinds: ["message", "reset"],
  onEvent: onCommit,
  onState: showFeedState,
});
