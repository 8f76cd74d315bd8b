// A plan as a graph in SVG: a box for each operator with its rows, heat by its share of the time.

import { put, setText, svg } from "../base/dom.js";
import { count, counted, rate } from "../base/format.js";
import { BOX, edgePath, layoutOf } from "./layout.js";

const MOST_LETTERS = 30;

/** Draws operators in `place`; `chosen(number)` is called for the one that somebody selects. */
export class PlanGraph {
  constructor(place, chosen) {
    this.place = place;
    this.chosen = chosen;
    this.boxes = new Map();
  }

  /** Draw a plan of another shape. */
  draw(operators, shorten) {
    const { places, width, height } = layoutOf(operators);
    this.boxes = new Map(operators.map((each) => [each.number, this.box(each, places.get(each.number), shorten)]));
    this.edges = operators.flatMap((each) => each.inputs.map((number, i) => ({
      number,
      line: svg("path", { class: "plan-edge", d: edgePath(places.get(number), places.get(each.number), i, each.inputs.length) }),
    })));
    put(this.place, svg("svg", { class: "plan-graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Operators of the plan" },
      this.edges.map(({ line }) => line), [...this.boxes.values()].map(({ node }) => node)));
  }

  box(operator, { x, y }, shorten) {
    const [rows, held, time] = [12, 12, 12].map(() => svg("text", { class: "plan-figure" }));
    const heat = svg("rect", { class: "plan-heat", x: 0, y: BOX.height - 5, width: 0, height: 5 });
    const back = svg("rect", { class: "plan-box", width: BOX.width, height: BOX.height, rx: 7 });
    const choose = () => this.chosen(operator.number);
    const node = svg("g", { class: `plan-node plan-${operator.operator}`, transform: `translate(${x} ${y})`, tabindex: "0", role: "button",
      on: { click: choose, keydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose();
      } } },
    back, heat,
    svg("text", { class: "plan-name", x: 12, y: 20 }, operator.operator),
    svg("text", { class: "plan-detail", x: 12, y: 37 }, cut(brief(operator, shorten))),
    rows, held, time);
    rows.setAttribute("x", 12);
    held.setAttribute("x", 108);
    time.setAttribute("x", BOX.width - 12);
    time.setAttribute("text-anchor", "end");
    [rows, held].forEach((text) => text.setAttribute("y", 57));
    time.setAttribute("y", 20);
    return { node, rows, held, time, heat, detail: brief(operator, shorten) };
  }

  /** The figures of now, and which operator is selected. */
  update(operators, selected) {
    for (const each of operators) {
      const { node, rows, held, time, heat, detail } = this.boxes.get(each.number);
      const kept = each.part ? each.part.rows : each.state_rows;
      const share = Number.isFinite(each.share) ? `${Math.round(100 * each.share)} %` : "";
      if (each.part) setText(rows, each.part.lookup ? "looked up" : counted(kept, "row"));
      else setText(rows, Number.isFinite(each.perSecond) ? `${rate(each.perSecond)} rows/s` : `${count(each.rows_out)} rows`);
      if (each.part) setText(held, each.part.lookup ? `${Math.round(100 * (each.part.lookup.hit_rate ?? 0))} % hits` : `version ${count(each.part.version)}`);
      else setText(held, kept ? `${count(kept)} held` : "");
      setText(time, share);
      heat.setAttribute("width", Number.isFinite(each.share) ? (each.share * BOX.width).toFixed(1) : 0);
      node.style.setProperty("--heat", Number.isFinite(each.share) ? each.share.toFixed(2) : "0");
      node.setAttribute("aria-pressed", String(each.number === selected));
      node.setAttribute("aria-label", [`${each.operator} ${detail}`.trim(), `${count(each.rows_in)} rows in`, `${count(each.rows_out)} out`,
        kept ? `${count(kept)} held` : "", share && `${share} of the time`].filter(Boolean).join(", "));
    }
    const running = new Map(operators.map((each) => [each.number, each.perSecond > 0]));
    this.edges.forEach(({ number, line }) => line.classList.toggle("flows", running.get(number)));
  }
}

/** What an operator does in a few words. */
export function brief(operator, shorten) {
  const what = operator.part ? operator.part.pattern : operator.detail;
  // Of IRIs without a prefix the last part, of a graph's block what stands in it.
  if (what) return shorten(what.replace(/\s+/g, " ")).replace(/^GRAPH (\S+) \{ (.*?)(?: \.)? \}$/, "$1: $2").replace(/<[^<>\s]*[/#]([^/#<>\s]+)>/g, "…$1");
  return operator.on.length > 0 ? `on ${operator.on.map((name) => `?${name}`).join(" ")}` : operator.columns.map((name) => `?${name}`).join(" ");
}

function cut(text) {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}
