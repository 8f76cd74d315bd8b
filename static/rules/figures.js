// Figures of a rule set as the list and its own page show them.

import { el } from "../base/dom.js";
import { count, duration } from "../base/format.js";

/** What the last change of the graph took. */
export function costText({ cost_ms: cost }) {
  return cost < 10 ? `${Number(cost.toPrecision(2))} ms` : duration(cost);
}

/** The state as a badge. */
export function stateBadge({ state }) {
  return el("span", { class: `badge badge-${state}` }, state);
}

/** Triples that the commits of a minute added and removed, and the number of these commits. */
export function changesNode(minute) {
  const { added, removed, commits } = minute.total();
  if (commits === 0) return el("span", { class: "muted" }, "no change");
  return [el("span", { class: "added" }, `+${count(added)}`), " ", el("span", { class: "removed" }, `−${count(removed)}`),
    el("span", { class: "sub short" }, `in ${count(commits)} ${commits === 1 ? "commit" : "commits"}`)];
}
