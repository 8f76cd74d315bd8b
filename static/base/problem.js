// An error where the user looks: what, where (with the caret line), and how to mend it.

import { el, put } from "./dom.js";

/** Show a problem in `place`; with an editor, mark its positions there and select the first. */
export function showProblem(place, problem, editor = null) {
  const faults = faultsOf(problem);
  const positioned = faults.filter((fault) => fault.line);
  put(place, el("div", { class: "problem", role: "alert" },
    el("h2", {}, problem.status ? el("span", { class: "badge badge-failed" }, problem.status) : null, " ", problem.title || "Error"),
    faults.map((fault) => faultNode(fault, editor))));
  place.hidden = false;
  if (editor && positioned.length > 0) {
    editor.mark(positioned);
    editor.select(positioned[0]);
  }
  place.scrollIntoView({ block: "nearest" });
  if (problem.members?.code === "shacl-violation") showReport(place.firstChild, problem.members);
}

/** Show the results that refuse a write; only this problem needs the scripts of reports. */
async function showReport(box, { report, results, shapes }) {
  const { reportNode } = await import("../shapes/report.js");
  box.append(reportNode(report, results, shapes));
}

/** Nothing to complain about any more. */
export function clearProblem(place, editor = null) {
  put(place);
  if (editor) editor.mark([]);
}

function faultsOf(problem) {
  const main = { detail: problem.detail || problem.message, line: problem.line, column: problem.column, excerpt: problem.excerpt,
    hint: problem.hint };
  const others = (problem.faults || []).filter((fault) => !(fault.line === main.line && fault.column === main.column));
  return [main, ...others];
}

function faultNode(fault, editor) {
  const where = fault.line ? `Line ${fault.line}${fault.column ? `, column ${fault.column}` : ""}` : null;
  return el("div", { class: "fault" },
    where === null ? null : placeNode(where, fault, editor),
    el("p", { class: "detail" }, fault.detail || fault.message || ""),
    fault.excerpt ? el("pre", { class: "excerpt" }, fault.excerpt) : null,
    fault.hint ? el("p", { class: "hint" }, el("strong", {}, "Hint: "), fault.hint) : null);
}

function placeNode(where, fault, editor) {
  if (!editor) return el("p", { class: "where" }, where);
  return el("button", { type: "button", class: "where link", title: "Go to this place in the editor",
    on: { click: () => editor.select(fault) } }, where);
}
