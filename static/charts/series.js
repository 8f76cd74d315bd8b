// Lines over event time, one for each key.
//
//   drawSeries(place, [{ label, points: [[atMs, value], ...], key? }], { caption, unit?, height?, from?, to?, most?, onPick? })
//
// Points come in the order of time; a value that is no finite number breaks the line. `from` and `to` fix the axis of time (milliseconds, UTC),
// where earlier points are left out, else it spans the points. The `most` (8) lines with the newest points are drawn, the rest are counted. `onPick(series)` makes each name of the
// legend a button. Pointing at the picture, or the arrow keys on it, shows the exact values at an instant. Call it again with new data.

import { el, put, setText, svg } from "../base/dom.js";
import { counted, instant } from "../base/format.js";
import { drawnAgain, rounded, roundSteps, timeMark, timeSteps, widthOf } from "./scale.js";

const TOP = 10;
const BOTTOM = 22;
const RIGHT = 12;
const drawn = new WeakMap();

/** Draw lines in `place`. */
export function drawSeries(place, data, options = {}) {
  const { caption = "", unit = "", height = 220, most = 8, onPick = null, from = -Infinity } = options;
  const filled = data.map((line) => ({ ...line, points: line.points.filter(([atMs]) => atMs >= from) })).filter(({ points }) => points.length > 0);
  const lines = filled.length <= most ? filled
    : [...filled].sort((a, b) => b.points.at(-1)[0] - a.points.at(-1)[0]).slice(0, most).sort((a, b) => filled.indexOf(a) - filled.indexOf(b));
  const chart = chartIn(place);
  drawnAgain(place, () => drawSeries(place, data, options));
  const axes = axesOf(lines, options, widthOf(place), height);
  Object.assign(chart, { lines, axes, unit });
  chart.picture.setAttribute("viewBox", `0 0 ${axes.width} ${height}`);
  chart.picture.setAttribute("aria-label", [caption, ...lines.map((line) => `${line.label} ${rounded(line.points.at(-1)[1])} ${unit}`)].join(", "));
  put(chart.picture, frame(axes), chart.cursor,
    lines.map((line, i) => svg("path", { class: `line line-${i % 8}`, d: path(line.points, axes) })),
    lines.map((line, i) => dot(line, i, axes)));
  showLegend(chart, filled.length - lines.length, onPick);
  chart.empty.hidden = lines.length > 0;
  chart.picture.toggleAttribute("hidden", lines.length === 0);
  point(chart, chart.pointed);
}

function axesOf(lines, { from, to }, width, height) {
  const times = lines.flatMap(({ points }) => [points[0][0], points.at(-1)[0]]);
  const values = lines.flatMap(({ points }) => points.map((each) => each[1]).filter(Number.isFinite));
  const left = Math.min(...times, from ?? Infinity);
  const right = Math.max(...times, to ?? -Infinity);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  // From zero, unless the values lie far from it and close together.
  const steps = values.length === 0 ? [0, 1] : roundSteps(low > 0 && high - low > 0.25 * high ? 0 : low, high < 0 && high - low > -0.25 * low ? 0 : high);
  const margin = 14 + 7 * Math.max(...steps.map((step) => rounded(step).length));
  const [first, last] = [from ?? left, to ?? right];
  const span = last - first || 1000;
  return { width, height, margin, steps, first, last, span,
    x: (atMs) => margin + (width - margin - RIGHT) * ((atMs - first) / span),
    y: (value) => TOP + (height - TOP - BOTTOM) * (1 - (value - steps[0]) / (steps.at(-1) - steps[0])) };
}

function frame({ width, height, margin, steps, first, last, span, x, y }) {
  const instants = timeSteps(first, last, Math.max(2, Math.floor(width / 130)));
  const gap = instants.length > 1 ? instants[1] - instants[0] : span;
  return [
    steps.map((step) => [
      svg("line", { class: step === 0 ? "grid zero" : "grid", x1: margin, x2: width - RIGHT, y1: y(step), y2: y(step) }),
      svg("text", { class: "scale", x: margin - 6, y: y(step) + 4, "text-anchor": "end" }, rounded(step)),
    ]),
    instants.map((atMs) => svg("text", { class: "scale", x: x(atMs), y: height - 5, "text-anchor": anchor(x(atMs), margin, width) },
      timeMark(atMs, gap >= 60_000 ? Math.max(span, 240_001) : span))),
  ];
}

