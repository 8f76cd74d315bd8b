// The live table of one feed: newest event at the top, each with its sign, its time and its rows.
// What comes is kept, and drawn at most once per frame and four times a second; nobody reads faster, and a table is laid out anew each time.

import { append, el, put, setText } from "../base/dom.js";
import { count, instant, interval } from "../base/format.js";
import { rowCells, showBindings } from "../base/table.js";
import { quadsNode } from "./turtle.js";
import { whyButton } from "./why.js";

const SIGNS = { insert: "+ insert", delete: "− delete", answer: "= answer", resolved: "✓ resolved", progress: "… progress", reset: "↺ reset", error: "! error" };
const MAX_EVENTS = 1000;
const MAX_ROWS = 100;
const MAX_ROWS_PER_EVENT = 100;
const LEAST_PAUSE_MS = 250;

/** Shows events in a table with a thead and a tbody; `choice` says which rows. */
export class LiveTable {
  constructor(table, prefixes, choice) {
    this.table = table;
    this.prefixes = prefixes;
    this.choice = choice;
    this.variables = null;
    this.held = false;
    this.events = [];
    this.undrawn = 0;
    this.drawnAt = 0;
    this.due = false;
  }

  /** Hold still, so that rows can be read; what arrives meanwhile is shown at release. */
  hold(held) {
    this.held = held;
    this.draw();
  }

  clear() {
    this.events = [];
    this.undrawn = 0;
    this.table.tBodies[0].replaceChildren();
  }

  add(event) {
    this.events.push(event);
    if (this.events.length > 2 * MAX_EVENTS) this.events.splice(0, MAX_EVENTS);
    this.undrawn += 1;
    this.draw();
  }

  /** Draw what is new in the next frame, or a little later when it was drawn just before. */
  draw() {
    if (this.due || this.held || this.undrawn === 0) return;
    this.due = true;
    const frame = () => requestAnimationFrame((now) => {
      this.due = false;
      if (this.held) return;
      this.drawnAt = now;
      this.show(this.events.slice(-Math.min(this.undrawn, this.events.length)));
    });
    const wait = this.drawnAt + LEAST_PAUSE_MS - performance.now();
    if (wait > 0) setTimeout(frame, wait);
    else frame();
  }

  /** Draw all anew, but for what came since it is held: another choice was made. */
  drawAll() {
    const waiting = this.held ? Math.min(this.undrawn, this.events.length) : 0;
    this.table.tBodies[0].replaceChildren();
    this.show(this.events.slice(0, this.events.length - waiting));
    this.undrawn = waiting;
  }

  show(events) {
    this.undrawn = 0;
    const body = this.table.tBodies[0];
    const variables = events.findLast(({ data }) => data.head?.vars)?.data.head.vars;
    if (!this.table.tHead.rows.length || (variables && String(variables) !== String(this.variables))) this.setHead(variables || []);
    const made = [];
    for (const event of events.toReversed()) {
      if (made.length >= MAX_ROWS) break;
      made.push(...this.rowsOf(event));
    }
    body.querySelectorAll("tr.fresh").forEach((row) => row.classList.remove("fresh"));
    if (made.length < MAX_ROWS / 2) made.forEach((row) => row.classList.add("fresh"));
    body.prepend(...made);
    while (body.rows.length > MAX_ROWS) body.lastElementChild.remove();
  }

  setHead(variables) {
    this.variables = variables;
    put(this.table.tHead, el("tr", {}, el("th", { scope: "col" }, "Event"), el("th", { scope: "col" }, "At (UTC)"),
      el("th", { scope: "col" }, "Id"), variables.map((name) => el("th", { scope: "col" }, `?${name}`))));
  }

  rowsOf(event) {
    const first = [
      el("td", { class: "kind" }, SIGNS[event.kind]),
      el("td", { class: "stamp", title: windowText(event.data.window) }, instant(event.data.at)),
    ];
    return this.cellsOf(event).map(({ cells, number }, i) => el("tr", { class: `kind-${event.kind}${i === 0 ? " first" : ""}` },
      i === 0 ? first : [el("td", { class: "kind" }, event.kind === "insert" ? "+" : event.kind === "delete" ? "−" : event.kind === "resolved" ? "✓" : ""), el("td")],
      el("td", { class: "rownum" }, i === 0 && event.id !== null ? `${count(event.id)} ` : "", number === null || event.id === null ? null : whyButton(event.id, number)),
      cells));
  }

  /** The rows of an event that are chosen: their cells, and their number in the event; null for a remark. */
  cellsOf(event) {
    const { data } = event;
    if (data.results) {
      const chosen = data.results.bindings.map((binding, number) => ({ binding, number })).filter(({ binding }) => this.choice.matches(binding));
      if (chosen.length === 0) return this.choice.narrow ? [] : [this.remark("The answer is empty.")];
      const rows = chosen.slice(0, MAX_ROWS_PER_EVENT).map(({ binding, number }) => ({ cells: rowCells(data.head.vars, binding, this.prefixes), number }));
      if (chosen.length > rows.length) rows.push(this.remark(`${count(chosen.length - rows.length)} more rows are in the event.`));
      if (data.revises) rows.push(this.remark(`This corrects event ${data.revises}.`));
      return rows;
    }
    if ("quads" in data) return this.choice.matchesText(data.quads) ? [this.spread(el("td", {}, quadsNode(data.quads, this.prefixes)))] : [];
    if (this.choice.narrow) return [];
    if ("boolean" in data) return [this.spread(el("td", {}, el("strong", {}, data.boolean ? "true" : "false")), 0)];
    return [this.remark(sentence(event))];
  }

  remark(text) {
    return this.spread(el("td", { class: "muted" }, text));
  }

  spread(cell, number = null) {
    cell.colSpan = Math.max(1, (this.variables || []).length);
    return { cells: [cell], number };
  }
}

function windowText(window_) {
  return window_ ? `Window ${interval(window_.open, window_.close)}` : null;
}

function sentence({ kind, data }) {
  if (kind === "progress") return `${count(data.skipped)} empty windows from ${instant(data.from)} to ${instant(data.to)}.`;
  if (kind === "reset") return `Older events are no longer kept${data.earliest ? `; the first kept one is ${data.earliest}` : ""}. The current answer follows.`;
  return data.error || JSON.stringify(data);
}

/** Show the current answer, of whatever form; of its rows those that are chosen. */
export function showAnswer(place, data, prefixes, choice) {
  const at = el("p", { class: "muted" });
  const holder = el("div");
  put(place, at, holder);
  let left = "";
  if (data.results) {
    const bindings = data.results.bindings.filter((row) => choice.matches(row));
    if (choice.narrow) left = ` ${count(bindings.length)} of ${count(data.results.bindings.length)} rows are chosen.`;
    showBindings(holder, { head: data.head, results: { bindings } }, prefixes);
  } else if ("boolean" in data) put(holder, el("p", {}, el("strong", {}, data.boolean === null ? "not known yet" : String(data.boolean))));
  else append(holder, [el("div", { class: "listing" }, data.quads ? quadsNode(data.quads, prefixes, true) : "No triples.")]);
  setText(at, `At ${instant(data.at)} (UTC), on version ${count(data.version)} of the store.${left}`);
}
