// SPARQL results as tables.

import { append, el, put } from "./dom.js";
import { count, counted } from "./format.js";
import { isNumeric, termNode } from "./terms.js";

const PAGE_ROWS = 200;

/** One `<td>` per variable. */
export function rowCells(variables, binding, prefixes) {
  return variables.map((name) => el("td", { class: isNumeric(binding[name]) ? "num" : null }, termNode(binding[name], prefixes)));
}

/** The header cells of the variables. */
export function headCells(variables) {
  return variables.map((name) => el("th", { scope: "col" }, `?${name}`));
}

/** Show a SELECT result in `place`, 200 rows at a time. */
export function showBindings(place, document_, prefixes) {
  const variables = document_.head.vars || [];
  const bindings = document_.results.bindings;
  const body = el("tbody");
  const more = el("button", { type: "button", class: "quiet", on: { click: () => addRows() } });
  const note = el("p", { class: "muted" });
  let shown = 0;
  const addRows = () => {
    const slice = bindings.slice(shown, shown + PAGE_ROWS);
    append(body, slice.map((binding, i) => el("tr", {}, el("td", { class: "rownum" }, shown + i + 1), rowCells(variables, binding, prefixes))));
    shown += slice.length;
    more.hidden = shown >= bindings.length;
    more.textContent = `Show ${count(Math.min(PAGE_ROWS, bindings.length - shown))} more`;
    note.textContent = shown < bindings.length ? `${count(shown)} of ${counted(bindings.length, "row")} shown` : "";
  };
  addRows();
  put(place,
    bindings.length === 0 ? el("p", { class: "empty" }, "The answer has no rows.")
      : el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results" },
        el("table", { class: "data" }, el("thead", {}, el("tr", {}, el("th", { class: "rownum" }, "#"), headCells(variables))), body)),
    el("div", { class: "row" }, more, note));
}
