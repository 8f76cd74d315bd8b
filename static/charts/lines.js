// A small time-series chart in SVG: one or two lines over the last hour at most, beginning with the server's history.

import { el, svg } from "../base/dom.js";
import { duration, rate } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { drawnAgain, widthOf } from "./scale.js";

const HEIGHT = 150;
const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;

const POINT_MS = 10_000;

/** Keeps the last `size` points of some counters' growth as rates per second: one in ten seconds, as the server's history has. */
export class Rates {
  constructor(names, size = 360) {
    this.names = names;
    this.size = size;
    this.last = null;
    this.samples = [];
  }

  /** Begin with what the server kept: `members` are the columns of its history, in the order of the names. */
  begin(history, members = this.names) {
    if (!Number.isFinite(history.from)) return;
    const columns = members.map((member) => history[member]);
    const seconds = history.every_ms / 1000;
    const known = columns[0].map((_, i) => ({ atMs: history.from + (i + 1) * history.every_ms, seconds,
      values: columns.map((column) => (column[i] === null ? NaN : column[i] / seconds)) }));
    const first = this.samples.length > 0 ? this.samples[0].atMs : Infinity;
    this.samples = [...known.filter(({ atMs }) => atMs < first), ...this.samples].slice(-this.size);
  }

  /** Counters at a time; a counter that fell (the server was restarted) begins anew. */
  add(counters, atMs = Date.now()) {
    // Two looks in quick succession would give wild rates.
    if (this.last !== null && atMs - this.last.atMs < 500) return;
    if (this.last !== null) {
      const seconds = (atMs - this.last.atMs) / 1000;
      const values = this.names.map((name) => {
        const grown = (counters[name] ?? NaN) - (this.last.counters[name] ?? NaN);
        return grown >= 0 ? grown / seconds : NaN;
      });
      this.take({ atMs, seconds, values });
    }
    this.last = { atMs, counters };
  }

  /** Looks within the same ten seconds make one point. */
  take(sample) {
    const before = this.samples[this.samples.length - 1];
    if (before && before.seconds + sample.seconds <= POINT_MS / 1000) {
      const seconds = before.seconds + sample.seconds;
      const values = sample.values.map((value, i) => (before.values[i] * before.seconds + value * sample.seconds) / seconds);
      this.samples[this.samples.length - 1] = { atMs: sample.atMs, seconds, values };
      return;
    }
    this.samples.push(sample);
    if (this.samples.length > this.size) this.samples.shift();
  }

  /** The newest rates, in the order of the names. */
  latest() {
    return this.samples.length > 0 ? this.samples[this.samples.length - 1].values : this.names.map(() => NaN);
  }
}

/** Draw rates with a scale and a legend; `labels` names each line, `rangeMs` says how much of the hour is shown. */
export function drawChart(place, rates, labels, rangeMs = Infinity) {
  const end = rates.samples.at(-1)?.atMs ?? 0;
  const samples = rates.samples.filter(({ atMs }) => atMs >= end - rangeMs);
  const width = widthOf(place);
  const top = niceTop(Math.max(0, ...samples.flatMap(({ values }) => values.filter(Number.isFinite))));
  const newest = samples.length > 0 ? samples[samples.length - 1].atMs : 0;
  const spanMs = Math.max(60_000, samples.length > 0 ? newest - samples[0].atMs : 0);
  const x = (atMs) => LEFT + (width - LEFT - 6) * (1 - (newest - atMs) / spanMs);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const latest = rates.latest();
  const summary = labels.map((label, i) => `${label} ${rate(latest[i])} per second`).join(", ");
  redraw(place,
    svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": summary, class: "chart" },
      [0, 0.5, 1].map((share) => [
        svg("line", { class: "grid", x1: LEFT, x2: width - 6, y1: y(top * share), y2: y(top * share) }),
        svg("text", { class: "scale", x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, rate(top * share)),
      ]),
      svg("text", { class: "scale", x: LEFT, y: HEIGHT - 5 }, `${duration(Math.round(spanMs / 1000) * 1000)} ago`),
      svg("text", { class: "scale", x: width - 6, y: HEIGHT - 5, "text-anchor": "end" }, "now"),
      labels.map((_, i) => svg("path", { class: `line line-${i}`, d: path(samples, i, x, y) }))),
    el("p", { class: "legend" }, labels.map((label, i) =>
      el("span", {}, el("span", { class: `swatch swatch-${i}`, "aria-hidden": "true" }), `${label} `, el("strong", {}, rate(latest[i])), " /s"))));
  drawnAgain(place, () => drawChart(place, rates, labels, rangeMs));
}

function path(samples, index, x, y) {
  let pen = "M";
  return samples.map(({ atMs, values }) => {
    if (!Number.isFinite(values[index])) {
      pen = "M";
      return "";
    }
    const step = `${pen}${x(atMs).toFixed(1)} ${y(values[index]).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

function niceTop(largest) {
  if (largest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= largest);
}

/** One line without scale, for a table cell. */
export function drawSpark(place, values) {
  const known = values.filter(Number.isFinite);
  const top = Math.max(1e-9, ...known);
  const points = values.map((value, i) => [i * (100 / Math.max(1, values.length - 1)), 22 - 20 * ((Number.isFinite(value) ? value : 0) / top)]);
  redraw(place, svg("svg", { viewBox: "0 0 100 24", class: "spark", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("path", { class: "line line-0", d: points.map(([px, py], i) => `${i === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`).join("") })));
}
