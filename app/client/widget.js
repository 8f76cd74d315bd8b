// Draws the widgets of live data frames in a notebook: a table, or a line chart (see widgets.py).
// Texts of the answer only ever become text nodes, so no answer can run code in the notebook.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 720, HEIGHT = 300, LEFT = 64, RIGHT = 32, TOP = 12, BOTTOM = 32;
const COLOURS = ["#3b7dd8", "#d9730d", "#2e9e5b", "#c2407e", "#7a5cc9", "#8a7a00", "#0f8b8d", "#b3423a", "#5a6b7b", "#946b3c"];
const CLOCK = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800, 1209600, 2592000, 7776000, 31536000];
const STYLE = `
.quadrill { font: 13px system-ui, sans-serif; max-width: 100%; }
.quadrill .scroll { overflow: auto; max-height: 420px; }
.quadrill table { border-collapse: collapse; }
.quadrill th, .quadrill td { padding: 3px 10px; text-align: left; border-bottom: 1px solid #8884; }
.quadrill th { position: sticky; top: 0; background: Canvas; color: CanvasText; }
.quadrill .number { text-align: right; font-variant-numeric: tabular-nums; }
.quadrill .unbound { opacity: .6; }
.quadrill p { margin: 6px 0; opacity: .8; }
.quadrill svg { width: 100%; max-width: ${WIDTH}px; height: auto; display: block; }
.quadrill svg text { font-size: 11px; fill: currentColor; }
.quadrill .key { display: inline-block; margin-right: 14px; }
.quadrill .key i { display: inline-block; width: 12px; height: 3px; margin-right: 5px; vertical-align: middle; }`;

function node(name, members = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, members);
  made.append(...children);
  return made;
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function table({ columns = [], rows = [], total = 0 }) {
  const cell = (value) => node(
    "td",
    { className: value === null ? "unbound" : typeof value === "number" ? "number" : "" },
    value === null ? "unbound" : String(value),
  );
  const head = node("tr", {}, ...columns.map((name) => node("th", { scope: "col" }, name)));
  const body = rows.map((row) => node("tr", {}, ...row.map(cell)));
  const found = [node("div", { className: "scroll", tabIndex: 0 },
    node("table", {}, node("thead", {}, head), node("tbody", {}, ...body)))];
  if (total > rows.length) found.push(node("p", {}, `The first ${rows.length} of ${total} rows.`));
  return found;
}

// Round numbers from low to high, at most `count` and one; times are in milliseconds, at whole units of clocks.
function ticks(low, high, count, time = false) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const decimal = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? 10 * power;
  const step = (time && rough > 500 && CLOCK.map((each) => each * 1000).find((each) => each >= rough)) || decimal;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(at * step);
  return found;
}

function moment(milliseconds, span) {
  const text = new Date(milliseconds).toISOString();
  return span > 2 * 86400000 ? text.slice(0, 10) : span > 120000 ? text.slice(11, 16) : text.slice(11, 19);
}

function chart({ lines = [], time = false }) {
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) return [node("p", {}, "No points yet.")];
  const range = (place) => {
    const low = Math.min(...points.map((each) => each[place]));
    const high = Math.max(...points.map((each) => each[place]));
    return low === high ? [low - 1, high + 1] : [low, high];
  };
  const [left, right] = range(0), [bottom, top] = range(1);
  const x = (value) => LEFT + (value - left) / (right - left) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM);
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Line chart of ${lines.map((line) => line.name).join(", ")}` });
  const label = (value) => Number(value.toPrecision(6)).toLocaleString("en");
  for (const value of ticks(bottom, top, 5)) {
    picture.append(
      shape("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), stroke: "currentColor", opacity: .15 }),
      shape("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)));
  }
  for (const value of ticks(left, right, 6, time)) {
    picture.append(shape("text", { x: x(value), y: HEIGHT - 10, "text-anchor": "middle" },
      time ? moment(value, right - left) : label(value)));
  }
  lines.forEach((line, number) => {
    const colour = COLOURS[number % COLOURS.length];
    const path = { fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" };
    if (number >= COLOURS.length) path["stroke-dasharray"] = "6 4";
    path.points = line.points.map(([each, height]) => `${x(each).toFixed(1)},${y(height).toFixed(1)}`).join(" ");
    picture.append(shape("polyline", path, shape("title", {}, line.name)));
    const [last, height] = line.points.at(-1);
    picture.append(shape("circle", { cx: x(last), cy: y(height), r: 3, fill: colour },
      shape("title", {}, `${line.name}: ${height}`)));
  });
  const keys = lines.map((line, number) => {
    const mark = node("i");
    mark.style.background = COLOURS[number % COLOURS.length];
    return node("span", { className: "key" }, mark, line.name);
  });
  return [picture, node("div", {}, ...keys)];
}

function render({ model, el }) {
  const draw = () => {
    const drawn = (model.get("kind") === "chart" ? chart : table)(model.get("content"));
    el.replaceChildren(node("style", {}, STYLE),
      node("div", { className: "quadrill" }, ...drawn, node("p", {}, model.get("caption"))));
  };
  model.on("change:content", draw);
  model.on("change:caption", draw);
  draw();
  return () => {
    model.off("change:content", draw);
    model.off("change:caption", draw);
  };
}

export default { render };
