// Rule sets: state, graph, number of inferred triples, changes of the last minute, strata, cost and the last error.

import { triplesPath } from "../base/browse.js";
import { commandBox, curl } from "../base/curl.js";
import { breakable, byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { count, counted } from "../base/format.js";
import { menu, step } from "../base/menu.js";
import { redraw } from "../base/redraw.js";
import { openFeed } from "../feeds/feed.js";
import { deleteRefusal, remove } from "../rules/actions.js";
import { changesNode, costText, stateBadge } from "../rules/figures.js";
import { LastMinute } from "../rules/minute.js";
import { rulesView } from "../rules/path.js";
import { setsByGraph } from "../rules/quads.js";

const COMMITS_AT_FIRST = 200;
const SHARE = 0.2;
const { refusal } = serverState({ refusal: null });
const body = byId("rules").tBodies[0];
const minutes = new Map();
const example = {
  rules: ["CONSTRUCT { ?x <http://example.org/grandparent> ?z } WHERE { ?x <http://example.org/parent> ?y . ?y <http://example.org/parent> ?z }"],
  into: "http://example.org/inferred",
};

put(byId("first-rules"), commandBox(curl("PUT", "/rules/family", { json: example })));

function details({ rules, include = [] }) {
  return [...include, rules.length > 0 ? counted(rules.length, "rule") : null].filter(Boolean).join(", ");
}

/** The number of a rule in each stratum, for instance "2, then 1". */
function strataText({ strata }) {
  return strata.map((rules) => count(rules.length)).join(", then ");
}

function inferredText(set) {
  return set.materialised === null ? count(set.inferred) : `${count(set.materialised)} so far`;
}

function minuteOf(graph) {
  if (!minutes.has(graph)) minutes.set(graph, new LastMinute());
  return minutes.get(graph);
}

function row(set) {
  const reason = deleteRefusal(set, refusal);
  return el("tr", { dataset: { key: set.name } },
    el("th", { scope: "row" }, el("a", { href: rulesView(set.name) }, set.name), el("span", { class: "sub" }, details(set))),
    el("td", { "data-name": "State" }, stateBadge(set), set.error ? el("span", { class: "sub bad" }, set.error) : null),
    el("td", { "data-name": "Graph" }, el("a", { href: triplesPath(set.into) }, el("code", { class: "wrap" }, breakable(set.into)))),
    el("td", { class: "num", "data-name": "Inferred" }, inferredText(set)),
    el("td", { class: "num", "data-name": "Last minute" }, changesNode(minuteOf(set.into))),
    el("td", { "data-name": "Strata" }, strataText(set)),
    el("td", { class: "num", "data-name": "Last change" }, costText(set)),
    el("td", { class: "actions" }, menu(set.name, set.name, step("Delete", { needs: "write", reason,
      "aria-label": `Delete the rule set ${set.name}`, on: { click: () => remove(set, update) } }))));
}

async function update() {
  try {
    const { sets, atMs } = await setsByGraph();
    for (const graph of minutes.keys()) if (!sets.has(graph)) minutes.delete(graph);
    for (const graph of sets.keys()) minuteOf(graph).moveTo(atMs);
    redraw(body, [...sets.values()].map(row));
    byId("no-rules").hidden = sets.size > 0;
    byId("rules-scroll").hidden = sets.size === 0;
    setText(byId("summary"), sets.size === 0 ? "" : counted(sets.size, "rule set"));
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

function onCommit({ kind, data }) {
  if (kind === "reset") return;
  for (const [graph, change] of Object.entries(data.inferred ?? {})) minuteOf(graph).add(data.at, change);
}

setText(byId("refusal"), refusal);
byId("refusal").hidden = refusal === null;
openFeed((seen) => `/changes?after=${seen ?? Math.max(0, Number(byId("store-version").textContent) - COMMITS_AT_FIRST)}`, {
  kinds: ["message", "reset"], onEvent: onCommit, onState: () => null,
});
poll(update, 1000, SHARE);
