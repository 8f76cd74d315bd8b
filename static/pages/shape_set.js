// Shapes of one name: parameters, results as they come and go, the text of the shape of a result, a box to try data, delete.

import { call, Problem } from "../base/api.js";
import { copyButton } from "../base/curl.js";
import { announce, append, byId, el, figure, poll, put, serverState, setText } from "../base/dom.js";
import { count, instant } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { go } from "../base/root.js";
import { codeBlock } from "../editor/coloured.js";
import { openFeed, showFeedState } from "../feeds/feed.js";
import { costText } from "../rules/figures.js";
import { putCommand, remove } from "../shapes/actions.js";
import { dataText, MODES, severitiesNode } from "../shapes/figures.js";
import { Graph } from "../shapes/graph.js";
import { shapesPath } from "../shapes/path.js";
import { MOST_ROWS, ResultsTable, resultsOf, shownNote, withShacl } from "../shapes/report.js";
import { shapeNode } from "../shapes/shape_text.js";
import { tryForm } from "../shapes/try.js";
import { triplesOf } from "../shapes/turtle.js";

const LOOK_MS = 250;
const DESCRIBE_MS = 1000;
const SHARE = 0.1;
const MOST_TEXT = 200_000;
const { shapes: first, refusal } = serverState();
let shapes = first;
let prefixes = withShacl();
let graph = null;
let results = [];
let shownReport = null;
let isChanged = true;
let describedAt = -Infinity;

function showShape({ shape }) {
  graph ??= new Graph(triplesOf(shapes.text));
  const node = shapeNode(graph, shape, prefixes);
  put(byId("shape"), node ?? el("p", { class: "muted" }, "The shapes graph has no triple of this shape."));
  const listing = byId("shape").querySelector("pre");
  const mark = listing?.querySelector("mark");
  if (mark) listing.scrollTop = mark.offsetTop - listing.offsetTop - listing.clientHeight / 3;
  byId("shape-panel").scrollIntoView({ block: "nearest" });
  announce(node === null ? "The shapes graph has no triple of this shape." : "The shape of the result is shown next to the table.");
}

const table = new ResultsTable(byId("results"), "Table of results", showShape);

function show() {
  const badge = byId("state-badge");
  badge.className = `badge badge-${shapes.state}`;
  setText(badge, shapes.state);
  byId("error").hidden = shapes.error === null;
  setText(byId("error"), shapes.error);
  redraw(byId("figures"),
    figure("Mode", `${shapes.mode}: ${MODES[shapes.mode]}`),
    figure("Last check", costText(shapes)),
    figure("Time limit of a commit", shapes.max_time),
    figure("Limit of results", count(shapes.max_results)),
    figure("Graph of the report", shapes.into ?? "none"),
    shapes.graph === undefined ? null : figure("Read from the graph", shapes.graph),
    figure("First put (UTC)", instant(shapes.created)));
  setText(byId("data"), `Checked: ${dataText(shapes)}.`);
  redraw(byId("severities"), severitiesNode(shapes, prefixes));
}

function showResults(fresh) {
  table.show(results, prefixes, fresh);
  byId("no-results").hidden = shapes.state === "failed" || shapes.results > 0;
  setText(byId("results-note"), shownNote(results.length, shapes.results));
  byId("results-note").hidden = byId("results-note").textContent === "";
}

function showText() {
  if (!byId("whole").open) return;
  put(byId("text"), codeBlock(shapes.text.slice(0, MOST_TEXT)),
    shapes.text.length > MOST_TEXT ? el("p", { class: "muted" }, "Only the beginning is shown; the PUT as curl has all of it.") : null);
}

/** Ask for the results again after an event of the feed, and for the parameters at least once a second. */
async function update() {
  if (!isChanged && performance.now() - describedAt < DESCRIBE_MS) return;
  const isAsked = isChanged;
  isChanged = false;
  describedAt = performance.now();
  try {
    const before = shapes;
    shapes = (await call("GET", shapesPath(first.name))).data;
    const isReplaced = shapes.text !== before.text;
    if (isReplaced) {
      graph = null;
      showText();
    }
    if (isAsked || isReplaced || shapes.results !== before.results || shapes.state !== before.state) await readReport();
    show();
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status !== 404) return;
    stop();
    showProblem(byId("problem"), problem);
  }
}

async function readReport() {
  const report = shapes.state === "failed" ? "" : (await call("GET", shapesPath(first.name, `/report?limit=${MOST_ROWS}`), { accept: "text/turtle" })).text;
  results = report === "" ? [] : resultsOf(report, prefixes);
  showResults(shownReport !== null);
  shownReport = report;
}

show();
append(byId("copy"), [copyButton(() => putCommand(shapes), "Copy the PUT as curl")]);
byId("delete").disabled = refusal !== null;
byId("delete").title = refusal ?? "";
setText(byId("delete-refusal"), refusal);
byId("delete-refusal").hidden = refusal === null;
byId("delete").addEventListener("click", () => remove(shapes, () => go("/ui/shapes")));
byId("whole").addEventListener("toggle", showText);
tryForm(first.name, () => prefixes, showShape);
openFeed((seen) => shapesPath(first.name, `/results${seen === null ? "" : `?from=${seen}`}`), {
  onEvent: () => {
    isChanged = true;
  },
  onState: showFeedState,
});
const stop = poll(update, LOOK_MS, SHARE);
serverPrefixes().then((known) => {
  prefixes = withShacl(known);
  show();
  showResults(false);
});
