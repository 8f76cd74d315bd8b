// The parts of a query's description as lists: counters, windows with their streams, static parts.

import { breakable, el, figure } from "../base/dom.js";
import { coloured } from "../editor/coloured.js";
import { count, duration, instant, interval } from "../base/format.js";

/** The counters of a query: name, and what it counts, since the registration or the last restart of the server. */
const COUNTERS = {
  elements: ["Elements read", "Elements of its streams that the query has processed"],
  waiting: ["Elements waiting", "Elements that wait in the query, for instance until static parts are read or until their time has come"],
  late: ["Late elements", "Elements that came after the watermark had passed their time"],
  behind: ["Elements behind", "Elements in time for their own stream, but behind the time that another stream of the query had reached"],
  evaluations: ["Evaluations", "Times at which the query computed how its answer changes"],
  refreshes: ["Refreshes", "Times at which a static part was read again"],
  events: ["Events", "Events that the query has published in its feed; one event may have many rows"],
  rows: ["Rows emitted", "Rows in these events, inserted and deleted ones together"],
  rows_inserted: ["Rows inserted", "Rows that have entered the answer"],
  rows_deleted: ["Rows deleted", "Rows that have left the answer"],
  answers: ["Whole answers", "Events with the whole answer, of a query with the output rstream"],
  state_size: ["Quads held", "Quads in the windows of the query and in elements that wait for it"],
  subscribers: ["Subscribers", "Clients that read the feed now; this page is one of them"],
};

/** Counters, state size and sharing as a list of figures, each with its meaning. */
export function countersList(query) {
  const values = { ...query.counters, state_size: query.state_size, subscribers: query.feed?.subscribers };
  const known = Object.entries(values).filter(([, value]) => Number.isFinite(value));
  const figures = known.map(([name, value]) => {
    const [label, meaning] = COUNTERS[name] ?? [name.replaceAll("_", " "), null];
    return explained(label, count(value), meaning);
  });
  if (query.sharing_group !== null && query.sharing_group !== undefined) {
    figures.push(explained("Shares its windows with", query.sharing_group, "Queries that read the same windows, which the server keeps once"));
  }
  return figures;
}

/** A figure whose name shows its meaning when it is pointed at or focused. */
function explained(name, value, meaning) {
  return el("div", { title: meaning }, el("dt", meaning === null ? {} : { class: "explained", tabindex: "0", dataset: { meaning } }, name, el("span", { class: "visually-hidden" }, meaning === null ? "" : `: ${meaning}`)), el("dd", {}, value));
}

/** Windows with what they hold and when they close next, then the streams that feed the query. */
export function windowsList(query) {
  const windows = query.windows || [];
  const streams = query.streams || [];
  if (windows.length === 0) return el("p", { class: "muted" }, "This query has no window: it is evaluated at each commit to the store.");
  return [
    el("ul", { class: "facts" }, windows.map((window_) => el("li", {},
      el("div", {}, el("code", { class: "tok-stream" }, window_.window), " on ", el("code", { class: "tok-iri" }, breakable(window_.stream))),
      el("dl", { class: "figures" }, windowFigures(window_))))),
    streams.length === 0 ? null : el("ul", { class: "facts" }, streams.map(streamItem)),
  ];
}

function windowFigures(window_) {
  const figures = [figure("Quads in it", count(window_.quads))];
  const { last_closed: closed, next_close: next, next_change: change } = window_;
  if (closed) figures.push(figure("Last closed", interval(closed.open, closed.close)));
  if (Number.isFinite(next)) figures.push(figure("Closes next", instant(next)));
  else if (Number.isFinite(change)) figures.push(figure("Next expiry", instant(change)));
  return figures;
}

function streamItem(stream) {
  const state = stream.idle ? "idle" : stream.active ? "active" : "nothing has come since registration";
  return el("li", {}, el("div", {}, el("strong", {}, stream.name), " ", el("code", { class: "tok-iri" }, breakable(stream.iri))),
    el("span", { class: "muted" }, `watermark ${instant(stream.watermark)}, ${state}`));
}

/** Static parts: pattern, rows, version, age, last refresh and its cause. */
export function staticList(query) {
  const parts = query.static_parts || [];
  const sources = (query.sources || []).map(sourceItem);
  const view = query.view ? [viewItem(query.view)] : [];
  if (parts.length + view.length === 0) return el("p", { class: "muted" }, "No static part: everything comes from windows.");
  return el("ul", { class: "facts" }, view, sources, parts.map((part) => el("li", {},
    el("pre", { class: "wrap pattern" }, coloured(part.pattern)),
    el("dl", { class: "figures" },
      figure("Rows", count(part.rows)),
      figure("Version", count(part.version)),
      Number.isFinite(part.age_ms) ? figure("Age", duration(part.age_ms)) : null,
      Number.isFinite(part.last_refresh) ? figure("Last refresh", instant(part.last_refresh)) : null,
      part.cause ? figure("Cause", part.cause) : null,
      query.refresh ? figure("Refreshed", refreshText(query.refresh)) : null))));
}

/** What is fetched from another server: how old it is, and why it is stale. */
function sourceItem(source) {
  return el("li", {},
    el("div", {}, source.kind === "graph" ? "Graph " : "SERVICE ", el("code", { class: "tok-iri" }, breakable(source.source))),
    el("dl", { class: "figures" },
      figure("Rows", count(source.rows)),
      figure("Refresh version", count(source.refresh_version)),
      Number.isFinite(source.age_ms) ? figure("Age", duration(source.age_ms)) : null,
      figure("Fetched", periodText(source)),
      Number.isFinite(source.next_refresh) ? figure("Next fetch", instant(source.next_refresh)) : null,
      source.stale ? figure("Stale", `since ${instant(source.stale_since)}: ${source.stale_reason}`) : null));
}

function periodText(source) {
  const how = Number.isFinite(source.every_ms) ? `every ${duration(source.every_ms)}` : "by hand";
  const who = { query: "as the query asks", description: "as its description says", measured: "as it was found to change", setting: "by the setting" };
  return who[source.every_by] ? `${how}, ${who[source.every_by]}` : how;
}

/** The graph that is kept equal to the answer. */
function viewItem(view) {
  return el("li", {},
    el("div", {}, "View ", el("code", { class: "tok-iri" }, breakable(view.graph))),
    el("dl", { class: "figures" },
      figure("Quads", count(view.quads)),
      Number.isFinite(view.version) ? figure("Version", count(view.version)) : null,
      view.waiting ? figure("Waiting", count(view.waiting)) : null,
      view.error ? figure("Not written", view.error) : null));
}

function refreshText(refresh) {
  if (typeof refresh === "string") return { trigger: "by trigger", manual: "by hand" }[refresh] ?? refresh;
  return `every ${refresh.every}`;
}
