// What mends a reason for which a query gives no result: buttons and small forms, by the public interface alone.

import { call, queryPath } from "../base/api.js";
import { el } from "../base/dom.js";
import { duration, instant } from "../base/format.js";

const DECLARED = ["late", "idle_timeout", "retention", "timestamp_property", "stamping", "quoted_asserted", "clock", "mapping", "shapes", "on_violation", "self_contained"];

function byIri(path, iri, more = {}) {
  return `${path}?${new URLSearchParams({ iri, ...more })}`;
}

/** A button that runs `work`, an async function, which gives the sentence to say afterwards. */
function button(label, run, work) {
  return el("button", { type: "button", on: { click: () => run(work) } }, label);
}

function link(label, href) {
  return el("a", { class: "button", href }, label);
}

/** A form with one field; `work(value)` is run when it is sent. */
function field(label, value, verb, run, work, hint) {
  const input = el("input", { type: "text", value, size: "26", required: true, spellcheck: "false", autocomplete: "off" });
  return el("form", { class: "row", on: { submit: (event) => { event.preventDefault(); run(() => work(input.value.trim())); } } },
    el("label", { title: hint }, `${label} `, input), el("button", { type: "submit" }, verb));
}

/** What can be done about a reason; `run(work)` does it and shows what comes of it. */
export function mendsOf(reason, query, run) {
  const stream = (query.streams || []).find(({ iri }) => iri === reason.stream);
  switch (reason.reason) {
    case "late": return reason.stream === null ? [] : [latenessForm(reason, stream, run), streamLink("Show the dead letters", reason.stream)];
    case "source": return [link("Open the sources", "/ui/connectors"), streamLink("Open the stream", reason.stream)];
    case "idle": case "watermark": return [heartbeatForm(reason, query, stream, run), streamLink("Open the stream", reason.stream)];
    case "no-element": return [streamLink("Push an element", reason.stream)];
    case "window-empty": return [streamLink("See what has come", reason.stream)];
    case "static-empty": return staticMends(query, run);
    case "paused": return [button("Resume", run, () => state(query.name, "runs again"))];
    case "failed": return [button("Start again", run, () => state(query.name, "begins anew")),
      link("Edit a copy", `/ui/register?${new URLSearchParams({ from: query.name })}`)];
    case "filtered": return [link("See in the plan where rows end", "#plan-title"),
      link("Edit a copy", `/ui/register?${new URLSearchParams({ from: query.name })}`)];
    default: return [];
  }
}

function streamLink(label, iri) {
  return link(label, byIri("/ui/streams/one", iri));
}

async function state(name, done) {
  await call("PATCH", queryPath(name), { json: { state: "running" } });
  return `${name} ${done}.`;
}

/** A heartbeat at the time for which the query waits. */
function heartbeatForm(reason, query, stream, run) {
  const now = Date.now();
  const wanted = reason.reason === "watermark" ? query.next_element ?? query.next_report : query.next_report;
  // A stream of the present goes on to now, one that was recorded long ago a minute further.
  const reached = stream?.reached ?? now;
  const at = Math.max(wanted ?? 0, Math.abs(now - reached) < 86_400_000 ? now : reached + 60_000);
  const chosen = reason.reason === "watermark" && Number.isFinite(wanted) ? wanted : at;
  return field("Event time", new Date(chosen).toISOString(), "Send a heartbeat", run, async (value) => {
    await call("POST", byIri("/streams:heartbeat", reason.stream, { at: value }));
    return `The event time of ${stream?.name ?? reason.stream} is ${instant(/^-?\d+$/.test(value) ? Number(value) : value)} now.`;
  }, "Milliseconds since 1970, or an xsd:dateTime");
}

/** A lateness that would have let the newest late element in; the rest of the declaration stays as it is. */
function latenessForm(reason, stream, run) {
  const behind = (stream?.newest ?? 0) - (stream?.newest_late ?? stream?.newest ?? 0);
  const seconds = Math.max(1, Math.ceil(behind / 1000));
  return field("Wait for", `${seconds}s`, "Set the lateness", run, async (value) => {
    const { data } = await call("GET", byIri("/streams", reason.stream));
    const kept = Object.fromEntries(DECLARED.filter((member) => (data[member] ?? null) !== null).map((member) => [member, data[member]]));
    await call("PUT", byIri("/streams", reason.stream), { json: { ...kept, lateness: value } });
    return `${data.name} waits ${value} for elements that come late.`;
  }, `The newest late element was ${duration(behind)} behind the newest of all`);
}

function staticMends(query, run) {
  const empty = (query.static_parts || []).find((part) => part.rows === 0 && part.needed);
  const browse = empty && `/ui/sparql?${new URLSearchParams({ query: asked(query, empty) })}`;
  return [
    query.state === "running" ? button("Refresh static parts", run, async () => {
      await call("POST", queryPath(query.name, "/refresh"));
      return `The static parts of ${query.name} are fresh.`;
    }) : null,
    browse ? link("Look into the store", browse) : link("Open the store", "/ui/store"),
  ];
}

/** A query that asks for what a static part reads. */
function asked(query, part) {
  const declared = (query.query || "").match(/\bPREFIX\s+[\w.-]*:\s*<[^<>"{}|^`\\\s]*>/gi) || [];
  const pattern = part.pattern.split("\n").map((line) => `  ${line}`).join("\n");
  return `${[...declared, ""].join("\n")}SELECT * WHERE {\n${pattern}\n}\nLIMIT 100`;
}
