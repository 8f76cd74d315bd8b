// Bars: a name and a number a row, longest first.
//
//   drawBars(place, [{ label, value, title?, key? }], { caption, unit?, most?, sorted?, onPick?, tone?, least? })
//
// `value` is a number; `title` is its exact form (the tooltip). `caption` names the picture for those who do not see it. `unit` follows each
// figure. The `most` (20) largest are shown, the rest are counted; `sorted: false` keeps the order given. `onPick(bar)` makes each label a
// button. `tone(value)` gives 0 to 4, the colour of a bar by how grave it is; bars below zero
// have a colour of their own. All bars have one scale, which ends at round values beyond the longest ones and includes `least` ([low, high]). Call it again with new data: bars of a label keep their element.

import { el, put, setText } from "../base/dom.js";
import { counted } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { rounded, roundSteps } from "./scale.js";

const drawn = new WeakMap();

/** Draw bars in `place`; what was drawn there before is changed, not made anew. */
export function drawBars(place, data, options = {}) {
  const { caption = "", unit = "", most = 20, sorted = true, onPick = null, tone = null, least = [0, 0] } = options;
  const known = data.filter(({ value }) => Number.isFinite(value));
  const bars = (sorted ? [...known].sort((a, b) => b.value - a.value) : known).slice(0, most);
  const values = bars.map(({ value }) => value);
  const steps = roundSteps(Math.min(0, least[0], ...values), Math.max(0, least[1], ...values), 2);
  const [low, high] = [steps[0], steps.at(-1)];
  const span = high - low;
  const chart = chartIn(place, onPick);
  chart.list.setAttribute("aria-label", caption);
  chart.list.classList.toggle("with-negative", low < 0);
  chart.bars = bars;
  while (chart.rows.length < bars.length) chart.rows.push(addRow(chart));
  while (chart.rows.length > bars.length) chart.rows.pop().row.remove();
  bars.forEach((bar, i) => {
    const { label, fill, figure } = chart.rows[i];
    setText(label, bar.label);
    label.title = bar.label;
    // Styles are set by the object model: the page's policy allows no style attribute.
    fill.style.marginInlineStart = `${(100 * (Math.min(0, bar.value) - low)) / span}%`;
    fill.style.inlineSize = `${(100 * Math.abs(bar.value)) / span}%`;
    fill.className = bar.value < 0 ? "bar-fill below-zero" : tone === null ? "bar-fill" : `bar-fill tone-${tone(bar.value)}`;
    setText(figure, unit ? `${rounded(bar.value)} ${unit}` : rounded(bar.value));
    figure.title = bar.title ?? String(bar.value);
  });
  chart.scale.hidden = bars.length === 0;
  showScale(chart.scale, steps, unit);
  chart.rest.hidden = known.length <= most;
  setText(chart.rest, known.length > most ? `${counted(known.length - most, "more", "more")} not shown.` : "");
  chart.empty.hidden = bars.length > 0;
}

function chartIn(place, onPick) {
  const before = drawn.get(place);
  if (before?.list.isConnected) return Object.assign(before, { onPick });
  const chart = { list: el("ul", { class: "bars", role: "list" }), rows: [], scale: el("div", { class: "bar-scale", "aria-hidden": "true" }), bars: [], onPick,
    rest: el("p", { class: "muted", hidden: true }), empty: el("p", { class: "empty" }, "Nothing to draw yet.") };
  put(place, el("div", { class: "bar-chart" }, chart.list, chart.scale), chart.rest, chart.empty);
  drawn.set(place, chart);
  return chart;
}

/** The ends of the scale and its zero, each below its place. */
function showScale(place, steps, unit) {
  const [low, high] = [steps[0], steps.at(-1)];
  const shown = [...new Set([low, 0, high])];
  redraw(place, shown.map((value) => el("span", {}, unit && value === high ? `${rounded(value)} ${unit}` : rounded(value))));
  shown.forEach((value, i) => {
    place.children[i].style.insetInlineStart = `${(100 * (value - low)) / (high - low)}%`;
  });
}

function addRow(chart) {
  const index = chart.rows.length;
  const label = chart.onPick === null ? el("span", { class: "bar-label" })
    : el("button", { type: "button", class: "bar-label link", on: { click: () => chart.onPick(chart.bars[index]) } });
  const fill = el("span", { class: "bar-fill" });
  const figure = el("span", { class: "bar-figure" });
  const row = el("li", {}, label, el("span", { class: "bar-track", "aria-hidden": "true" }, fill), figure);
  chart.list.append(row);
  return { row, label, fill, figure };
}
