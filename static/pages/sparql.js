// SPARQL queries and updates from the page.

import { call } from "../base/api.js";
import { announce, byId, el, put, setText } from "../base/dom.js";
import { LiveCheck } from "../editor/check.js";
import { completion } from "../editor/completion.js";
import { codeBlock } from "../editor/coloured.js";
import { Editor } from "../editor/editor.js";
import { bytes, counted, duration } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { watchRunning } from "../query/running.js";
import { forget, history, remember, save, saved } from "../query/saved.js";
import { tabs } from "../base/tabs.js";
import { prefixesOf } from "../base/terms.js";

const MAX_BYTES = 24 * 1024 * 1024;
const MAX_SHOWN = 400_000;
const KEPT = { query: "quadrill.sparql.query", update: "quadrill.sparql.update" };
const START = {
  query: "SELECT ?graph (COUNT(*) AS ?quads)\nWHERE {\n  GRAPH ?graph { ?s ?p ?o }\n}\nGROUP BY ?graph\nORDER BY DESC(?quads)\nLIMIT 100",
  update: "PREFIX ex: <http://example.org/>\nINSERT DATA {\n  GRAPH ex:rooms { ex:sensor1 ex:in ex:kitchen }\n}",
};
const ACCEPT = "application/sparql-results+json, text/turtle;q=0.9";
let mode = "query";
const editor = new Editor(byId("editor"), { onRun: () => run(), onChange: changed,
  complete: completion(() => (mode === "query" ? "sparql" : "update")) });
const check = new LiveCheck(editor, byId("live-check"), async (signal) => {
  const { data } = await call("POST", `/${mode}:validate`, { body: editor.text, type: `application/sparql-${mode}`, signal });
  return { faults: data.faults, warnings: [], good: "No fault found." };
});
let abort = null;
let view = null;

function changed() {
  sessionStorage.setItem(KEPT[mode], editor.text);
  check.soon();
}

async function run() {
  const text = editor.text;
  clearProblem(byId("problem"), editor);
  check.stop();
  byId("result-panel").hidden = true;
  remember({ mode, text });
  showHistory();
  abort = new AbortController();
  byId("run").disabled = true;
  byId("stop").hidden = false;
  const began = performance.now();
  try {
    if (mode === "query") await query(text, began);
    else await update(text, began);
  } catch (problem) {
    if (problem.name !== "AbortError") showProblem(byId("problem"), problem, editor);
  } finally {
    abort = null;
    byId("run").disabled = false;
    byId("stop").hidden = true;
  }
}

/** Tables and pictures are fetched with the first answer. */
async function answerView() {
  const { AnswerView } = await import("../query/answer.js");
  return new AnswerView();
}

function queryAddress() {
  const seconds = byId("timeout").value;
  return seconds ? `/query?timeout=${encodeURIComponent(seconds)}` : "/query";
}

async function query(text, began) {
  const answer = await call("POST", queryAddress(), { body: text, type: "application/sparql-query", accept: ACCEPT, signal: abort.signal, maxBytes: MAX_BYTES });
  const took = duration(performance.now() - began);
  view ??= await answerView();
  byId("result-panel").hidden = false;
  const place = byId("result");
  const { data } = answer;
  if (!data?.results) view.clear();
  if (data && typeof data === "object" && "boolean" in data) {
    setText(byId("timing"), took);
    put(place, el("p", { class: "boolean" }, el("strong", {}, data.boolean ? "true" : "false")));
    downloads(text, [["JSON", "application/sparql-results+json", "json"]]);
  } else if (data && typeof data === "object" && data.results) {
    setText(byId("timing"), `${counted(data.results.bindings.length, "row")}, ${bytes(answer.text.length)}, ${took}`);
    view.show(data, prefixesOf(text));
    downloads(text, [["CSV", "text/csv", "csv"], ["TSV", "text/tab-separated-values", "tsv"], ["JSON", "application/sparql-results+json", "json"]]);
  } else {
    setText(byId("timing"), `${bytes(answer.text.length)}, ${took}`);
    const cut = answer.text.length > MAX_SHOWN;
    put(place, answer.text.trim() === "" ? el("p", { class: "empty" }, "The answer has no triples.") : codeBlock(answer.text.slice(0, MAX_SHOWN)),
      cut ? el("p", { class: "muted" }, "Only the beginning is shown; the download has all of it.") : null);
    downloads(text, [["Turtle", "text/turtle", "ttl"], ["N-Triples", "application/n-triples", "nt"], ["JSON-LD", "application/ld+json", "jsonld"]]);
  }
}

