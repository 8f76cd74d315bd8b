// How much of the last hour the charts of a view show: one choice for all views, which the browser keeps.

import { el, put } from "../base/dom.js";

const KEPT = "quadrill.range";
const RANGES = [[5 * 60_000, "5 min"], [15 * 60_000, "15 min"], [3_600_000, "hour"]];

/** Fill a select with the ranges; `changed()` follows a choice. The returned function gives the range in milliseconds. */
export function chooseRange(select, changed) {
  const kept = Number(localStorage.getItem(KEPT));
  put(select, RANGES.map(([ms, name]) => el("option", { value: ms }, name)));
  select.value = String(RANGES.some(([ms]) => ms === kept) ? kept : RANGES.at(-1)[0]);
  select.addEventListener("change", () => {
    localStorage.setItem(KEPT, select.value);
    changed();
  });
  return () => Number(select.value);
}
