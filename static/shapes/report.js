// Validation reports, which the server gives in Turtle, as rows and as a table.

import { el } from "../base/dom.js";
import { count, counted } from "../base/format.js";
import { linkIris } from "../base/browse.js";
import { redraw } from "../base/redraw.js";
import { prefixesOf, shortText, termNode, termText } from "../base/terms.js";
import { severityBadge } from "./figures.js";
import { Graph, SH } from "./graph.js";
import { shapesView } from "./path.js";
import { triplesOf } from "./turtle.js";

/** The largest number of rows of one table. */
export const MOST_ROWS = 1000;
const MEMBERS = { focus: "focusNode", path: "resultPath", value: "value", constraint: "sourceConstraintComponent", shape: "sourceShape",
  severity: "resultSeverity", message: "resultMessage" };
/** How tightly the forms of paths bind, the loosest first. */
const BINDS = { alternative: 0, sequence: 1, inverse: 2, repeated: 3, name: 4 };
const AFTER = { zeroOrMorePath: "*", oneOrMorePath: "+", zeroOrOnePath: "?" };

/** Prefixes for reports and shapes: the given ones, and `sh`. */
export function withShacl(prefixes = prefixesOf()) {
  return { sh: SH, ...prefixes };
}

/**
 * The results of a report as objects with the terms `focus`, `path`, `value`, `constraint`, `shape`, `severity` and `message`,
 * undefined where a result has none. A path other than an IRI is a literal with its SPARQL text.
 */
export function resultsOf(turtle, prefixes) {
  const graph = new Graph(triplesOf(turtle));
  const report = [...graph.bySubject.values()].find(([[subject]]) => graph.object(subject, `${SH}conforms`) !== undefined);
  if (report === undefined) return [];
  return graph.objects(report[0][0], `${SH}result`).map((node) => {
    const row = Object.fromEntries(Object.entries(MEMBERS).map(([name, property]) => [name, graph.object(node, SH + property)]));
    if (row.path?.type === "bnode") row.path = { type: "literal", value: pathText(graph, row.path, prefixes) };
    return row;
  });
}

/** A path of the report as SPARQL writes it; in brackets where it binds looser than `least`, a number of `BINDS`. */
function pathText(graph, node, prefixes, least = BINDS.alternative) {
  const [form, text] = pathParts(graph, node, prefixes);
  return BINDS[form] < least ? `(${text})` : text;
}

function pathParts(graph, node, prefixes) {
  if (node.type === "uri") return ["name", shortText(node, prefixes)];
  const joined = (members, mark, least) => members.map((each) => pathText(graph, each, prefixes, least)).join(mark);
  const steps = graph.list(node);
  if (steps !== null) return ["sequence", joined(steps, "/", BINDS.inverse)];
  const [[, { value }, inner]] = graph.from(node);
  const form = value.slice(SH.length);
  if (form === "alternativePath") return ["alternative", joined(graph.list(inner), "|", BINDS.sequence)];
  if (form === "inversePath") return ["inverse", `^${pathText(graph, inner, prefixes, BINDS.repeated)}`];
  return ["repeated", `${pathText(graph, inner, prefixes, BINDS.name)}${AFTER[form]}`];
}

/** The component of a constraint: of SHACL's own the name without its common end, with the IRI as its tooltip. */
function constraintNode(constraint, prefixes) {
  const name = constraint.value.startsWith(SH) ? constraint.value.slice(SH.length).replace(/ConstraintComponent$/, "") : "";
  return name === "" ? termNode(constraint, prefixes) : el("span", { class: "term", title: constraint.value }, name);
}

