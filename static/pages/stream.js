// One stream: its figures and rates, newest elements, dead letters, declaration, a form to push.

import { call, Problem, queryPath } from "../base/api.js";
import { byId, el, figure, poll, serverState, setText } from "../base/dom.js";
import { count, duration, instant } from "../base/format.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { go } from "../base/root.js";
import { prefixesOf } from "../base/terms.js";
import { BegunRates } from "../charts/begun.js";
import { drawChart } from "../charts/lines.js";
import { chooseRange } from "../charts/range.js";
import { menu } from "../base/menu.js";
import { dropStep, heartbeat } from "../streams/actions.js";
import { Declaration } from "../streams/declaration.js";
import { lagText, lateText, timeText } from "../streams/figures.js";
import { Letters } from "../streams/letters.js";
import { streamPath } from "../streams/path.js";
import { pushForm } from "../streams/push.js";
import { Tail } from "../streams/tail.js";

const LABELS = ["Elements", "Late"];
let stream = serverState().stream;
const prefixes = prefixesOf("");
const rates = new BegunRates(["elements", "late"], (iri) => streamPath(iri, "/history"));
const range = chooseRange(byId("range"), show);
const letters = new Letters(stream, prefixes, update);
const tail = new Tail(stream.name, prefixes);

function show() {
  const [behind, exactly] = lagText(stream);
  byId("activity").className = `badge badge-${stream.state}`;
  setText(byId("activity"), stream.state);
  redraw(byId("figures"),
    figure("Elements", count(stream.elements)),
    figure("Kept", count(stream.retained), stream.oldest_retained === null ? null : `from ${instant(stream.oldest_retained)} on`),
    figure("Watermark (UTC)", instant(stream.watermark), stream.watermark === null ? null : `${stream.watermark} ms`),
    figure("Lag", behind, exactly),
    figure("Newest element (UTC)", instant(stream.newest)),
    figure("Silent for", stream.silent_ms === null ? "–" : duration(stream.silent_ms)),
    figure("Late", lateText(stream)),
    figure("Time", timeText(stream)));
  const rate = rates.of(stream.iri, { elements: stream.elements, late: stream.late_count });
  drawChart(byId("chart"), rate, LABELS, range());
  redraw(byId("readers"), stream.readers.length === 0 ? "No query reads it." : ["Read by ", stream.readers.map((reader, i) => [i > 0 ? ", " : null,
    el("a", { href: `/ui/queries/${encodeURIComponent(reader)}` }, reader)])]);
  redraw(byId("more"), menu("stream", stream.name, dropStep(stream, () => go("/ui/streams"))));
}

async function update() {
  try {
    stream = (await call("GET", streamPath(stream.name))).data;
    show();
    await tail.update();
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 404) showProblem(byId("problem"), problem);
  }
}

/** Who brings elements: sources of this stream, or the query that makes it. */
async function showSources() {
  if (stream.derived_from !== null) {
    redraw(byId("sources"), "Made by the query ", el("a", { href: `/ui/queries/${encodeURIComponent(stream.derived_from)}` }, stream.derived_from), ".");
    return;
  }
  const { sources } = (await call("GET", "/sources")).data;
  const own = sources.filter((source) => source.stream === stream.iri);
  redraw(byId("sources"), own.length === 0 ? "No source feeds it; it is pushed to." : ["Fed by ", own.map((source, i) => [i > 0 ? ", " : null,
    el("a", { href: "/ui/connectors" }, source.name), ` (${source.kind}, ${source.state})`])]);
}

/** Prefixes that the server keeps, and those of a query that reads the stream. */
async function learnPrefixes() {
  for (const { prefix, uri } of (await call("GET", "/prefixes")).data) prefixes[prefix] = uri;
  if (stream.readers.length > 0) Object.assign(prefixes, prefixesOf((await call("GET", queryPath(stream.readers[0]))).data.query));
}

async function lookAtLetters() {
  try {
    await letters.update();
    await showSources();
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

show();
learnPrefixes().catch(() => null).then(() => {
  poll(update, 2000);
  poll(lookAtLetters, 3000);
});
byId("heartbeat").addEventListener("click", () => heartbeat(stream, update));
if (stream.derived_from === null) {
  pushForm(update, stream.mapping !== null);
  new Declaration(stream, prefixes, (changed) => {
    stream = changed;
    show();
  });
}
