// The live table of one feed: newest event at the top, each with its sign, its time and its rows.

import { append, el, put } from "../base/dom.js";
import { count, instant, interval } from "../base/format.js";
import { rowCells, showBindings } from "../base/table.js";

const SIGNS = { insert: "+ insert", delete: "− delete", answer: "= answer", progress: "… progress", reset: "↺ reset", error: "! error" };
const MAX_ROWS = 400;
const MAX_ROWS_PER_EVENT = 100;

/** Shows events in a table with a thead and a tbody. */
export class LiveTable {
  constructor(table, prefixes) {
    this.table = table;
    this.prefixes = prefixes;
    this.variables = null;
    this.held = false;
    this.waiting = [];
  }

  /** Hold still, so that rows can be read; what arrives meanwhile is shown at release. */
  hold(held) {
    this.held = held;
    if (!held) {
      this.waiting.forEach((event) => this.show(event));
      this.waiting = [];
    }
  }

  clear() {
    this.table.tBodies[0].replaceChildren();
    this.waiting = [];
  }

  add(event) {
    if (!this.held) this.show(event);
    else if (this.waiting.push(event) > MAX_ROWS) this.waiting.shift();
  }

  show(event) {
    const variables = event.data.head?.vars;
    if (variables && String(variables) !== String(this.variables)) this.setHead(variables);
    const rows = this.rowsOf(event);
    const stamp = [
      el("td", { class: "kind" }, SIGNS[event.kind]),
      el("td", { class: "stamp", title: windowText(event.data.window) }, instant(event.data.at)),
      el("td", { class: "rownum" }, event.id === null ? "" : count(event.id)),
    ];
    const width = Math.max(1, (this.variables || []).length);
    const made = rows.map((cells, i) => el("tr", { class: `kind-${event.kind} fresh${i === 0 ? " first" : ""}` },
      i === 0 ? stamp : [el("td", { class: "kind" }, event.kind === "insert" ? "+" : event.kind === "delete" ? "−" : ""), el("td"), el("td")],
      cells.length === 1 && !event.data.results ? spread(cells[0], width) : cells));
    const body = this.table.tBodies[0];
    body.prepend(...made);
    while (body.rows.length > MAX_ROWS) body.lastElementChild.remove();
  }

  setHead(variables) {
    this.variables = variables;
    put(this.table.tHead, el("tr", {}, el("th", { scope: "col" }, "Event"), el("th", { scope: "col" }, "At (UTC)"),
      el("th", { scope: "col" }, "Id"), variables.map((name) => el("th", { scope: "col" }, `?${name}`))));
  }

  rowsOf(event) {
    const { data } = event;
    if (!this.table.tHead.rows.length) this.setHead([]);
    if (data.results) {
      const { bindings } = data.results;
      if (bindings.length === 0) return [[this.remark("The answer is empty.")]];
      const rows = bindings.slice(0, MAX_ROWS_PER_EVENT).map((binding) => rowCells(data.head.vars, binding, this.prefixes));
      if (bindings.length > rows.length) rows.push([this.remark(`${count(bindings.length - rows.length)} more rows are in the event.`)]);
      if (data.revises) rows.push([this.remark(`This corrects event ${data.revises}.`)]);
      return rows;
    }
    if ("boolean" in data) return [[el("td", {}, el("strong", {}, data.boolean ? "true" : "false"))]];
    if ("quads" in data) return [[el("td", {}, el("code", { class: "wrap" }, data.quads.trimEnd() || "No triples."))]];
    return [[this.remark(sentence(event))]];
  }

  remark(text) {
    return spread(el("td", { class: "muted" }, text), Math.max(1, (this.variables || []).length));
  }
}

function windowText(window_) {
  return window_ ? `Window ${interval(window_.open, window_.close)}` : null;
}

function spread(cell, width) {
  cell.colSpan = width;
  return cell;
}

function sentence({ kind, data }) {
  if (kind === "progress") return `${count(data.skipped)} empty windows from ${instant(data.from)} to ${instant(data.to)}.`;
  if (kind === "reset") return `Older events are no longer kept${data.earliest ? `; the first kept one is ${data.earliest}` : ""}. The current answer follows.`;
  return data.error || JSON.stringify(data);
}

/** Show the current answer, of whatever form. */
export function showAnswer(place, data, prefixes) {
  const at = el("p", { class: "muted" }, `At ${instant(data.at)} (UTC), on version ${count(data.version)} of the store.`);
  const holder = el("div");
  put(place, at, holder);
  if (data.results) showBindings(holder, data, prefixes);
  else if ("boolean" in data) put(holder, el("p", {}, el("strong", {}, data.boolean === null ? "not known yet" : String(data.boolean))));
  else append(holder, [el("pre", { class: "listing" }, data.quads || "No triples.")]);
}
