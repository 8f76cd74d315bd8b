// Points on a plain map: outline of the land, a graticule, nothing fetched from elsewhere.
//
//   const map = drawMap(place, [{ lon, lat, label, value?, title?, key? }], { caption, unit?, height?, tone?, tones?, labels?, onPick?, box? })
//
// Degrees of WGS84. The view zooms to the points and stays while they stay inside, or to the `box` ({ west, east, south, north }). `value` gives a point its size; `title` is the tooltip;
// `tone(value)` gives 0 to 4, its colour, which the legend `tones` ([{ tone, text }]) explains. `labels` (60) is up to how many points names
// are written, where there is room. `onPick(point)` makes points buttons. Call it again with new data. What comes back serves marks of one's
// own, such as moving ones: `map.layer` is an empty SVG group above the points that stays, `map.at(lon, lat)` gives [x, y] in it, and
// `map.view` is another value whenever the view moved, after which all own marks have to be placed anew.

import { el, put, setText, svg } from "../base/dom.js";
import { LAND } from "./land.js";
import { drawnAgain, rounded, roundSteps, widthOf } from "./scale.js";

const LEAST_SPAN = 1.5;
const EDGE = 0.12;
const drawn = new WeakMap();

/** Draw points in `place`. */
export function drawMap(place, points, options = {}) {
  const { caption = "", unit = "", height = 360, tone = null, tones = [], labels = 60, onPick = null, box = null } = options;
  const known = points.filter(({ lon, lat }) => Math.abs(lon) <= 180 && Math.abs(lat) <= 90);
  const chart = chartIn(place);
  drawnAgain(place, () => drawMap(place, points, options));
  const width = widthOf(place);
  look(chart, box ?? boxOf(known), width, Math.min(height, Math.round(0.8 * width)));
  chart.picture.setAttribute("aria-label", `${caption}${caption ? ", " : ""}${known.length} points`);
  chart.picture.setAttribute("role", onPick === null ? "img" : "group");
  const largest = Math.max(1e-9, ...known.map(({ value }) => Math.abs(value)).filter(Number.isFinite));
  // Large ones first, so that small ones lie above them and can be reached.
  const order = [...known].sort((a, b) => Math.abs(b.value ?? 0) - Math.abs(a.value ?? 0));
  put(chart.marks, order.map((each) => mark(each, chart.at(each.lon, each.lat), { largest, tone, onPick, unit })));
  put(chart.names, known.length > labels ? null : written(order, largest, chart));
  showLegend(chart, known, tones, unit);
  return chart;
}

function chartIn(place) {
  const before = drawn.get(place);
  if (before?.picture.isConnected) return before;
  const [land, grid, marks, names, layer] = ["land", "graticule", "points", "names", "own"].map((name) => svg("g", { class: name }));
  const chart = { picture: svg("svg", { class: "chart map" }, land, grid, marks, names, layer), land, grid, marks, names, layer,
    legend: el("p", { class: "legend" }), view: null, at: () => [0, 0] };
  put(place, chart.picture, chart.legend);
  drawn.set(place, chart);
  return chart;
}

/** Choose what is seen, and draw what lies under the points, when the view has to move. */
function look(chart, box, width, height) {
  if (chart.view !== null && chart.view.width === width && chart.view.height === height && fits(box, chart.view)) return;
  const view = viewOf(box, width, height);
  const { west, north, across, down } = view;
  chart.view = view;
  chart.at = (lon, lat) => [(lon - west) * across, (north - lat) * down];
  chart.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  put(chart.land, svg("path", { d: LAND, transform: `translate(${-west * across} ${north * down}) scale(${across / 10} ${down / 10})` }));
  put(chart.grid, graticule(view));
}

function boxOf(points) {
  if (points.length === 0) return { west: -180, east: 180, south: -60, north: 80 };
  const box = { west: 180, east: -180, south: 90, north: -90 };
  for (const { lon, lat } of points) {
    box.west = Math.min(box.west, lon);
    box.east = Math.max(box.east, lon);
    box.south = Math.min(box.south, lat);
    box.north = Math.max(box.north, lat);
  }
  return box;
}

function fits(box, view) {
  const inside = box.west >= view.west && box.east <= view.east && box.south >= view.south && box.north <= view.north;
  return inside && (box.east - box.west > 0.3 * (view.east - view.west) || box.north - box.south > 0.3 * (view.north - view.south));
}