function anchor(x, margin, width) {
  return x < margin + 30 ? "start" : x > width - 40 ? "end" : "middle";
}

function path(points, { x, y }) {
  let pen = "M";
  let text = "";
  for (const [atMs, value] of points) {
    if (Number.isFinite(value)) text += `${pen}${x(atMs).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = Number.isFinite(value) ? "L" : "M";
  }
  return text;
}

/** The newest point of a line, so that a line of one point is seen. */
function dot(line, i, { x, y }) {
  const [atMs, value] = line.points.at(-1);
  return Number.isFinite(value) ? svg("circle", { class: `end end-${i % 8}`, cx: x(atMs), cy: y(value), r: 3 }) : null;
}

function chartIn(place) {
  const before = drawn.get(place);
  if (before?.picture.isConnected) return before;
  const chart = { pointed: null, lines: [], names: [],
    picture: svg("svg", { class: "chart series", role: "img", tabindex: "0" }), cursor: svg("line", { class: "cursor" }),
    legend: el("p", { class: "legend" }), read: el("p", { class: "legend reading" }), empty: el("p", { class: "empty" }, "Nothing to draw yet.") };
  put(place, chart.picture, chart.legend, chart.read, chart.empty);
  chart.picture.addEventListener("pointermove", (event) => {
    const box = chart.picture.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * chart.axes.width - chart.axes.margin) / (chart.axes.width - chart.axes.margin - RIGHT);
    point(chart, chart.axes.first + share * chart.axes.span);
  });
  chart.picture.addEventListener("pointerleave", () => point(chart, null));
  chart.picture.addEventListener("blur", () => point(chart, null));
  chart.picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) point(chart, neighbour(chart, step));
    else if (event.key === "Escape") point(chart, null);
    if (step) event.preventDefault();
  });
  drawn.set(place, chart);
  return chart;
}

/** The next instant to the left or right at which a line has a point. */
function neighbour({ lines, pointed, axes }, step) {
  const times = [...new Set(lines.flatMap(({ points }) => points.map(([atMs]) => atMs)))].sort((a, b) => a - b);
  const from = pointed ?? (step > 0 ? axes.first - 1 : axes.last + 1);
  return (step > 0 ? times.find((atMs) => atMs > from) : times.findLast((atMs) => atMs < from)) ?? pointed;
}

/** Show the exact values at the instant nearest to `atMs`, or nothing for null. */
function point(chart, atMs) {
  const times = atMs === null ? [] : chart.lines.flatMap(({ points }) => points.map(([each]) => each));
  const nearest = times.reduce((best, each) => (best === null || Math.abs(each - atMs) < Math.abs(best - atMs) ? each : best), null);
  chart.pointed = nearest;
  chart.cursor.toggleAttribute("hidden", nearest === null);
  if (nearest === null) return put(chart.read, " ");
  const x = chart.axes.x(nearest);
  for (const [name, value] of Object.entries({ x1: x, x2: x, y1: TOP, y2: chart.axes.height - BOTTOM })) chart.cursor.setAttribute(name, value);
  const here = chart.lines.map((line) => [line.label, line.points.findLast(([each]) => each === nearest)?.[1]]).filter(([, value]) => value !== undefined);
  return put(chart.read, el("strong", {}, instant(nearest)), here.map(([label, value]) => el("span", {}, `${label} `, el("strong", {}, String(value)), ` ${chart.unit}`)));
}

/** Names of the lines; made anew only when they differ, so that a focused one stays. */
function showLegend(chart, more, onPick) {
  const names = [...chart.lines.map(({ label }) => label), String(more)];
  if (String(names) !== String(chart.names)) {
    chart.names = names;
    chart.figures = chart.lines.map(() => el("strong", {}));
    put(chart.legend, chart.lines.map(({ label }, i) => el("span", {}, el("span", { class: `swatch swatch-${i % 8}`, "aria-hidden": "true" }),
      onPick === null ? label : el("button", { type: "button", class: "link", on: { click: () => onPick(chart.lines[i]) } }, label), " ", chart.figures[i])),
    more > 0 ? el("span", {}, `${counted(more, "more line")} not shown`) : null);
  }
  chart.lines.forEach((line, i) => setText(chart.figures[i], `${rounded(line.points.at(-1)[1])}${chart.unit ? ` ${chart.unit}` : ""}`));
}
