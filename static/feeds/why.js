// Why an event has a row: a button beside the row, and below it the elements and quads over which the query alone gives the row.

import { call, queryPath } from "../base/api.js";
import { append, el, put } from "../base/dom.js";
import { count } from "../base/format.js";
import { showProblem } from "../base/problem.js";
import { quadsNode } from "./turtle.js";

/** The button of a row, by its event and its number there. */
export function whyButton(id, row) {
  return el("button", { type: "button", class: "quiet why", "aria-expanded": "false", dataset: { event: id, row }, title: "Show the elements and quads from which this row follows" }, "Why?");
}

/** Show and hide the reasons of rows of one query's events in a table. */
export function listenForWhy(table, name, prefixes) {
  table.addEventListener("click", async (event) => {
    const button = event.target.closest("button.why");
    if (!button) return;
    const row = button.closest("tr");
    const shown = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!shown));
    if (shown) {
      if (row.nextElementSibling?.classList.contains("reason")) row.nextElementSibling.remove();
      return;
    }
    const place = el("td", { colspan: String(table.tHead.rows[0]?.cells.length || 4) }, el("span", { class: "muted" }, "Looking …"));
    row.after(el("tr", { class: "reason" }, place));
    try {
      const path = `/results/${button.dataset.event}/why?row=${button.dataset.row}`;
      showReason(place, (await call("GET", queryPath(name, path))).data, prefixes);
    } catch (problem) {
      put(place);
      showProblem(place, problem);
    }
  });
}

function showReason(place, { elements, quads, inferred, truncated }, prefixes) {
  put(place);
  for (const { stream, seq, quads: lines } of elements) part(place, `Element ${count(seq)} of ${stream}`, lines, prefixes);
  if (quads.length > 0) part(place, "Store", quads, prefixes);
  if (inferred.length > 0) part(place, "Inferred by rules", inferred, prefixes);
  if (elements.length + quads.length + inferred.length === 0) append(place, el("p", { class: "muted" }, "The row needs no element and no quad."));
  if (truncated) append(place, el("p", { class: "muted" }, "The reason is longer than what is shown."));
}

function part(place, title, lines, prefixes) {
  append(place, [el("p", { class: "muted" }, title), quadsNode(lines.join("\n"), prefixes)]);
}
