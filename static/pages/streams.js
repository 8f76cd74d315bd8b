// Streams: where each one stands in time, what was late, who reads it; pushing and declaring.

import { call } from "../base/api.js";
import { Rates } from "../charts/lines.js";
import { announce, breakable, byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { Editor } from "../editor/editor.js";
import { count, counted, duration, instant, rate } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const TYPES = {
  "text/turtle": `PREFIX ex: <http://example.org/>\nex:sensor1 ex:value 21.5 .`,
  "application/trig": `PREFIX ex: <http://example.org/>\nex:e1 { ex:sensor1 ex:value 21.5 }\nex:e2 { ex:sensor2 ex:value 19.0 }`,
  "application/n-triples": `<http://example.org/sensor1> <http://example.org/value> "21.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .`,
  "application/n-quads": `<http://example.org/sensor1> <http://example.org/value> "21.5"^^<http://www.w3.org/2001/XMLSchema#decimal> <http://example.org/e1> .`,
  "application/ld+json": `{\n  "@context": {"ex": "http://example.org/"},\n  "@id": "ex:sensor1",\n  "ex:value": 21.5\n}`,
  "application/x-ndjson": `{"at": 1357455600000, "data": "<http://example.org/sensor1> <http://example.org/value> \\"21.5\\" ."}`,
};
const rates = new Map();
const editor = new Editor(byId("push-editor"), { onRun: () => push() });
const body = byId("streams").tBodies[0];

/** A stream's path by its name, or by its IRI. */
function streamPath(reference, suffix = "") {
  return NAME.test(reference) ? [`/streams/${encodeURIComponent(reference)}${suffix}`, new URLSearchParams()]
    : [`/streams${suffix}`, new URLSearchParams({ iri: reference })];
}

function address([path, parameters]) {
  return parameters.size === 0 ? path : `${path}?${parameters}`;
}

function lateText(stream) {
  const parts = Object.entries(stream.late_counts).filter(([, many]) => many > 0).map(([what, many]) => `${count(many)} ${what}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

function row(stream) {
  const known = rates.get(stream.iri) || new Rates(["elements"], 30);
  rates.set(stream.iri, known);
  known.add({ elements: stream.elements });
  const { readers } = stream;
  return el("tr", {},
    el("th", { scope: "row" }, stream.name, el("span", { class: "sub" }, breakable(stream.iri))),
    el("td", {}, el("span", { class: "stamp" }, instant(stream.watermark)),
      el("span", { class: "sub" }, [stream.stamping ? `${stream.stamping}-stamped` : "no element yet", stream.lateness_ms ? `lateness ${duration(stream.lateness_ms)}` : null].filter(Boolean).join(", "))),
    el("td", {}, el("span", { class: `badge badge-${stream.idle ? "idle" : "active"}` }, stream.idle ? "idle" : "active")),
    el("td", { class: "num" }, count(stream.elements), el("span", { class: "sub" }, `${count(stream.retained)} kept`)),
    el("td", { class: "num" }, rate(known.latest()[0])),
    el("td", {}, lateText(stream), el("span", { class: "sub short" }, `policy: ${stream.late}`)),
    el("td", {}, readers.length === 0 ? el("span", { class: "muted" }, "nobody") : readers.map((reader, i) => [i > 0 ? ", " : null,
      el("a", { href: `/ui/queries/${encodeURIComponent(reader)}` }, reader)])),
    el("td", { class: "actions" },
      el("button", { type: "button", class: "quiet", dataset: { action: "push" }, on: { click: () => choose(stream) } }, "Push"),
      el("button", { type: "button", class: "quiet", title: "Move the watermark without data", on: { click: () => heartbeat(stream) } }, "Heartbeat"),
      el("button", { type: "button", class: "quiet danger", disabled: readers.length > 0,
        title: readers.length > 0 ? "A query reads this stream" : null, on: { click: () => drop(stream) } }, "Drop")));
}

function show(streams) {
  // Redrawing under the keyboard's focus would lose it.
  if (!body.contains(document.activeElement)) put(body, streams.map(row));
  byId("no-streams").hidden = streams.length > 0;
  setText(byId("summary"), streams.length === 0 ? "" : counted(streams.length, "stream"));
  put(byId("stream-names"), streams.map((stream) => el("option", { value: stream.name })));
}

async function update() {
  try {
    show((await call("GET", "/streams")).data.streams);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

async function act(step, done) {
  clearProblem(byId("problem"));
  try {
    await step();
    announce(done);
    document.activeElement.blur();
    await update();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

function heartbeat(stream) {
  const at = window.prompt(`Move the watermark of ${stream.name} to (ms or xsd:dateTime)`, String(stream.watermark ?? Date.now()));
  if (at) act(() => call("POST", `/streams:heartbeat?${new URLSearchParams({ iri: stream.iri, at })}`), `${stream.name} has a heartbeat.`);
}

function drop(stream) {
  if (!window.confirm(`Drop the stream ${stream.name} and its kept elements?`)) return;
  act(() => call("DELETE", address(streamPath(stream.name))), `${stream.name} is dropped.`);
}

function choose(stream) {
  byId("push-stream").value = stream.name;
  editor.focus();
}

async function push() {
  const place = byId("push-problem");
  clearProblem(place, editor);
  put(byId("receipt"));
  const [path, parameters] = streamPath(byId("push-stream").value.trim());
  if (byId("push-at").value.trim()) parameters.set("at", byId("push-at").value.trim());
  if (byId("push-each").checked) parameters.set("each", "triple");
  if (byId("push-partial").checked) parameters.set("partial", "true");
  if (byId("push-wait").checked) parameters.set("wait", "true");
  try {
    const { data } = await call("POST", address([path, parameters]), { body: editor.text, type: byId("push-type").value });
    put(byId("receipt"), el("p", { class: "notice notice-good" }, receiptText(data)));
    await update();
  } catch (problem) {
    showProblem(place, problem, editor);
  }
}

function receiptText(receipt) {
  const bad = (receipt.bad || []).length;
  return [`${counted(receipt.accepted, "element")} accepted on ${receipt.stream}`,
    receipt.first_seq === null ? null : `sequence ${receipt.first_seq} to ${receipt.last_seq}`,
    receipt.late ? `${count(receipt.late)} late` : null, bad ? `${count(bad)} refused` : null].filter(Boolean).join(", ");
}

async function declare(event) {
  event.preventDefault();
  clearProblem(byId("declare-problem"));
  const options = {};
  for (const [id, member] of [["lateness", "lateness"], ["late", "late"], ["idle", "idle_timeout"], ["retention", "retention"], ["property", "timestamp_property"]]) {
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

put(byId("push-type"), Object.keys(TYPES).map((type) => el("option", { value: type }, type)));
editor.text = TYPES["text/turtle"];
byId("push-type").addEventListener("change", (event) => {
  if (Object.values(TYPES).includes(editor.text) || editor.text.trim() === "") editor.text = TYPES[event.target.value];
});
byId("push").addEventListener("submit", (event) => {
  event.preventDefault();
  push();
});
byId("push-now").addEventListener("click", () => (byId("push-at").value = String(Date.now())));
byId("declare").addEventListener("submit", declare);
show(serverState({ streams: [] }).streams);
poll(update, 2000);
