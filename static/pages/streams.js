// Streams: where each one stands in time, what was late, who reads it; pushing and declaring.

import { call } from "../base/api.js";
import { commandBox, curl } from "../base/curl.js";
import { announce, breakable, byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { count, counted, instant, rate } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { BegunRates } from "../charts/begun.js";
import { drawSpark } from "../charts/lines.js";
import { menu } from "../base/menu.js";
import { dropStep, heartbeat } from "../streams/actions.js";
import { lagText, lateText, timeText } from "../streams/figures.js";
import { streamPath, streamView } from "../streams/path.js";
import { pushForm } from "../streams/push.js";

const rates = new BegunRates(["elements", "late"], (iri) => streamPath(iri, "/history"));
const body = byId("streams").tBodies[0];
const OPTIONS = [["lateness", "lateness"], ["late", "late"], ["idle", "idle_timeout"], ["retention", "retention"], ["property", "timestamp_property"]];

function row(stream) {
  const known = rates.of(stream.iri, { elements: stream.elements, late: stream.late_count });
  const spark = el("div", { class: "sparkcell" });
  drawSpark(spark, known.samples.map(({ values }) => values[0]));
  const { readers } = stream;
  const [behind, exactly] = lagText(stream);
  return el("tr", { dataset: { key: stream.iri } },
    el("th", { scope: "row" }, el("a", { href: streamView(stream.iri) }, stream.name), el("span", { class: "sub" }, breakable(stream.iri))),
    el("td", { "data-name": "Last hour" }, spark, el("span", { class: "sub short" }, `${rate(known.latest()[0])} /s`)),
    el("td", { class: "num", "data-name": "Elements" }, count(stream.elements), el("span", { class: "sub" }, `${count(stream.retained)} kept`)),
    el("td", { "data-name": "Watermark" }, el("span", { class: "stamp" }, instant(stream.watermark)),
      el("span", { class: "sub", title: exactly }, behind), el("span", { class: "sub" }, timeText(stream))),
    el("td", { "data-name": "State" }, el("span", { class: `badge badge-${stream.state}` }, stream.state)),
    el("td", { "data-name": "Late" }, lateText(stream), el("span", { class: "sub short" }, `policy: ${stream.late}`)),
    el("td", { "data-name": "Read by" }, readers.length === 0 ? el("span", { class: "muted" }, "nobody") : readers.map((reader, i) => [i > 0 ? ", " : null,
      el("a", { href: `/ui/queries/${encodeURIComponent(reader)}` }, reader)])),
    el("td", { class: "actions" },
      el("button", { type: "button", class: "quiet", dataset: { action: "push" }, needs: "push", on: { click: () => choose(stream) } }, "Push"),
      el("button", { type: "button", class: "quiet", title: "Move the watermark without data", needs: "push", on: { click: () => heartbeat(stream, update) } }, "Heartbeat"),
      menu(stream.iri, stream.name, dropStep(stream, update))));
}

function show(streams) {
  redraw(body, streams.map(row));
  byId("no-streams").hidden = streams.length > 0;
  byId("streams-scroll").hidden = streams.length === 0;
  setText(byId("summary"), streams.length === 0 ? "" : counted(streams.length, "stream"));
  redraw(byId("stream-names"), streams.map((stream) => el("option", { value: stream.name })));
}

async function update() {
  try {
    show((await call("GET", "/streams")).data.streams);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

function choose(stream) {
  byId("push-stream").value = stream.name;
  form.focus();
}

async function declare(event) {
  event.preventDefault();
  clearProblem(byId("declare-problem"));
  const options = {};
  for (const [id, member] of OPTIONS) {
    const value = byId(`declare-${id}`).value.trim();
    if (value) options[member] = value;
  }
  try {
    const iri = byId("declare-iri").value.trim();
    const { status } = await call("PUT", `/streams?${new URLSearchParams({ iri })}`, { json: { iri, ...options } });
    announce(status === 201 ? "The stream is declared." : "The stream was declared already.");
    await update();
  } catch (problem) {
    showProblem(byId("declare-problem"), problem);
  }
}

const form = pushForm(update);
byId("declare").addEventListener("submit", declare);
put(byId("first-push"), commandBox(curl("POST", "/streams/readings",
  { type: "text/turtle", body: "<http://example.org/sensor1> <http://example.org/value> 21.5 ." })));
show(serverState({ streams: [] }).streams);
poll(update, 2000);
