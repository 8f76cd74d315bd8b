// The parts of a query's description as lists: counters, windows with their streams, static parts.

import { el } from "./dom.js";
import { bytes, count, counted, duration, instant } from "./format.js";
import { errorText } from "./names.js";

const LABELS = { in: "in", out: "out" };

/** "elements_in" -> "Elements in". */
function label(name) {
  const words = name.replace(/_(ms|bytes)$/, "").split("_").map((word) => LABELS[word] ?? word).join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function value(name, raw) {
  if (name.endsWith("_bytes")) return bytes(raw);
  if (name.endsWith("_ms") && Number.isFinite(raw)) return raw > 1e11 ? instant(raw) : duration(raw);
  return Number.isFinite(raw) ? count(raw) : String(raw);
}

function pair(term, detail) {
  return el("div", {}, el("dt", {}, term), el("dd", {}, detail));
}

/** Counters, state size and sharing as a list of figures. */
export function countersList(query) {
  const figures = Object.entries(query.counters || {}).filter(([, raw]) => typeof raw !== "object");
  const state = query.state_size;
  const more = Number.isFinite(state) ? [["state_size", state]]
    : Object.entries(state || {}).filter(([, raw]) => typeof raw !== "object").map(([name, raw]) => [`state_${name}`, raw]);
  const group = query.sharing_group ?? query.sharing?.group;
  return [...figures, ...more].map(([name, raw]) => pair(label(name), value(name, raw)))
    .concat(group !== undefined && group !== null ? [pair("Sharing group", String(group))] : []);
}

/** Windows with what they hold and when they close next, then the streams that feed the query. */
export function windowsList(query) {
  const windows = query.windows || [];
  const streams = query.streams || [];
  if (windows.length === 0) return el("p", { class: "muted" }, "This query has no window: it is evaluated at each commit to the store.");
  return [
    el("ul", { class: "facts" }, windows.map((window_) => el("li", {},
      el("div", {}, el("code", { class: "tok-stream" }, windowText(window_)), " on ", el("code", { class: "tok-iri" }, streamText(window_.stream))),
      el("dl", { class: "figures" }, windowFigures(window_))))),
    streams.length === 0 ? null : el("ul", { class: "facts" }, streams.map(streamItem)),
  ];
}

function windowText(window_) {
  const text = window_.text ?? window_.window ?? (typeof window_.spec === "string" ? window_.spec : null);
  return text ?? window_.kind ?? window_.name ?? "window";
}

function streamText(stream) {
  if (!stream) return "?";
  return typeof stream === "string" ? stream : stream.iri || stream.name;
}

function windowFigures(window_) {
  const figures = [];
  const held = window_.elements ?? window_.size;
  if (Number.isFinite(held)) figures.push(pair("Holds", counted(held, "element")));
  if (Number.isFinite(window_.quads)) figures.push(pair("Quads", count(window_.quads)));
  if (window_.last?.close ?? window_.last_close) figures.push(pair("Last closed", instant(window_.last?.close ?? window_.last_close)));
  const next = window_.next_close ?? window_.next_close_ms;
  if (next !== undefined && next !== null) figures.push(pair("Closes next", instant(next)));
  if (window_.lateness_ms) figures.push(pair("Lateness", duration(window_.lateness_ms)));
  return figures;
}

function streamItem(stream) {
  if (typeof stream === "string") return el("li", {}, el("code", {}, stream));
  const idle = stream.idle ? "idle" : null;
  return el("li", {}, el("div", {}, el("strong", {}, stream.name || ""), " ", stream.iri && stream.iri !== stream.name ? el("code", { class: "tok-iri" }, stream.iri) : null),
    el("span", { class: "muted" }, [`watermark ${instant(stream.watermark ?? stream.watermark_ms)}`, idle].filter(Boolean).join(", ")));
}

/** Static parts: pattern, rows, version, age, last refresh and its cause. */
export function staticList(query) {
  const parts = query.static_parts || [];
  if (parts.length === 0) return el("p", { class: "muted" }, "No static part: everything comes from windows.");
  return el("ul", { class: "facts" }, parts.map((part) => el("li", {},
    el("code", { class: "wrap" }, part.pattern || part.text || ""),
    el("dl", { class: "figures" },
      pair("Rows", count(part.rows)),
      pair("Version", count(part.version)),
      Number.isFinite(part.age_ms) ? pair("Age", duration(part.age_ms)) : null,
      refreshed(part) ? pair("Last refresh", instant(refreshed(part))) : null,
      part.cause ? pair("Cause", part.cause) : null,
      part.refresh ? pair("Refreshed", refreshText(part.refresh)) : null,
      part.lag ? pair("Behind by", count(part.lag)) : null),
    part.error ? el("p", { class: "notice notice-failed" }, errorText(part.error)) : null)));
}

function refreshed(part) {
  return part.last_refresh_ms ?? part.last_refresh ?? part.refreshed_ms ?? null;
}

function refreshText(refresh) {
  if (typeof refresh === "string") return { trigger: "by trigger", manual: "by hand" }[refresh] ?? refresh;
  return refresh.every ? `every ${refresh.every}` : JSON.stringify(refresh);
}
