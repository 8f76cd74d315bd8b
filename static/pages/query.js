// One continuous query: its results as they come, and what it is made of.

import { call, Problem, queryPath } from "../base/api.js";
import { fitActions, listenForActions } from "../query/actions.js";
import { drawChart, Rates } from "../charts/lines.js";
import { chooseRange } from "../charts/range.js";
import { codeBlock } from "../editor/coloured.js";
import { announce, byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { redraw } from "../base/redraw.js";
import { growing } from "../query/names.js";
import { showPlan } from "../plan/view.js";
import { Reasons } from "../query/reasons.js";
import { countersList, staticList, windowsList } from "../query/parts.js";
import { showResults } from "../query/results.js";
import { showProblem } from "../base/problem.js";
import { go } from "../base/root.js";
import { prefixesOf } from "../base/terms.js";
import { offerUndo } from "../query/undo.js";

const name = byId("name").dataset.name;
const first = serverState({ query: {} }).query;
const text = first.query || "";
const prefixes = prefixesOf(text);
const rates = new Rates(["in", "out"]);
const RATES = ["Elements in", "Events out"];
const range = chooseRange(byId("range"), drawRates);
const reasons = new Reasons(byId("reasons"), mend);

function show(query) {
  setText(byId("state-badge"), query.state);
  byId("state-badge").className = `badge badge-${query.state}`;
  fitActions(document, query.state);
  const chips = [query.dialect, query.profile === query.dialect ? null : query.profile, query.output, reportText(query.report), query.engine];
  put(byId("chips"), chips.filter(Boolean).map((chip) => el("span", { class: "chip" }, chip)));
  reasons.show(query);
  rates.add(growing(query));
  drawRates();
  redraw(byId("counters"), countersList(query));
  put(byId("windows"), windowsList(query));
  put(byId("static"), staticList(query));
  setText(byId("raw"), JSON.stringify(query, null, 2));
}

function drawRates() {
  drawChart(byId("chart"), rates, RATES, range());
}

function reportText(report) {
  if (!report) return null;
  return typeof report === "string" ? report : `every ${report.periodic}`;
}

async function update() {
  try {
    show((await call("GET", queryPath(name))).data);
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 404) showProblem(byId("problem"), problem);
  }
}

/** The charts begin with the last hour. */
async function beginCharts() {
  try {
    rates.begin((await call("GET", queryPath(name, "/history"))).data, ["elements", "events"]);
    drawRates();
  } catch {
    // The query may be gone; the page tells that elsewhere.
  }
}

/** Do what mends a reason, and show what comes of it. */
async function mend(work) {
  try {
    announce(await work());
    await update();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

put(byId("text"), codeBlock(text));
show(first);
beginCharts();
const askAnswer = showResults(name, first, prefixes);
poll(update, 2000);
poll(askAnswer, 2000);
const showWhereRowsEnd = showPlan(name, prefixes, (problem) => showProblem(byId("problem"), problem));
byId("reasons").addEventListener("click", (event) => event.target.closest('a[href="#plan-title"]') && showWhereRowsEnd());
listenForActions(document.querySelector(".head"), () => name, byId("problem"), async (action) => {
  if (action === "drop") go("/ui/queries");
  else await update();
});
offerUndo(name);