/** A table of results in `place`, which changes in place; its rows lead to the text of their shapes if `choose` is given. */
export class ResultsTable {
  /** `label` names the table for screen readers; `choose(row)` is called for the result that a person chooses, or is null. */
  constructor(place, label, choose = null) {
    this.choose = choose;
    this.rows = new Map();
    this.chosen = null;
    this.body = el("tbody", { on: choose === null ? {} : { click: (event) => this.clicked(event) } });
    this.scroll = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label },
      el("table", { class: "list results" }, el("thead", {}, el("tr", {}, ["Severity", "Focus node", "Path", "Value", "Message", "Constraint", "Shape"]
        .map((name) => el("th", { scope: "col" }, name)))), this.body));
    place.replaceChildren(this.scroll);
  }

  /** Show results, at most `MOST_ROWS` of them; those that were not there before are marked if `fresh` is set. */
  show(results, prefixes, fresh = false) {
    const before = this.rows;
    this.rows = keyed(results.slice(0, MOST_ROWS));
    if (!this.rows.has(this.chosen)) this.chosen = null;
    redraw(this.body, [...this.rows].map(([key, row]) => this.row(key, row, prefixes, fresh && !before.has(key))));
    this.scroll.hidden = results.length === 0;
  }

  row(key, { severity, focus, path, value, message, constraint, shape }, prefixes, fresh) {
    const cell = (name, node) => el("td", { "data-name": name }, node);
    const optional = (term) => (term === undefined ? null : termNode(term, prefixes));
    const isChosen = key === this.chosen;
    const name = shortText(shape, prefixes);
    return el("tr", { dataset: { key }, class: [isChosen ? "chosen" : null, fresh ? "fresh" : null, this.choose ? "choosable-row" : null].filter(Boolean).join(" ") || null },
      cell("Severity", severityBadge(severity.value, prefixes)),
      linkIris(cell("Focus node", termNode(focus, prefixes))),
      cell("Path", path === undefined ? null : path.type === "uri" ? termNode(path, prefixes) : el("span", { class: "term" }, path.value)),
      linkIris(cell("Value", optional(value))),
      cell("Message", message === undefined ? null : el("span", { class: "message-text" }, message.value)),
      cell("Constraint", constraintNode(constraint, prefixes)),
      cell("Shape", this.choose === null ? termNode(shape, prefixes) : el("button", { type: "button", class: "quiet", "aria-pressed": String(isChosen),
        "aria-label": `Show the shape of the result ${shortText(focus, prefixes)}: ${message?.value ?? shortText(constraint, prefixes)}`, title: termText(shape) },
      shape.type === "bnode" ? "Show" : name)));
  }

  clicked(event) {
    if (event.target.closest("a") !== null || String(getSelection()) !== "") return;
    const key = event.target.closest("tr")?.dataset.key;
    if (key === undefined) return;
    this.chosen = key;
    for (const row of this.body.rows) {
      const isChosen = row.dataset.key === key;
      row.classList.toggle("chosen", isChosen);
      row.querySelector("button[aria-pressed]").setAttribute("aria-pressed", String(isChosen));
    }
    this.choose(this.rows.get(key));
  }
}

/** Results by a key of all that identifies them; equal results are numbered. */
function keyed(results) {
  const seen = new Map();
  return new Map(results.map((row) => {
    const identity = ["focus", "path", "value", "constraint", "shape", "severity"].map((name) => termText(row[name])).join(" ");
    seen.set(identity, (seen.get(identity) ?? 0) + 1);
    return [`${identity} ${seen.get(identity)}`, row];
  }));
}

/** The note of a table that has some of the results only, or an empty text. */
export function shownNote(shown, total) {
  return total > shown ? `The first ${count(shown)} of ${counted(total, "result")} are shown.` : "";
}

/** The report of a write that the shapes `name` refuse, as a table; `total` is the number of its results, of which the report may have some only. */
export function reportNode(turtle, total, name) {
  const place = el("div");
  const prefixes = withShacl();
  const results = resultsOf(turtle, prefixes);
  new ResultsTable(place, "Results that refuse the change").show(results, prefixes);
  return el("div", { class: "report" }, place,
    el("p", { class: "report-foot" }, `${shownNote(Math.min(results.length, MOST_ROWS), total)} `, el("a", { href: shapesView(name) }, `Shapes ${name}`)));
}
