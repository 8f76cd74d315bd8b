// One continuous query: its results as they come, and what it is made of.

import { call, Problem, queryPath } from "../base/api.js";
import { fitActions, listenForActions } from "../query/actions.js";
import { drawChart, Rates } from "../charts/lines.js";
import { codeBlock } from "../editor/coloured.js";
import { byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { openFeed } from "../feeds/feed.js";
import { LiveTable, showAnswer } from "../feeds/live.js";
import { growing, waiting } from "../query/names.js";
import { countersList, staticList, windowsList } from "../query/parts.js";
import { showProblem } from "../base/problem.js";
import { tabs } from "../base/tabs.js";
import { prefixesOf } from "../base/terms.js";

const name = byId("name").dataset.name;
const first = serverState({ query: {} }).query;
const text = first.query || "";
const prefixes = prefixesOf(text);
const rates = new Rates(["in", "out"]);
const live = new LiveTable(byId("live"), prefixes);
const RATES = ["Elements in", "Events out"];
const SHOWN_AT_FIRST = 50;
let analyze = false;
let lastShown = "";

function show(query) {
  setText(byId("state-badge"), query.state);
  byId("state-badge").className = `badge badge-${query.state}`;
  fitActions(document, query.state);
  const chips = [query.dialect, query.profile === query.dialect ? null : query.profile, query.output, reportText(query.report), query.engine];
  put(byId("chips"), chips.filter(Boolean).map((chip) => el("span", { class: "chip" }, chip)));
  byId("error").hidden = !query.error;
  setText(byId("error"), query.error);
  const reason = waiting(query);
  byId("waiting").hidden = reason === null;
  setText(byId("waiting"), reason === null ? "" : query.last_result ? reason : `No result yet. ${reason}`);
  rates.add(growing(query));
  drawChart(byId("chart"), rates, RATES);
  put(byId("counters"), countersList(query));
  put(byId("windows"), windowsList(query));
  put(byId("static"), staticList(query));
  setText(byId("raw"), JSON.stringify(query, null, 2));
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
    drawChart(byId("chart"), rates, RATES);
  } catch {
    // The query may be gone; the page tells that elsewhere.
  }
}

async function showPlan() {
  try {
    const answer = await call("GET", queryPath(name, `/explain${analyze ? "?analyze=true" : ""}`), { accept: analyze ? "application/json" : "text/plain" });
    setText(byId("plan"), typeof answer.data === "string" ? answer.data : JSON.stringify(answer.data, null, 2));
  } catch (problem) {
    setText(byId("plan"), problem.message);
  }
}

async function refreshAnswer() {
  if (byId("answer-pane").hidden) return;
  try {
    const answer = await call("GET", queryPath(name, "/results"), { accept: "application/sparql-results+json, application/json;q=0.9" });
    if (answer.text === lastShown) return;
    lastShown = answer.text;
    if (answer.data) showAnswer(byId("answer"), answer.data, prefixes);
  } catch (problem) {
    showProblem(byId("answer"), problem);
  }
}

function setFeedState(state, explanation) {
  const place = byId("feed-state");
  place.dataset.state = state;
  place.title = explanation;
  setText(place.querySelector("[data-text]"), state);
}

function onEvent(event) {
  byId("no-events").hidden = true;
  live.add(event);
  refreshAnswer();
}

/** Recent events first: the feed is opened a little before its newest event. */
function feedPath(seen) {
  const { earliest_id: earliest, last_id: newest } = first.feed || {};
  const start = (newest || 0) - SHOWN_AT_FIRST;
  // The id before the earliest may be of an earlier epoch; 0 is always the oldest kept event.
  return queryPath(name, `/results?from=${seen ?? (start < (earliest || 1) ? 0 : start)}`);
}

put(byId("text"), codeBlock(text));
show(first);
beginCharts();
openFeed(feedPath, { onEvent, onState: setFeedState });
poll(update, 2000);
poll(refreshAnswer, 2000);
showPlan();
tabs([byId("tab-events"), byId("tab-answer")], () => {
  byId("freeze").hidden = byId("events-pane").hidden;
  byId("clear").hidden = byId("events-pane").hidden;
  refreshAnswer();
});
listenForActions(document.querySelector(".head"), () => name, byId("problem"), async (action) => {
  if (action === "drop") location.assign("/");
  else await update();
});
byId("analyze").addEventListener("click", () => {
  analyze = !analyze;
  byId("analyze").setAttribute("aria-pressed", String(analyze));
  showPlan();
});
byId("clear").addEventListener("click", () => live.clear());
byId("freeze").addEventListener("click", (event) => {
  const held = event.currentTarget.getAttribute("aria-pressed") !== "true";
  event.currentTarget.setAttribute("aria-pressed", String(held));
  setText(event.currentTarget, held ? "Go on" : "Hold");
  live.hold(held);
});
