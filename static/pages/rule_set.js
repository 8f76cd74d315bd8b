// One rule set: its rules by stratum, its graph with figures and rates, inconsistencies, the last error; put again, delete.

import { call, Problem } from "../base/api.js";
import { triplesPath } from "../base/browse.js";
import { copyButton, curl } from "../base/curl.js";
import { append, byId, el, figure, poll, put, serverState, setText } from "../base/dom.js";
import { count, counted, instant, rate } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { prefixesOf } from "../base/terms.js";
import { drawChart } from "../charts/lines.js";
import { openFeed, showFeedState } from "../feeds/feed.js";
import { definitionOf, deleteRefusal, putAgain, putRefusal, remove } from "../rules/actions.js";
import { changesNode, costText } from "../rules/figures.js";
import { LastMinute } from "../rules/minute.js";
import { rulesPath } from "../rules/path.js";
import { markedQuad, setsByGraph } from "../rules/quads.js";
import { ruleName, strataNodes } from "../rules/rules.js";

const COMMITS_AT_FIRST = 1000;
const RULES_AT_FIRST = 50;
const MOST_INCONSISTENCIES = 100;
// The search for inconsistencies may take long in a large store.
const SHARE = 0.1;
const LABELS = ["Added", "Removed"];
const { set: first, refusal } = serverState();
const minute = new LastMinute();
let set = first;
let sets = new Map([[first.into, first]]);
let prefixes = prefixesOf(first.rules.join("\n"));
let mostRules = RULES_AT_FIRST;
let shownRules = "";
let before = null;

function showState() {
  const badge = byId("state-badge");
  badge.className = `badge badge-${set.state}`;
  setText(badge, set.state);
  byId("error").hidden = set.error === null;
  setText(byId("error"), set.error);
  showProgress();
  const [put_, delete_] = [putRefusal(set, refusal), deleteRefusal(set, refusal)];
  showButton("put-again", put_, `Put again: ${put_}`);
  // One reason for both buttons is shown once.
  showButton("delete", delete_, put_ === delete_ ? "" : `Delete: ${delete_}`);
}

function showButton(id, reason, text) {
  byId(id).disabled = reason !== null;
  byId(id).title = reason ?? "";
  setText(byId(`${id}-refusal`), reason === null ? "" : text);
  byId(`${id}-refusal`).hidden = reason === null || text === "";
}

function showProgress() {
  const now = set.materialised === null ? null : { atMs: performance.now(), triples: set.materialised };
  byId("progress-panel").hidden = now === null;
  if (now !== null) {
    const perSecond = before === null ? NaN : (now.triples - before.triples) / ((now.atMs - before.atMs) / 1000);
    setText(byId("progress-text"), `${counted(now.triples, "triple")} so far${perSecond >= 0 ? `, ${rate(perSecond)} per second` : ""}; the limit is ${count(set.max_inferred)}.`);
  }
  before = now;
}

function showFigures() {
  byId("into").href = triplesPath(set.into);
  setText(byId("into"), set.into);
  redraw(byId("figures"),
    figure("Inferred triples", count(set.inferred)),
    figure("Last minute", changesNode(minute)),
    figure("Cost of the last change", costText(set)),
    figure("Complete for version", set.version === null ? "–" : count(set.version)),
    figure("Limit of triples", count(set.max_inferred)),
    figure("Time limit of a commit", set.max_time),
    figure("A commit over a limit", set.on_budget === "suspend" ? "suspends the set" : "is rejected"),
    figure("First put (UTC)", instant(set.created)));
  const named = set.from?.map((graph) => (graph === "default" ? "the default graph" : graph));
  setText(byId("from"), `Input: ${named ? named.join(", ") : "the default graph and every named graph that no rule set, shapes or view owns"}.`);
  drawChart(byId("chart"), minute, LABELS);
}

function showRules() {
  const text = JSON.stringify([set.rules, set.strata, mostRules]);
  if (text === shownRules) return;
  shownRules = text;
  redraw(byId("strata"), strataNodes(set, mostRules));
  byId("all-rules").hidden = set.rules.length <= mostRules;
  setText(byId("all-rules"), `Show all ${counted(set.rules.length, "rule")}`);
}

function showInconsistencies() {
  const found = set.inconsistencies ?? [];
  byId("inconsistencies-panel").hidden = !set.include?.includes("owl2-rl") || set.inconsistencies === undefined;
  const many = found.length >= MOST_INCONSISTENCIES ? `The first ${MOST_INCONSISTENCIES} are shown.` : `${count(found.length)} found.`;
  setText(byId("inconsistencies-note"), found.length === 0 ? "None: no rule that concludes false matches." : many);
  redraw(byId("inconsistencies"), found.map(({ rule, premises }) => el("li", { dataset: { key: `${rule} ${premises.join(" ")}` } },
    el("div", {}, "Rule ", ruleName(rule), " concludes false from"), premises.map((line) => markedQuad(line, prefixes, sets)))));
}

function show() {
  showState();
  showFigures();
  showRules();
  showInconsistencies();
}

async function update() {
  try {
    const { data, headers } = await call("GET", rulesPath(first.name));
    // The feed of commits asks for one graph.
    if (data.into !== set.into) location.reload();
    minute.moveTo(Date.parse(headers.get("Date")));
    set = data;
    if (set.inconsistencies.length > 0) sets = await setsByGraph();
    show();
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status !== 404) return;
    stop();
    showProblem(byId("problem"), problem);
  }
}

function onCommit({ kind, data }) {
  const change = kind === "reset" ? undefined : data.inferred?.[set.into];
  if (change !== undefined) minute.add(data.at, change);
}

show();
append(byId("copy"), [copyButton(() => curl("PUT", rulesPath(set.name), { json: definitionOf(set) }), "Copy the PUT as curl")]);
byId("put-again").addEventListener("click", () => putAgain(set, update));
byId("delete").addEventListener("click", () => remove(set, () => location.assign("/ui/rules")));
byId("all-rules").addEventListener("click", () => {
  mostRules = Infinity;
  showRules();
});
openFeed((seen) => `/changes?${new URLSearchParams({ graph: set.into, after: seen ?? Math.max(0, Number(byId("store-version").textContent) - COMMITS_AT_FIRST) })}`, {
  kinds: ["message", "reset"],
  onEvent: onCommit,
  onState: showFeedState,
});
const stop = poll(update, 1000, SHARE);
serverPrefixes().then((known) => {
  prefixes = { ...known, ...prefixes };
  showInconsistencies();
});
