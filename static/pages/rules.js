// Rule sets: state, graph, number of inferred triples, strata, cost and the last error.

import { call } from "../base/api.js";
import { commandBox, curl } from "../base/curl.js";
import { announce, byId, el, poll, put, setText } from "../base/dom.js";
import { count, counted, duration } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";

const body = byId("rules").tBodies[0];
const example = {
  rules: ["CONSTRUCT { ?x <http://example.org/grandparent> ?z } WHERE { ?x <http://example.org/parent> ?y . ?y <http://example.org/parent> ?z }"],
  into: "http://example.org/inferred",
};

put(byId("first-rules"), commandBox(curl("PUT", "/rules/family", { json: example })));

function details({ rules, include = [] }) {
  return [...include, rules.length > 0 ? counted(rules.length, "rule") : null].filter(Boolean).join(", ");
}

/** The number of a rule in each stratum, for instance "2, then 1". */
function strata({ strata }) {
  return strata.map((rules) => count(rules.length)).join(", then ");
}

function inferred(set) {
  return set.materialised === null ? count(set.inferred) : `${count(set.materialised)} so far`;
}

function row(set) {
  return el("tr", { dataset: { key: set.name } },
    el("th", { scope: "row" }, set.name, el("span", { class: "sub" }, details(set))),
    el("td", {}, el("span", { class: `badge badge-${set.state}` }, set.state), set.error ? el("span", { class: "sub bad" }, set.error) : null),
    el("td", {}, el("a", { href: `/ui/store?iri=${encodeURIComponent(set.into)}` }, el("code", { class: "wrap" }, set.into))),
    el("td", { class: "num" }, inferred(set)),
    el("td", {}, strata(set)),
    el("td", { class: "num" }, set.cost_ms < 10 ? `${set.cost_ms.toFixed(1)} ms` : duration(set.cost_ms)),
    el("td", { class: "actions" }, el("button", { type: "button", class: "quiet danger", on: { click: () => remove(set) } }, "Delete")));
}

async function update() {
  try {
    const { rules } = (await call("GET", "/rules")).data;
    redraw(body, rules.map(row));
    byId("no-rules").hidden = rules.length > 0;
    setText(byId("summary"), rules.length === 0 ? "" : counted(rules.length, "rule set"));
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

async function remove(set) {
  if (!window.confirm(`Delete the rule set ${set.name} and its ${counted(set.inferred, "inferred triple")}?`)) return;
  clearProblem(byId("problem"));
  try {
    await call("DELETE", `/rules/${encodeURIComponent(set.name)}`);
    announce(`The rule set ${set.name} is deleted.`);
    await update();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

poll(update, 1000);
