// What a query would have told over the last minutes of its streams: a sentence, the newest events, the answer.

import { call } from "../base/api.js";
import { el, put } from "../base/dom.js";
import { count, counted, instant } from "../base/format.js";
import { headCells, rowCells } from "../base/table.js";
import { prefixesOf } from "../base/terms.js";

const EVENTS = 100;
const ROWS = 300;
const SIGNS = { insert: "+ insert", delete: "− delete", answer: "= answer", resolved: "✓ resolved", error: "! error" };

/** Ask for the preview of a registration and show it in `place`. */
export async function showPreview(place, registration, last) {
  const { data } = await call("POST", `/queries:preview?last=${encodeURIComponent(last)}&limit=${EVENTS}`, { json: registration });
  place.hidden = false;
  put(place, el("h2", {}, "Preview"), el("p", { class: "notice" }, sentence(data)),
    data.stopped ? el("p", { class: "notice notice-failed" }, `It stopped: ${data.stopped}.`) : null, table(data, prefixesOf(registration.query)));
  place.scrollIntoView({ block: "nearest" });
}

function sentence({ elements, from, to, told, evaluations, left_out: leftOut }) {
  if (elements === 0 && from === null) return "Its streams retain no elements yet: push some, and look again. Nothing is registered.";
  const span = to === null ? "" : ` from ${instant(from)} to ${instant(to)}`;
  const skipped = leftOut > 0 ? `, ${counted(leftOut, "older one")} left out` : "";
  return `${counted(elements, "element")}${span}${skipped} gave ${counted(told, "event")} in ${counted(evaluations, "evaluation")}. Nothing is registered.`;
}

function table({ events, answer, told }, prefixes) {
  const shown = [...events].reverse();
  const variables = (shown.find(({ data }) => data.head)?.data ?? answer)?.head?.vars ?? [];
  const rows = (shown.length > 0 ? shown.flatMap((event) => rowsOf(event, variables, prefixes))
    : answer === null ? [] : rowsOf({ event: "answer", data: answer }, variables, prefixes)).slice(0, ROWS);
  if (rows.length === 0) return el("p", { class: "empty" }, "No row: it would have told nothing.");
  return [
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Preview of the results" }, el("table", { class: "data" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Event"), el("th", { scope: "col" }, "At (UTC)"), headCells(variables))), el("tbody", {}, rows))),
    told > shown.length && shown.length > 0 ? el("p", { class: "muted" }, `The newest ${count(shown.length)} of ${counted(told, "event")}.`) : null,
  ];
}

function rowsOf({ event, data }, variables, prefixes) {
  const cells = data.results ? data.results.bindings.map((binding) => rowCells(variables, binding, prefixes)) : [[el("td", { colspan: Math.max(1, variables.length) }, plain(data))]];
  const all = cells.length > 0 ? cells : [[el("td", { class: "muted", colspan: Math.max(1, variables.length) }, "The answer is empty.")]];
  return all.map((each, i) => el("tr", { class: `kind-${event}` }, el("td", { class: "kind" }, i === 0 ? SIGNS[event] ?? event : ""),
    el("td", { class: "stamp" }, i === 0 && data.at !== null ? instant(data.at) : ""), each));
}

function plain(data) {
  if ("boolean" in data) return el("strong", {}, data.boolean ? "true" : "false");
  if ("quads" in data) return el("code", { class: "wrap" }, data.quads.trimEnd() || "No triples.");
  return data.error ?? "";
}
