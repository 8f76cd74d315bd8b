// The overview: what fails or waits, the figures of the server now, and charts of its last hour.

import { call } from "../base/api.js";
import { byId, el, poll, serverState, setText } from "../base/dom.js";
import { bytes, count, counted, duration, rate } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { chooseRange } from "../charts/range.js";
import { drawSeries } from "../charts/series.js";

const HISTORY_MS = 10_000;
const MEGABYTE = 1_048_576;
const ADDRESSES = { query: "/ui/queries/", stream: "/ui/streams/one?iri=", rules: "/ui/rules/", shapes: "/ui/shapes/" };
const LISTS = { source: "/ui/connectors", sink: "/ui/connectors", job: "/ui/jobs" };
const KINDS = { rules: "rule set", shapes: "shapes" };
const DURATIONS = 'quadrill_stage_seconds{stage="total"}';
let history = null;

function measured(name, value, metric, title = null) {
  return el("div", {}, el("dt", {}, name), el("dd", { title }, value, el("code", { class: "metric" }, metric)));
}

function figures({ uptime_ms: uptime, memory_bytes: memory, disk, latency, rates, counts }) {
  const queries = Object.entries(counts.queries).map(([state, many]) => `${count(many)} ${state}`).join(", ");
  const inputs = `${counted(latency.inputs, "input")} of the last five minutes`;
  const perSecond = (name, key, metric) => measured(name, `${rate(rates[key] ?? NaN)} /s`, metric, "Mean of the newest complete ten seconds");
  return [
    measured("Half of the inputs within", milliseconds(latency.p50_ms), DURATIONS, `Median from acceptance to the feed: ${inputs}`),
    measured("99 of 100 inputs within", milliseconds(latency.p99_ms), DURATIONS, `99th percentile from acceptance to the feed: ${inputs}`),
    perSecond("Elements", "elements_per_second", "quadrill_stream_elements_total"),
    perSecond("Events", "events_per_second", "quadrill_query_events_total"),
    perSecond("Requests", "requests_per_second", "quadrill_http_requests_total"),
    measured("Elements that wait for the engine", count(counts.queue_elements), "quadrill_queue_elements"),
    measured("Continuous queries", queries || "none", "quadrill_queries"),
    measured("One-shot queries that run", count(counts.running_queries), "quadrill_running_queries"),
    measured("Open event streams", count(counts.subscribers), "quadrill_feed_subscribers"),
    measured("Quads", count(counts.quads), "quadrill_store_quads"),
    measured("Up for", duration(uptime ?? NaN), "process_start_time_seconds"),
    measured("Memory", bytes(memory ?? NaN), "process_resident_memory_bytes"),
    measured("CPU", share(rates.cpu_ms_per_second), "process_cpu_seconds_total", "Of one core, in the newest complete ten seconds"),
    disk === null ? null : measured("Data folder", bytes(disk.data), "quadrill_data_bytes"),
    disk === null ? null : measured("Free on its disk", `${bytes(disk.free)} of ${bytes(disk.size)}`, "quadrill_disk_free_bytes"),
  ];
}

function milliseconds(value) {
  if (value === null) return "no input yet";
  return value < 10 ? `${Number(value.toPrecision(2))} ms` : duration(value);
}

function share(msPerSecond) {
  return Number.isFinite(msPerSecond) ? `${Math.round(msPerSecond / 10)} %` : "–";
}

function trouble({ kind, name, state, text }) {
  const address = ADDRESSES[kind] ? ADDRESSES[kind] + encodeURIComponent(name) : LISTS[kind];
  const what = [KINDS[kind] ?? kind, name].filter(Boolean).join(" ");
  return el("li", { dataset: { key: `${kind} ${name}` } }, el("span", { class: `badge badge-${state === "failed" ? "failed" : "paused"}` }, state),
    el("p", {}, address ? el("a", { href: address }, what) : what, `: ${text}`));
}

function show(overview) {
  setText(byId("summary"), `Quadrill ${overview.version}${overview.disk === null ? ", a store in memory" : ""}`);
  redraw(byId("figures"), figures(overview));
  redraw(byId("troubles"), overview.troubles.map(trouble));
  byId("no-troubles").hidden = overview.troubles.length > 0;
  byId("more-troubles").hidden = !overview.more_troubles;
}

/** One line of a chart: a column of the history, each value by `shown`; unknown values break the line. */
function line(label, column, shown) {
  return { label, points: column.map((value, i) => [history.from + (i + 1) * history.every_ms, value === null ? NaN : shown(value)]) };
}

function draw() {
  const known = history !== null && history.from !== null;
  const seconds = known ? history.every_ms / 1000 : 1;
  const to = known ? history.from + history.elements.length * history.every_ms : Date.now();
  const chart = (id, caption, unit, lines) => drawSeries(byId(id), known ? lines() : [], { caption, unit, from: to - range(), to });
  chart("latency", "Time from acceptance to the feed", "ms", () => [
    line("half of the inputs", history.p50_ms, (value) => value), line("99 of 100 inputs", history.p99_ms, (value) => value)]);
  chart("rates", "Rates", "/s", () => ["elements", "events", "requests"].map((name) => line(name, history[name], (value) => value / seconds)));
  chart("cpu", "CPU time of one core", "%", () => [line("of one core", history.cpu_ms, (value) => value / seconds / 10)]);
  chart("memory", "Memory", "MB", () => [line("in RAM", history.memory_bytes, (value) => value / MEGABYTE)]);
}

async function update() {
  try {
    show((await call("GET", "/overview")).data);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

async function updateHistory() {
  try {
    history = (await call("GET", "/overview/history")).data;
    draw();
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

const range = chooseRange(byId("range"), draw);
show(serverState().overview);
draw();
poll(update, 2000);
poll(updateHistory, HISTORY_MS);