function viewOf(box, width, height) {
  const lat = (box.south + box.north) / 2;
  const lon = (box.west + box.east) / 2;
  // Degrees of longitude are as wide as they are at the middle of the view.
  const shrink = Math.max(0.2, Math.cos((lat * Math.PI) / 180));
  const tall = Math.max(LEAST_SPAN, box.north - box.south, ((box.east - box.west) * shrink * height) / width) * (1 + 2 * EDGE);
  const down = height / tall;
  const across = down * shrink;
  const wide = width / across;
  return { width, height, down, across, west: lon - wide / 2, east: lon + wide / 2, north: lat + tall / 2, south: lat - tall / 2 };
}

function graticule({ width, height, west, east, north, south, across, down }) {
  // Not so near the edge that what is written beside them is cut.
  const meridians = roundSteps(west, east, Math.max(2, width / 160)).filter((lon) => Math.abs(lon) <= 180 && lon > west && (east - lon) * across > 45);
  const parallels = roundSteps(south, north, Math.max(2, height / 110)).filter((lat) => Math.abs(lat) <= 90 && lat > south && (north - lat) * down > 18);
  return [
    meridians.map((lon) => svg("line", { x1: (lon - west) * across, x2: (lon - west) * across, y1: 0, y2: height })),
    parallels.map((lat) => svg("line", { x1: 0, x2: width, y1: (north - lat) * down, y2: (north - lat) * down })),
    meridians.map((lon) => svg("text", { class: "scale", x: (lon - west) * across + 4, y: height - 5 }, degrees(lon, "E", "W"))),
    parallels.map((lat) => svg("text", { class: "scale", x: 4, y: (north - lat) * down - 4 }, degrees(lat, "N", "S"))),
  ];
}

function degrees(value, positive, negative) {
  return `${Math.abs(value)}°${value === 0 ? "" : ` ${value > 0 ? positive : negative}`}`;
}

function radius(value, largest) {
  return Number.isFinite(value) ? 4 + 8 * Math.sqrt(Math.abs(value) / largest) : 4.5;
}

function mark(point, [x, y], { largest, tone, onPick, unit }) {
  const hasValue = Number.isFinite(point.value);
  const title = point.title ?? `${point.label ?? ""}${hasValue ? ` ${point.value} ${unit}` : ""}`.trim();
  const pick = onPick === null ? {} : { role: "button", tabindex: "0", "aria-label": title, on: {
    click: () => onPick(point),
    keydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onPick(point);
    },
  } };
  return svg("circle", { class: `point${hasValue && tone !== null ? ` tone-${tone(point.value)}` : ""}`, cx: x.toFixed(1), cy: y.toFixed(1),
    r: radius(point.value, largest).toFixed(1), ...pick }, svg("title", {}, title));
}

/** Names beside points, those of large ones first, where they cover no other name. */
function written(points, largest, { at, view }) {
  const taken = [];
  return points.map((point) => {
    if (!point.label) return null;
    const [x, y] = at(point.lon, point.lat);
    const long = 7 * point.label.length + 8;
    const aside = radius(point.value, largest) + 4;
    const left = x + aside + long > view.width ? x - aside - long : x + aside;
    const free = taken.every((other) => left > other.right || left + long < other.left || Math.abs(y - other.y) > 13);
    if (!free) return null;
    taken.push({ left, right: left + long, y });
    return svg("text", { class: "name", x: left, y: y + 4 }, point.label);
  });
}

function showLegend(chart, points, tones, unit) {
  const values = points.map(({ value }) => value).filter(Number.isFinite);
  const sizes = values.length === 0 ? "" : `Size: ${rounded(Math.min(...values))} to ${rounded(Math.max(...values))} ${unit}`.trim();
  const key = JSON.stringify(tones);
  if (chart.tones !== key) {
    chart.tones = key;
    chart.sizes = el("span");
    put(chart.legend, tones.map(({ tone, text }) => el("span", {}, el("span", { class: `spot tone-${tone}`, "aria-hidden": "true" }), text)), chart.sizes);
  }
  setText(chart.sizes, sizes);
  chart.legend.hidden = tones.length === 0 && sizes === "";
}