async function update(text, began) {
  const answer = await call("POST", "/update", { body: text, type: "application/sparql-update", signal: abort.signal });
  view?.clear();
  byId("result-panel").hidden = false;
  setText(byId("timing"), duration(performance.now() - began));
  const version = /"(\d+)"/.exec(answer.headers.get("ETag") || "");
  put(byId("result"), el("p", { class: "notice notice-good" }, `The update is done${version ? `. The store is at version ${version[1]}` : ""}.`));
  put(byId("downloads"));
}

function downloads(text, formats) {
  put(byId("downloads"), el("span", { class: "muted" }, "Download"), formats.map(([label, type, ending]) =>
    el("button", { type: "button", class: "quiet", on: { click: () => download(text, type, ending) } }, label)));
}

async function download(text, type, ending) {
  try {
    const answer = await call("POST", queryAddress(), { body: text, type: "application/sparql-query", accept: type });
    const link = el("a", { href: URL.createObjectURL(new Blob([answer.text], { type })), download: `result.${ending}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch (problem) {
    showProblem(byId("problem"), problem, editor);
  }
}

function showHistory() {
  put(byId("history"), el("option", { value: "" }, "choose …"), history().map((entry, i) =>
    el("option", { value: i }, `${entry.mode}: ${entry.text.replace(/^\s*(?:PREFIX|BASE)\b.*$/gim, "").replace(/\s+/g, " ").trim().slice(0, 70)}`)));
}

function showSaved(chosen = "") {
  put(byId("saved"), el("option", { value: "" }, "choose …"), saved().map(([name, { mode: kind }]) => el("option", { value: name }, `${kind}: ${name}`)));
  byId("saved").value = chosen;
  byId("forget").hidden = byId("saved").value === "";
}

function keep(event) {
  event.preventDefault();
  const name = byId("save-name").value.trim();
  if (name === "") {
    byId("save-name").focus();
    return;
  }
  save(name, { mode, text: editor.text });
  showSaved(name);
  announce(`${name} is saved in this browser.`);
}

function take({ mode: wanted, text }) {
  choose(byId(`mode-${wanted}`));
  switchTo(wanted, text);
}

function switchTo(wanted, text = null) {
  mode = wanted;
  editor.text = text ?? sessionStorage.getItem(KEPT[mode]) ?? START[mode];
  clearProblem(byId("problem"), editor);
  check.soon();
  setText(byId("run"), mode === "query" ? "Run query" : "Run update");
  document.querySelectorAll("[data-query]").forEach((node) => (node.hidden = mode !== "query"));
}

const choose = tabs([byId("mode-query"), byId("mode-update")], (button) => switchTo(button.id === "mode-query" ? "query" : "update"));
byId("run").addEventListener("click", run);
byId("stop").addEventListener("click", () => abort?.abort());
byId("history").addEventListener("change", (event) => {
  const entry = history()[Number(event.target.value)];
  if (event.target.value === "" || !entry) return;
  take(entry);
});
byId("saved").addEventListener("change", (event) => {
  const [name, entry] = saved().find(([each]) => each === event.target.value) ?? [];
  byId("forget").hidden = name === undefined;
  if (name === undefined) return;
  byId("save-name").value = name;
  take(entry);
});
byId("save").addEventListener("submit", keep);
byId("forget").addEventListener("click", () => {
  forget(byId("saved").value);
  showSaved();
});
const given = new URLSearchParams(location.search).get("query");
switchTo("query", given);
showHistory();
showSaved();
if (byId("running")) {
  watchRunning(byId("running").querySelector("tbody"), byId("problem"), 2000, (processes) => (byId("running").hidden = processes.length === 0));
}
if (given) run();
