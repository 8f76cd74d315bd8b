// The picture of the demo: departures on a map, and charts of what its queries say.

import { call, queryPath } from "../base/api.js";
import { byId, el, poll, put, serverState, setText, svg } from "../base/dom.js";
import { counted, instant } from "../base/format.js";
import { drawBars } from "../charts/bars.js";
import { drawMap } from "../charts/map.js";
import { drawSeries } from "../charts/series.js";
import { DELAYS, delayClass, Flights } from "../demo/flights.js";
import { Pace } from "../demo/pace.js";
import { byKey, plainRows, Recent, visibilityLines } from "../demo/hour.js";
import { openFeed, showFeedState } from "../feeds/feed.js";

const HOUR_MS = 3_600_000;
const PUSH_MS = 200;
const BEFORE = 120;
const NOWHERE = "an airport without a name";
const NEW_YORK = [-73.9, 40.7];
const ROWS = "application/sparql-results+json";
// The contiguous states: airports outside are flown to, but the picture stays with these.
const PICTURE = { west: -125, east: -65, south: 24.4, north: 49.5 };
const AIRPORTS = `PREFIX geo: <http://www.w3.org/2003/01/geo/wgs84_pos#>
SELECT (ROUND(?long * 10) / 10 AS ?x) (ROUND(?lat * 10) / 10 AS ?y) WHERE {
  GRAPH <http://example.org/nyc/graph/airports> { ?airport geo:lat ?lat ; geo:long ?long }
  FILTER(?long > ${PICTURE.west} && ?long < ${PICTURE.east} && ?lat > ${PICTURE.south} && ?lat < ${PICTURE.north})
}`;

const departures = new Recent();
const late = new Recent();
const poor = new Recent(24 * HOUR_MS);
const flights = new Flights();
const known = svg("path", { class: "known-airports" });
const newYork = svg("path", { class: "new-york", d: "M0 -9L2.6 -3L9 -2.8L4 1.3L5.6 7.8L0 4.2L-5.6 7.8L-4 1.3L-9 -2.8L-2.6 -3Z" });
const newYorkName = svg("text", { class: "name", "font-weight": "700" }, "New York");
let airports = [];
let now = 0;
let view = null;
let changed = false;

function inside({ lon, lat }) {
  return lon > PICTURE.west && lon < PICTURE.east && lat > PICTURE.south && lat < PICTURE.north;
}

/** The map with the airports of the last hour's flights. */
function showMap(hour) {
  const served = [...byKey(hour.filter(({ to }) => to), ({ to }) => to, ({ delay }) => Number(delay))].map(([code, { many, sum, first }]) => ({
    lon: Number(first.toLong), lat: Number(first.toLat), label: code, value: many,
    title: `${first.destination} (${code}): ${counted(many, "departure")} in the last hour, ${(sum / many).toFixed(0)} minutes late on average` }));
  const map = drawMap(byId("map"), served.filter(inside), {
    caption: "Airports with departures of the last hour", unit: "departures in the last hour", height: 430, box: PICTURE });
  if (map.view !== view) {
    view = map.view;
    known.setAttribute("d", airports.map(([x, y]) => map.at(x, y).map((each) => each.toFixed(1)).join(" ")).map((at) => `M${at}h0`).join(""));
    const [x, y] = map.at(...NEW_YORK);
    newYork.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    newYorkName.setAttribute("x", x + 13);
    newYorkName.setAttribute("y", y - 6);
    map.layer.prepend(known, newYork, newYorkName);
  }
  flights.on(map);
}

/** The name of an airport without the words that all airports have. */
function shortName(name) {
  return (name ?? NOWHERE).replace(/ (Intl|International|Regional|Airport)\b/g, "");
}

function showLate(rows) {
  const bars = rows.map((row) => ({ label: `${row.flight} to ${shortName(row.destination)}`, value: Number(row.delay),
    title: `${row.delay} minutes: ${row.flight}, ${row.airline}, ${row.aircraft ?? "aircraft not known"}`, key: row.flight }));
  drawBars(byId("late"), bars.sort((a, b) => b.value - a.value).slice(0, 8), { caption: "Worst delays of the last hour", unit: "min", most: 8, least: [0, 60],
    tone: (value) => delayClass(value).tone });
}

