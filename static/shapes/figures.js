// Figures of shapes as the list, the page of one and tables of results show them.

import { el } from "../base/dom.js";
import { count, counted } from "../base/format.js";
import { shortIri } from "../base/terms.js";
import { SH } from "./graph.js";

const BADGES = { Violation: "badge-failed", Warning: "badge-paused" };
const ORDER = ["Violation", "Warning", "Info"];

function severityName(iri, prefixes) {
  return iri.startsWith(SH) ? iri.slice(SH.length) : shortIri(iri, prefixes) ?? iri;
}

function countedName(name, many) {
  if (name === "Violation" || name === "Warning") return counted(many, name.toLowerCase());
  return `${count(many)} ${name === "Info" ? "info" : name}`;
}

/** A severity as a badge, with the number of its results if given. */
export function severityBadge(iri, prefixes, many = null) {
  const name = severityName(iri, prefixes);
  return el("span", { class: `badge ${BADGES[name] ?? ""}`, title: iri }, many === null ? name : countedName(name, many));
}

/** The numbers of results by severity, the severest first. */
export function severitiesNode({ results, severities, state }, prefixes) {
  if (state === "failed") return el("span", { class: "muted" }, "unknown");
  if (results === 0) return el("span", { class: "muted" }, "none");
  const rank = ([iri]) => (ORDER.indexOf(severityName(iri, prefixes)) + ORDER.length + 1) % (ORDER.length + 1);
  return el("span", { class: "chips" }, Object.entries(severities).sort((a, b) => rank(a) - rank(b) || a[0].localeCompare(b[0]))
    .map(([iri, many]) => severityBadge(iri, prefixes, many)));
}

/** The graphs that are checked, in words. */
export function dataText({ data }) {
  if (data === undefined) return "the default graph and every named graph that no rule set, shapes or view owns and from which no shapes were read";
  return data.map((graph) => (graph === "default" ? "the default graph" : graph)).join(", ");
}

/** What a violation does to its commit. */
export const MODES = {
  watch: "a violation is listed",
  warn: "a violation is counted in the answer to its commit",
  reject: "a violation refuses its commit",
};
