// The chart and the map of a query's results: which fit, which columns they show, and drawing them.

import { drawBars } from "../charts/bars.js";
import { barsOf, fitting, kindsOf, linesOf, namingColumn, pointsOf } from "../charts/kinds.js";
import { drawSeries } from "../charts/series.js";
import { byId, el, put, setText } from "../base/dom.js";
import { instant } from "../base/format.js";
import { shortText } from "../base/terms.js";

const MOST_TIMED = 3000;
const SAMPLE = 100;
const SETTLED = 20;
const KIND_NAMES = { line: "Lines over event time", bar: "Bars of the answer" };

/** Draws into the panes of the query page; what a person picked stays picked. */
export class Pictures {
  constructor(prefixes, choice) {
    this.choice = choice;
    this.show = (term) => shortText(term, prefixes);
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

  /** Find out what fits the rows that there are, and show the tabs for it. */
  fit(events, answer) {
    const rows = this.rowsOf(events.slice(-SAMPLE), answer);
    if (rows.length === 0) return;
    const variables = answer?.head?.vars ?? events.findLast(({ data }) => data.head?.vars)?.data.head.vars ?? [];
    this.kinds = kindsOf(variables, rows);
    const fits = fitting(this.kinds, true);
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

  /** Rows of the answer that stands, or of recent events when none does. */
  rowsOf(events, answer) {
    if (answer?.results?.bindings.length > 0) return answer.results.bindings;
    return this.timed(events).slice(-500).map(({ row }) => row);
  }

  /** Rows of events with their event times. */
  timed(events) {
    const rows = events.flatMap(({ kind, data }) => (kind === "delete" ? [] : (data.results?.bindings ?? []).map((row) => ({ at: data.at, row }))));
    return rows.slice(-MOST_TIMED);
  }

  offer(events, answer) {
    this.fit(events, answer);
    if (this.kinds) this.choice.offer([...this.rowsOf(events, answer), ...this.timed(events).map(({ row }) => row)], this.kinds.names);
  }

  drawChart(events, answer) {
    if (this.kinds === null || this.kinds.numbers.length === 0) return;
    const [kind, number, name] = ["chart-kind", "chart-number", "chart-name"].map((id) => byId(id).value);
    byId("lines").hidden = kind !== "line";
    byId("bars").hidden = kind !== "bar";
    const onPick = ({ key }) => key && this.choice.follow(key);
    if (kind === "line") {
      const lines = linesOf(this.timed(events).filter(({ row }) => this.choice.matches(row)), name || null, number, this.show);
      setText(byId("chart-note"), `?${number} of the rows that came${name ? `, a line for each ?${name}` : ""}. Event time is UTC.`);
      drawSeries(byId("lines"), lines, { caption: `?${number} over event time`, onPick: name ? onPick : null, height: 260 });
    } else {
      const bars = barsOf(this.rowsOf(events, answer).filter((row) => this.choice.matches(row)), name, number, this.show);
      setText(byId("chart-note"), `?${number} by ?${name}, ${source(answer)}.`);
      drawBars(byId("bars"), bars, { caption: `?${number} by ?${name}`, onPick });
    }
  }

  /** The map, whose outline of the land is fetched when it is first looked at. */
  async drawMap(events, answer) {
    const { drawMap } = await import("../charts/map.js");
    if (this.kinds === null || this.kinds.places.length === 0) return;
    const rows = this.rowsOf(events, answer).filter((row) => this.choice.matches(row));
    const points = pointsOf(rows, this.kinds.places, namingColumn(this.kinds, "bar"), byId("chart-number").value || null, this.show);
    setText(byId("map-note"), `The places of the rows, ${source(answer)}.`);
    drawMap(byId("map"), points, { caption: "Places of the rows", onPick: ({ key }) => key && this.choice.follow(key) });
  }
}

function source(answer) {
  return answer?.results?.bindings.length > 0 ? `of the answer at ${instant(answer.at)} (UTC)` : "of the newest rows that came; the answer has none now";
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
