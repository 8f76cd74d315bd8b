// Take results away: rows that are shown or the whole answer as CSV, JSON or NDJSON, and the commands that ask for them.

import { call, queryPath } from "../base/api.js";
import { copy, curl } from "../base/curl.js";
import { el } from "../base/dom.js";

const TYPES = { csv: "text/csv", json: "application/json", ndjson: "application/x-ndjson", nq: "application/n-quads" };

/** Rows of events or answers, [{ id?, event?, at?, row }], as text of a format; `variables` are the columns. */
export function textOf(format, variables, rows) {
  if (format === "json") {
    return JSON.stringify({ head: { vars: variables }, results: { bindings: rows.map(({ row }) => row) } }, null, 1);
  }
  const stamps = ["id", "event", "at"].filter((stamp) => rows.some((each) => each[stamp] !== undefined && each[stamp] !== null));
  if (format === "ndjson") {
    return rows.map((each) => `${JSON.stringify({ ...Object.fromEntries(stamps.map((stamp) => [stamp, each[stamp] ?? null])), ...each.row })}\n`).join("");
  }
  const line = (fields) => `${fields.map(field).join(",")}\r\n`;
  return line([...stamps, ...variables]) + rows.map((each) => line([...stamps.map((stamp) => each[stamp]), ...variables.map((name) => csvTerm(each.row[name]))])).join("");
}

function field(value) {
  const text = value === undefined || value === null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvTerm(term) {
  return term ? (term.type === "bnode" ? `_:${term.value}` : typeof term.value === "string" ? term.value : JSON.stringify(term.value)) : "";
}

function save(text, format, name) {
  const address = URL.createObjectURL(new Blob([text], { type: TYPES[format] }));
  el("a", { href: address, download: `${name}.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Save what is shown: `shown()` gives { variables, rows }, or { quads } of a CONSTRUCT. */
export function saveShown(name, format, shown) {
  const { variables, rows, quads } = shown;
  if (quads !== undefined) save(quads, "nq", name);
  else save(textOf(format, variables, rows), format, name);
}

/** Save the whole current answer, as the server writes it; NDJSON, a row a line, is made of its JSON. */
export async function saveAnswer(name, format, isGraph) {
  const accept = isGraph ? "application/n-quads" : format === "csv" ? "text/csv" : "application/sparql-results+json, application/json;q=0.9";
  const answer = await call("GET", queryPath(name, "/results"), { accept });
  if (isGraph) return save(answer.text, "nq", name);
  if (format !== "ndjson" || !answer.data.results) return save(answer.text, format, name);
  return save(textOf("ndjson", answer.data.head.vars, answer.data.results.bindings.map((row) => ({ row }))), "ndjson", name);
}

/** The command that follows the feed, or that asks for the current answer. */
export function curlOf(name, what, isGraph) {
  const path = queryPath(name, "/results");
  if (what === "feed") return curl("GET", path, { accept: "text/event-stream", stream: true });
  return curl("GET", path, { accept: isGraph ? "text/turtle" : "text/csv" });
}

/** Listen to the buttons of a menu: data-save="shown csv", data-copy="feed". Escape and a click elsewhere close it. */
export function listenToMenu(menu, name, { shown, isGraph, onProblem }) {
  menu.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    try {
      if (button.dataset.copy) await copy(curlOf(name, button.dataset.copy, isGraph()));
      const [what, format] = (button.dataset.save ?? "").split(" ");
      if (what === "shown") saveShown(name, format, shown());
      if (what === "answer") await saveAnswer(name, format, isGraph());
      menu.open = false;
      menu.querySelector("summary").focus();
    } catch (problem) {
      onProblem(problem);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
}
