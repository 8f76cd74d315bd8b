// Alerts: rows that hold now and rows that held, of a query that tells both, with since when and how long; rows of one that tells
// each key once. Newest first.

import { el, put } from "../base/dom.js";
import { counted, duration, instant } from "../base/format.js";
import { rowCells } from "../base/table.js";
import { termText } from "../base/terms.js";

const MOST = 500;
const MOST_SHOWN = 100;

/** The alerts that events tell; `keys` are the variables of ONCE PER, whose event `resolved` ends all alerts of a key. */
export class Alerts {
  constructor(keys) {
    this.keys = keys ?? [];
    this.resolves = false;
    this.variables = [];
    this.all = [];
    this.open = new Map();
    this.newest = 0;
  }

  add({ kind, data }) {
    if (kind === "reset") {
      this.all = [];
      this.open.clear();
    }
    if (!data.results || !["insert", "delete", "answer", "resolved"].includes(kind)) return;
    this.variables = data.head.vars;
    this.newest = Math.max(this.newest, data.at);
    for (const row of data.results.bindings) {
      const key = this.variables.map((name) => termText(row[name])).join(" ");
      if (kind === "resolved") this.resolve(row, data.at);
      else if (kind === "delete") this.end(key, data.at);
      else this.begin(key, row, data.at);
    }
  }

  begin(key, row, at) {
    const alert = { row, key, since: at, until: null };
    this.all.push(alert);
    if (!this.open.has(key)) this.open.set(key, []);
    this.open.get(key).push(alert);
    if (this.all.length <= MOST) return;
    // Those that are over go first.
    const oldest = this.all.findIndex(({ until }) => until !== null);
    const [gone] = this.all.splice(Math.max(0, oldest), 1);
    if (gone.until === null) this.end(gone.key, at);
  }

  resolve(row, at) {
    this.resolves = true;
    const same = ({ until, row: other }) => until === null && this.keys.every((name) => termText(other[name]) === termText(row[name]));
    for (const { key } of this.all.filter(same)) this.end(key, at);
  }

  end(key, at) {
    const alert = this.open.get(key)?.shift();
    if (alert) alert.until = at;
    if (this.open.get(key)?.length === 0) this.open.delete(key);
  }
}

/** Show alerts in `place`, those that `choice` matches; `ends`: the feed tells when one is over. */
export function drawAlerts(place, alerts, prefixes, choice, ends) {
  const chosen = alerts.all.filter(({ row }) => choice.matches(row)).reverse();
  const holding = chosen.filter(({ until }) => until === null);
  if (chosen.length === 0) {
    const rule = ends ? "A row that appears is an alert; it is over when the row goes." : "A row that is emitted is an alert.";
    return put(place, el("p", { class: "empty" }, `No alert yet. ${rule}`));
  }
  const lines = [...holding, ...chosen.filter(({ until }) => until !== null)].slice(0, MOST_SHOWN);
  const sum = ends ? `${counted(holding.length, "alert")} now, ${counted(chosen.length - holding.length, "was", "were")} over before.` : `${counted(chosen.length, "alert")}.`;
  const titles = ends ? ["State", "Since (UTC)", "For"] : ["At (UTC)"];
  return put(place, el("p", { class: "muted" }, sum),
    el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Alerts" }, el("table", { class: "data choosable" },
      el("thead", {}, el("tr", {}, titles.map((title) => el("th", { scope: "col" }, title)),
        alerts.variables.map((name) => el("th", { scope: "col" }, `?${name}`)))),
      el("tbody", {}, lines.map((alert) => el("tr", { class: alert.until === null ? "alert-now" : "alert-over" },
        ends ? lifeOf(alert, alerts.newest) : el("td", { class: "stamp" }, instant(alert.since)), rowCells(alerts.variables, alert.row, prefixes)))))));
}

function lifeOf({ since, until }, newest) {
  return [el("td", {}, el("span", { class: `badge badge-${until === null ? "failed" : "done"}` }, until === null ? "now" : "over")),
    el("td", { class: "stamp", title: until === null ? null : `until ${instant(until)}` }, instant(since)),
    el("td", { class: "stamp" }, duration((until ?? newest) - since))];
}
