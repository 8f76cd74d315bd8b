// SPARQL results as tables.

import { linkIris } from "./browse.js";
import { append, el, put } from "./dom.js";
import { count, counted } from "./format.js";
import { isNumeric, termNode } from "./terms.js";

const PAGE_ROWS = 200;

const terms = new WeakMap();

/** One `<td>` per variable. */
export function rowCells(variables, binding, prefixes) {
  return variables.map((name) => {
    const cell = el("td", { class: isNumeric(binding[name]) ? "num" : null, "data-name": `?${name}` }, termNode(binding[name], prefixes));
    terms.set(cell, { name, term: binding[name] });
    return cell;
  });
}

/** The variable and the term that a cell of `rowCells` shows, or undefined. */
export function cellTerm(cell) {
  return terms.get(cell);
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
    linkIris(body);
    shown += slice.length;
    more.hidden = shown >= bindings.length;
    more.textContent = `Show ${count(Math.min(PAGE_ROWS, bindings.length - shown))} more`;
    note.textContent = shown < bindings.length ? `${count(shown)} of ${counted(bindings.length, "row")} shown` : "";
  };
  addRows();
  put(place,
    bindings.length === 0 ? el("p", { class: "empty" }, "The answer has no rows.")
      : el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" },
        el("table", { class: "data" }, el("thead", {}, el("tr", {}, el("th", { class: "rownum" }, "#"), headCells(variables))), body)),
    el("div", { class: "row" }, more, note));
}