function showSentence(hour) {
  const lateOnes = hour.filter(({ delay }) => Number(delay) >= 15);
  const worst = hour.reduce((most, row) => (most === null || Number(row.delay) > Number(most.delay) ? row : most), null);
  const foggy = visibilityLines(poor.until(now)).filter(({ points }) => points.at(-1)[0] > now - HOUR_MS);
  const parts = [`In the hour before ${instant(now).slice(11, 16)} UTC ${counted(hour.length, "flight")} left New York; ${lateOnes.length} of them were 15 minutes late or more`];
  if (worst !== null && Number(worst.delay) > 0) parts.push(`. The worst was ${worst.flight} to ${shortName(worst.destination)}, ${counted(Number(worst.delay), "minute")} late`);
  parts.push(". ", foggy.length === 0 ? "The visibility is more than six miles at all three airports."
    : `The visibility is ${foggy.map(({ label, points }) => `${counted(points.at(-1)[1], "mile")} at ${shortName(label)}`).join(", ")}.`);
  setText(byId("sentence"), parts.join(""));
  setText(byId("clock"), `${instant(now)} UTC in the data`);
}

/** Draw everything anew if something came, at the next frame. */
function show() {
  if (!changed) return;
  changed = false;
  requestAnimationFrame(() => {
    const hour = departures.until(now);
    showMap(hour);
    showLate(late.until(now));
    drawSeries(byId("visibility"), visibilityLines(poor.until(now)),
      { caption: "Visibility by airport", unit: "miles", from: now - poor.spanMs, to: now });
    showSentence(hour);
    setText(byId("in-air"), counted(flights.flying.length, "flight on the map", "flights on the map"));
  });
}

/** Follow a feed from a few events back; each row goes to `take(at, row, fresh)`. */
function follow(name, take, onState = () => {}) {
  const last = serverState({ queries: [] }).queries.find((query) => query.name === name)?.last_result?.id ?? 0;
  const opened = performance.now();
  openFeed((seen) => queryPath(name, `/results?from=${seen ?? Math.max(0, last - BEFORE)}`), {
    onState,
    onEvent: ({ kind, data }) => {
      if (kind !== "insert") return;
      now = Math.max(data.at > now - 24 * HOUR_MS ? now : 0, data.at);
      changed = true;
      for (const row of plainRows(data)) take(data.at, row, performance.now() - opened > 500);
    },
  });
}

async function answerOf(name) {
  return (await call("GET", queryPath(name, "/results"), { accept: ROWS })).data;
}

async function showAnswers() {
  try {
    await pace.look();
    const [means, watched] = [await answerOf("mean-delay"), await answerOf("watched-destinations")];
    const rows = plainRows(means);
    if (rows.length > 0) setText(byId("mean-text"), `Flights of the hour from ${rows[0].hour.replace("T", " ").replace("h", ":00")} UTC. Bars below zero: earlier than planned on average.`);
    drawBars(byId("mean"), rows.map(({ airline, meanDelay, departures: many }) => ({ label: airline, value: Math.round(10 * Number(meanDelay)) / 10,
      title: `${meanDelay} minutes, ${counted(Number(many), "departure")}`, key: airline })),
      { caption: "Mean delay by airline", unit: "min", most: 10, least: [-10, 20] });
    const places = byKey(plainRows(watched), ({ destination }) => destination, () => 0);
    drawBars(byId("watched"), [...places].map(([place, { many, first }]) => ({ label: `${shortName(place)}: ${first.reason}`, value: many, key: place,
      title: `${counted(many, "flight")} of the last hour` })), { caption: "Flights of the last hour to watched destinations", least: [0, 5] });
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

const { pace: present, refusal } = serverState();
const pace = new Pace(present, refusal, (paused) => flights.hold(paused));

async function begin() {
  try {
    const text = (await call("POST", "/query", { body: AIRPORTS, type: "application/sparql-query", accept: "text/csv" })).data;
    airports = text.trim().split(/\r?\n/).slice(1).map((line) => line.split(",").map(Number));
  } catch {
    // The map does without them.
  }
  put(byId("delays"), el("span", {}, "Delay:"), DELAYS.map(({ tone, radius, text }) => el("span", {},
    svg("svg", { viewBox: "-9 -9 18 18", "aria-hidden": "true" }, svg("circle", { class: `tone-${tone}`, r: radius })), text)));
  showMap([]);
  follow("departures", (at, row, fresh) => {
    departures.add(at, row);
    // What one push brought begins in turn, so that dots come in a line rather than in heaps.
    if (fresh && row.toLat) flights.add([Number(row.fromLong), Number(row.fromLat)], [Number(row.toLong), Number(row.toLat)], Number(row.delay), Math.random() * PUSH_MS);
  }, showFeedState);
  follow("late-departures", (at, row) => late.add(at, row));
  follow("poor-visibility", (at, row) => poor.add(at, row));
  poll(showAnswers, 2000);
  setInterval(show, 500);
}

begin();
