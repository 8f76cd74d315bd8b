// The chart and the map of an answer: which fit, which columns they show, and drawing them.

import { drawBars } from "../charts/bars.js";
import { barsOf, fitting, kindsOf, linesOf, namingColumn, pointsOf } from "../charts/kinds.js";
import { drawSeries } from "../charts/series.js";
import { byId, el, put, setText } from "../base/dom.js";
import { shortText } from "../base/terms.js";

const SAMPLE = 100;
const SETTLED = 20;
const KIND_NAMES = { line: "Lines over time", bar: "Bars of the answer" };

/** Draws into the panes of `pictures.html`; what a person picked stays picked. A `choice` picks rows, null takes all. */
export class Pictures {
  constructor(prefixes, choice) {
    this.choice = choice;
    this.prefixes = prefixes;
    this.show = (term) => shortText(term, this.prefixes);
    this.onPick = choice && (({ key }) => key && choice.follow(key));
    this.kinds = null;
    this.columns = "";
    this.picked = false;
  }

  onChange(then) {
    for (const id of ["chart-kind", "chart-number", "chart-name"]) {
      byId(id).addEventListener("change", () => {
        this.picked = true;
        if (id === "chart-kind") byId("chart-name").value = namingColumn(this.kinds, byId(id).value) ?? "";
        then();
      });
    }
  }

  /** Find out what fits the rows that there are (of `FeedRows` or `AnswerRows`), and show the tabs for it. */
  fit(from) {
    const rows = from.rows(SAMPLE);
    if (rows.length === 0) return;
    this.kinds = kindsOf(from.variables, rows);
    const fits = fitting(this.kinds, from.running);
    byId("tab-chart").hidden = !fits.includes("line") && !fits.includes("bar");
    byId("tab-map").hidden = !fits.includes("map");
    // The first rows may not tell yet which column names a line; later it stays, so that a picture does not jump.
    const settled = this.picked || rows.length > SETTLED;
    const columns = JSON.stringify([fits, this.kinds.numbers, this.kinds.names, settled]);
    if (columns === this.columns && settled) return;
    this.columns = columns;
    options(byId("chart-kind"), fits.filter((kind) => KIND_NAMES[kind]).map((kind) => [kind, KIND_NAMES[kind]]));
    options(byId("chart-number"), this.kinds.numbers.map((name) => [name, `?${name}`]));
    options(byId("chart-name"), this.kinds.names.map((name) => [name, `?${name}`]), namingColumn(this.kinds, byId("chart-kind").value), this.picked);
  }

  offer(from) {
    this.fit(from);
    if (this.kinds) this.choice.offer([...from.rows(), ...from.timed().map(({ row }) => row)], this.kinds.names);
  }

  takes(row) {
    return this.choice === null || this.choice.matches(row);
  }

  drawChart(from) {
    if (this.kinds === null || this.kinds.numbers.length === 0) return;
    const [kind, number, name] = ["chart-kind", "chart-number", "chart-name"].map((id) => byId(id).value);
    byId("lines").hidden = kind !== "line";
    byId("bars").hidden = kind !== "bar";
    if (kind === "line") {
      const time = from.running ? null : this.kinds.times[0];
      const lines = linesOf(from.timed(time).filter(({ row }) => this.takes(row)), name || null, number, this.show);
      setText(byId("chart-note"), `?${number} ${time === null ? "of the rows that came" : `over ?${time}`}${name ? `, a line for each ?${name}` : ""}. ${time === null ? "Event time is" : "Times are"} UTC.`);
      drawSeries(byId("lines"), lines, { caption: `?${number} over ${time === null ? "event time" : `?${time}`}`, onPick: name ? this.onPick : null, height: 260 });
    } else {
      const bars = barsOf(from.rows().filter((row) => this.takes(row)), name, number, this.show);
      setText(byId("chart-note"), `?${number} by ?${name}, ${from.told}.`);
      drawBars(byId("bars"), bars, { caption: `?${number} by ?${name}`, onPick: this.onPick });
    }
  }

  /** The map, whose outline of the land is fetched when it is first looked at. */
  async drawMap(from) {
    const { drawMap } = await import("../charts/map.js");
    if (this.kinds === null || this.kinds.places.length === 0) return;
    const rows = from.rows().filter((row) => this.takes(row));
    const points = pointsOf(rows, this.kinds.places, namingColumn(this.kinds, "bar"), byId("chart-number").value || null, this.show);
    setText(byId("map-note"), `The places of the rows, ${from.told}.`);
    drawMap(byId("map"), points, { caption: "Places of the rows", onPick: this.onPick });
  }
}

/** Fill a list; what was chosen before stays when it is still there and `keep` says so. */
function options(list, pairs, otherwise = null, keep = true) {
  const before = list.value;
  // A list that is open stays as it is.
  if (String([...list.options].map(({ value }) => value)) !== String(pairs.map(([value]) => value))) {
    put(list, pairs.map(([value, text]) => el("option", { value }, text)));
  }
  const wanted = keep && pairs.some(([value]) => value === before) ? before : otherwise ?? pairs[0]?.[0] ?? "";
  list.value = wanted;
  list.closest("label").hidden = pairs.length < 2;
}
