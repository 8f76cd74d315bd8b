// A plan as a graph in SVG: a box for each operator with its rows, heat by its share of the time.

import { put, setText, svg } from "../base/dom.js";
import { count, counted, rate } from "../base/format.js";
import { drawnAgain } from "../charts/scale.js";
import { BOX, edgePath, layoutOf } from "./layout.js";
import { columnsOf, nameOf, readable } from "./names.js";

const EDGE = 12;
// The share of the time stands at the right of the name.
const SHARE_WIDTH = 44;

/** Draws operators in `place`; `chosen(number)` is called for the one that somebody selects. */
export class PlanGraph {
  constructor(place, chosen) {
    this.place = place;
    this.chosen = chosen;
    this.boxes = new Map();
  }

  /** Draw a plan of another shape. */
  draw(operators, shorten) {
    drawnAgain(this.place, () => {
      this.draw(operators, shorten);
      if (this.shown) this.update(...this.shown);
    });
    const { places, box, width, height } = layoutOf(operators, this.place.clientWidth);
    this.width = box;
    this.boxes = new Map(operators.map((each) => [each.number, this.box(each, places.get(each.number), shorten)]));
    this.edges = operators.flatMap((each) => each.inputs.map((number, i) => ({
      number,
      line: svg("path", { class: "plan-edge", d: edgePath(places.get(number), places.get(each.number), box, i, each.inputs.length) }),
    })));
    put(this.place, svg("svg", { class: "plan-graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Operators of the plan" },
      this.edges.map(({ line }) => line), [...this.boxes.values()].map(({ node }) => node)));
    for (const each of operators) {
      const { name, what, detail } = this.boxes.get(each.number);
      fit(name, nameOf(each), box - 2 * EDGE - SHARE_WIDTH);
      fit(what, detail, box - 2 * EDGE);
    }
  }

  box(operator, { x, y }, shorten) {
    const [rows, held, time] = [12, 12, 12].map(() => svg("text", { class: "plan-figure" }));
    const heat = svg("rect", { class: "plan-heat", x: 0, y: BOX.height - 5, width: 0, height: 5 });
    const back = svg("rect", { class: "plan-box", width: this.width, height: BOX.height, rx: 7 });
    const name = svg("text", { class: "plan-name", x: EDGE, y: 20 });
    const what = svg("text", { class: "plan-detail", x: EDGE, y: 37 });
    const detail = brief(operator, shorten);
    const choose = () => this.chosen(operator.number);
    const node = svg("g", { class: `plan-node plan-${operator.operator}`, transform: `translate(${x} ${y})`, tabindex: "0", role: "button",
      on: { click: choose, keydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose();
      } } },
    svg("title", {}, `${operator.operator}, operator #${operator.number} of EXPLAIN: ${detail}`),
    back, heat, name, what, rows, held, time);
    rows.setAttribute("x", EDGE);
    for (const text of [held, time]) {
      text.setAttribute("x", this.width - EDGE);
      text.setAttribute("text-anchor", "end");
    }
    [rows, held].forEach((text) => text.setAttribute("y", 57));
    time.setAttribute("y", 20);
    return { node, name, what, rows, held, time, heat, detail };
  }

  /** The figures of now, and which operator is selected. */
  update(operators, selected) {
    this.shown = [operators, selected];
    const half = (this.width - 3 * EDGE) / 2;
    for (const each of operators) {
      const { node, rows, held, time, heat, detail } = this.boxes.get(each.number);
      const kept = each.part ? each.part.rows : each.state_rows;
      const share = Number.isFinite(each.share) ? `${Math.round(100 * each.share)} %` : "";
      if (each.part) setText(rows, each.part.lookup ? "looked up" : counted(kept, "row"));
      else setText(rows, Number.isFinite(each.perSecond) ? `${rate(each.perSecond)} rows/s` : `${count(each.rows_out)} rows`);
      if (each.part) setText(held, each.part.lookup ? `${Math.round(100 * (each.part.lookup.hit_rate ?? 0))} % hits` : `version ${count(each.part.version)}`);
      else setText(held, kept ? `${count(kept)} held` : "");
      for (const text of [rows, held]) fit(text, text.textContent, half);
      setText(time, share);
      heat.setAttribute("width", Number.isFinite(each.share) ? (each.share * this.width).toFixed(1) : 0);
      node.style.setProperty("--heat", Number.isFinite(each.share) ? each.share.toFixed(2) : "0");
      node.setAttribute("aria-pressed", String(each.number === selected));
      node.setAttribute("aria-label", [`${nameOf(each)} ${detail}`.trim(), `${count(each.rows_in)} rows in`, `${count(each.rows_out)} out`,
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
  if (what) return readable(shorten(what.replace(/\s+/g, " ")).replace(/^GRAPH (\S+) \{ (.*?)(?: \.)? \}$/, "$1: $2").replace(/<[^<>\s]*[/#]([^/#<>\s]+)>/g, "…$1"));
  return operator.on.length > 0 ? `on ${operator.on.map((name) => (name.startsWith("_") ? "…" : `?${name}`)).join(" ")}` : columnsOf(operator).join(" ");
}

/** Write as much of a text as `width` pixels hold, with three dots where it is cut. */
function fit(node, text, width) {
  setText(node, text);
  if (node.getComputedTextLength() <= width) return;
  let [least, most] = [0, text.length - 1];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    node.textContent = `${text.slice(0, middle)}…`;
    if (node.getComputedTextLength() <= width) least = middle;
    else most = middle - 1;
  }
  node.textContent = `${text.slice(0, least)}…`;
}
