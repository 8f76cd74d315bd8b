// One rule set: its rules by stratum, its graph with figures and rates, inconsistencies, the last error; put again, delete.

import { call, Problem } from "../base/api.js";
import { triplesPath } from "../base/browse.js";
import { copyButton, curl } from "../base/curl.js";
import { append, byId, el, figure, poll, serverState, setText } from "../base/dom.js";
import { count, counted, instant, rate } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { at, go } from "../base/root.js";
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
const SHARE = 0.2;
// The search for inconsistencies takes a second among half a million triples.
const SEARCH_SHARE = 0.1;
const LABELS = ["Added", "Removed"];
const { set: first, refusal } = serverState();
const minute = new LastMinute();
let set = first;
let sets = new Map([[first.into, first]]);
let prefixes = prefixesOf(first.rules.join("\n"));
let mostRules = RULES_AT_FIRST;
let shownRules = "";
let inconsistencies = null;
let searchedVersion = null;
let before = null;

function showState() {
  const badge = byId("state-badge");
  badge.className = `badge badge-${set.state}`;
  setText(badge, set.state);
  byId("error").hidden = set.error === null;
  setText(byId("error"), set.error);
  showProgress();
  const [notPut, notDeleted] = [putRefusal(set, refusal), deleteRefusal(set, refusal)];
  // One reason for both buttons is shown once; screen readers hear it with each.
  const isSame = notPut === notDeleted;
  showButton("put-again", notPut, isSame ? notPut : `Put again: ${notPut}`);
  showButton("delete", notDeleted, isSame ? notDeleted : `Delete: ${notDeleted}`, !isSame);
}

function showButton(id, reason, text, isShown = true) {
  byId(id).disabled = reason !== null;
  byId(id).title = reason ?? "";
  setText(byId(`${id}-refusal`), reason === null ? "" : text);
  byId(`${id}-refusal`).hidden = reason === null || !isShown;
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
  byId("into").href = at(triplesPath(set.into));
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
  byId("inconsistencies-panel").hidden = inconsistencies === null;
  if (inconsistencies === null) return;
  const many = inconsistencies.length >= MOST_INCONSISTENCIES ? `The first ${MOST_INCONSISTENCIES} are shown.` : `${count(inconsistencies.length)} found.`;
  setText(byId("inconsistencies-note"), inconsistencies.length === 0 ? "None: no rule that concludes false matches." : many);
  redraw(byId("inconsistencies"), inconsistencies.map(({ rule, premises }) => el("li", { dataset: { key: `${rule} ${premises.join(" ")}` } },
    el("div", {}, "Rule ", ruleName(rule), " concludes false from"), premises.map((line) => markedQuad(line, prefixes, sets)))));
}

function show() {
  showState();
  showFigures();
  showRules();
}

async function update() {
  try {
    // One set alone is described with its inconsistencies, which takes a search.
    const { sets: all, atMs } = await setsByGraph();
    const found = [...all.values()].find(({ name }) => name === first.name) ?? (await call("GET", rulesPath(first.name))).data;
    // The feed of commits asks for one graph.
    if (found.into !== set.into) location.reload();
    minute.moveTo(atMs);
    [set, sets] = [found, all];
    show();
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status !== 404) return;
    stop();
    showProblem(byId("problem"), problem);
  }
}

/** Search for inconsistencies if a commit came since the last search; a suspended set is not searched. */
async function search() {
  const isSearched = set.include?.includes("owl2-rl") && set.state === "ready";
  if (isSearched && set.version === searchedVersion) return;
  try {
    if (!isSearched) {
      [inconsistencies, searchedVersion] = [null, null];
      showInconsistencies();
      return;
    }
    const { data } = await call("GET", rulesPath(first.name));
    [inconsistencies, searchedVersion] = [data.inconsistencies, data.version];
    showInconsistencies();
  } catch {
    // The other poll says what is wrong.
  }
}

function onCommit({ kind, data }) {
  const change = kind === "reset" ? undefined : data.inferred?.[set.into];
  if (change !== undefined) minute.add(data.at, change);
}

show();
append(byId("copy"), [copyButton(() => curl("PUT", rulesPath(set.name), { json: definitionOf(set) }), "Copy the PUT as curl")]);
byId("put-again").addEventListener("click", () => putAgain(set, update));
byId("delete").addEventListener("click", () => remove(set, () => go("/ui/rules")));
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
poll(search, 1000, SEARCH_SHARE);
serverPrefixes().then((known) => {
  prefixes = { ...known, ...prefixes };
  showInconsistencies();
});
