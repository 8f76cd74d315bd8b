// What there is to know of one operator of a plan, and of the static table that it reads.

import { breakable, el } from "../base/dom.js";
import { count, duration, instant, rate } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { brief } from "./graph.js";
import { columnsOf, nameOf, readable } from "./names.js";

function pair(term, detail, title = null) {
  return detail === null ? null : el("div", {}, el("dt", {}, term), el("dd", { title }, detail));
}

/** Show an operator in `place`; `refresh()` reads the query's static tables anew. */
export function showDetails(place, operator, figures, shorten, refresh) {
  const { steps, timed_steps: timed } = figures.document;
  const shared = operator.timed_with !== operator.number;
  const time = shared ? `with operator #${operator.timed_with}` : operator.microseconds === null ? "not measured yet" : `${rate(operator.microseconds)} µs a step`;
  redraw(place,
    el("h3", {}, `${nameOf(operator)} `, el("span", { class: "muted", title: "Name and number in EXPLAIN" }, `${operator.operator} #${operator.number}`)),
    el("pre", { class: "wrap pattern" }, operator.part ? operator.part.pattern : readable(shorten(operator.detail)) || brief(operator, shorten)),
    el("dl", { class: "figures" },
      pair("Rows out a second", rate(operator.perSecond), "Between the last two looks"),
      pair("Rows in", operator.inputs.length === 0 ? null : count(operator.rows_in), "Rows that come and rows that go both count"),
      pair("Rows out", count(operator.rows_out)),
      operator.inputs.length > 0 && operator.rows_in > 0 ? pair("Out for each row in", rate(operator.rows_out / operator.rows_in)) : null,
      pair("Rows held", operator.part ? null : count(operator.state_rows)),
      pair("Time", time, `${count(timed)} of ${count(steps)} steps were measured`),
      Number.isFinite(operator.share) ? pair("Share of the time", `${(100 * operator.share).toFixed(1)} %`) : null),
    operator.on.length > 0 ? el("p", {}, "Found by ", el("code", {}, operator.on.filter((name) => !name.startsWith("_")).map((name) => `?${name}`).join(" ") || "…"), ".") : null,
    el("p", {}, "Columns: ", el("code", {}, columnsOf(operator).join(" ") || "none")),
    operator.part ? tableOf(operator.part, refresh) : null);
}

/** A static table: how many rows, of which version, how old, how often it is found in. */
export function tableOf(part, refresh) {
  const { lookup } = part;
  return [
    el("dl", { class: "figures" },
      pair("Rows", lookup ? "looked up" : count(part.rows)),
      pair("Version", count(part.version)),
      pair("Age", Number.isFinite(part.age_ms) ? duration(1000 * Math.round(part.age_ms / 1000)) : "–", instant(part.last_refresh)),
      pair("Last refresh by", part.cause ?? "–"),
      Number.isFinite(part.read_ms) ? pair("Read in", duration(part.read_ms)) : null,
      lookup ? pair("Look-ups", count(lookup.asked)) : null,
      lookup ? pair("Found remembered", `${(100 * (lookup.hit_rate ?? 0)).toFixed(1)} %`) : null,
      part.shared_with?.length > 0 ? pair("Shared with", breakable(part.shared_with.join(", "))) : null),
    part.behind_since === null ? null : el("p", { class: "notice" }, `Read anew since version ${count(part.behind_since)}; old rows serve.`),
    el("div", { class: "row" }, el("button", { type: "button", on: { click: refresh } }, "Refresh static tables")),
  ];
}
