// The plan of a query: as a graph, as a table of its operators, and as text, with live figures while it is looked at.

import { call, queryPath } from "../base/api.js";
import { announce, byId, el, poll, setText } from "../base/dom.js";
import { count, rate } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { tabs } from "../base/tabs.js";
import { shortIri } from "../base/terms.js";
import { showDetails } from "./details.js";
import { PlanFigures, shapeOf, whereRowsEnd } from "./figures.js";
import { brief, PlanGraph } from "./graph.js";
import { nameOf } from "./names.js";

const EVERY_MS = 2000;

/** Begin to show the plan of a query in the page's plan panel; `prefixes` shorten its IRIs. */
export function showPlan(name, prefixes, onProblem) {
  const figures = new PlanFigures();
  const shorten = (text) => text.replace(/<([^<>\s]*)>/g, (whole, iri) => shortIri(iri, prefixes) ?? whole);
  let selected = null;
  let drawn = null;

  const select = (number) => {
    selected = selected === number ? null : number;
    render();
  };
  const graph = new PlanGraph(byId("plan-graph"), select);

  async function refresh() {
    try {
      await call("POST", queryPath(name, "/refresh"));
      announce(`The static tables of ${name} are fresh.`);
      await look();
    } catch (problem) {
      onProblem(problem);
    }
  }

  function render() {
    const { operators } = figures;
    const shape = shapeOf(operators);
    if (shape !== drawn) {
      graph.draw(operators, shorten);
      drawn = shape;
    }
    graph.update(operators, selected);
    const shown = operators.find(({ number }) => number === selected);
    byId("plan-details").hidden = shown === undefined;
    if (shown) showDetails(byId("plan-details"), shown, figures, shorten, refresh);
    redraw(byId("plan-table").tBodies[0], figures.tree().map((line) => row(line, shorten)));
    setText(byId("plan-note"), note(figures));
  }

  async function look() {
    if (byId("plan-text-pane").hidden) {
      figures.take((await call("GET", queryPath(name, "/explain?analyze=true"))).data);
      render();
    } else {
      setText(byId("plan"), (await call("GET", queryPath(name, "/explain"), { accept: "text/plain" })).data);
    }
  }

  const chosen = tabs([byId("tab-plan-graph"), byId("tab-plan-table"), byId("tab-plan-text")], () => look().catch(onProblem));
  byId("plan-details").addEventListener("keydown", (event) => event.key === "Escape" && close());
  byId("plan-graph").addEventListener("keydown", (event) => event.key === "Escape" && close());
  function close() {
    const box = graph.boxes.get(selected)?.node;
    selected = null;
    box?.focus();
    render();
  }
  poll(() => look().catch(() => {}), EVERY_MS);

  /** Show where rows end, for a query whose filters let none pass. */
  return () => {
    chosen(byId("tab-plan-graph"));
    selected = whereRowsEnd(figures.operators)?.number ?? null;
    render();
    graph.boxes.get(selected)?.node.focus();
  };
}

function row([operator, depth, again], shorten) {
  const share = Number.isFinite(operator.share) ? `${Math.round(100 * operator.share)} %` : operator.timed_with === operator.number ? "" : `with #${operator.timed_with}`;
  return el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "plan-indent" }, `${"· ".repeat(depth)}${nameOf(operator)}`),
      el("span", { class: "sub" }, again ? `#${operator.number}, see above` : `#${operator.number}`)),
    el("td", {}, el("code", {}, brief(operator, shorten))),
    el("td", { class: "num" }, rate(operator.perSecond)),
    el("td", { class: "num" }, operator.inputs.length === 0 ? "" : count(operator.rows_in)),
    el("td", { class: "num" }, count(operator.rows_out)),
    el("td", { class: "num" }, operator.part ? (operator.part.lookup ? "looked up" : count(operator.part.rows)) : count(operator.state_rows)),
    el("td", { class: "num" }, share));
}

/** What the figures are of, in one sentence. */
function note({ operators, document: told }) {
  if (operators.length === 0) return told.engine ? `The answer is evaluated as a whole (${told.engine}): it has no operators.` : "The query does not run: it has no plan now.";
  const micros = operators.reduce((sum, each) => sum + (each.timed_with === each.number ? each.microseconds ?? 0 : 0), 0);
  if (!told.timed_steps) return `${count(told.steps)} steps, none measured yet: few of them are.`;
  return `${count(told.steps)} steps, ${count(told.timed_steps)} of them measured: ${count(Math.round(micros))} µs of CPU time a step.`;
}
