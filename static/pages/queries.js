// The list of continuous queries, kept up to date.

import { call, queryPath } from "../base/api.js";
import { commandBox, curl } from "../base/curl.js";
import { fitActions, listenForActions } from "../query/actions.js";
import { BegunRates } from "../charts/begun.js";
import { drawSpark } from "../charts/lines.js";
import { byId, poll, put, serverState, setText } from "../base/dom.js";
import { ago, count, instant, rate } from "../base/format.js";
import { at } from "../base/root.js";
import { growing, staticSummary, waiting } from "../query/names.js";

const body = byId("queries").tBodies[0];
const rates = new BegunRates(["in", "out"], (name) => queryPath(name, "/history"), ["elements", "events"]);
const PART = 50;
let offset = 0;
let newest = "";

function field(row, name) {
  return row.querySelector(`[data-field="${name}"]`);
}

function rowsOf(name) {
  const row = [...body.rows].find((candidate) => candidate.dataset.name === name);
  if (row) return [row, row.nextElementSibling];
  const copy = byId("query-row").content.cloneNode(true);
  const [fresh, message] = [...copy.querySelectorAll("tr")];
  fresh.dataset.name = name;
  const [more, steps] = [fresh.querySelector("[popovertarget]"), fresh.querySelector("[popover]")];
  steps.id = `menu-${name}`;
  more.setAttribute("popovertarget", steps.id);
  more.setAttribute("aria-label", `More steps: ${name}`);
  field(fresh, "name").href = at(`/ui/queries/${encodeURIComponent(name)}`);
  body.append(fresh, message);
  return [fresh, message];
}

function showQuery(query) {
  const [row, message] = rowsOf(query.name);
  setText(field(row, "name"), query.name);
  setText(field(row, "dialect"), [query.dialect, query.output, query.engine].filter(Boolean).join(" · "));
  setText(field(row, "state"), query.state);
  field(row, "state").className = `badge badge-${query.state}`;
  const known = rates.of(query.name, growing(query));
  const [perSecondIn, perSecondOut] = known.latest();
  setText(field(row, "rate-in"), rate(perSecondIn));
  setText(field(row, "rate-out"), rate(perSecondOut));
  drawSpark(field(row, "spark"), known.samples.map(({ values }) => values[1]));
  showLast(row, query.last_result);
  setText(field(row, "static"), staticSummary(query));
  const reason = waiting(query);
  message.hidden = !query.error && reason === null;
  message.dataset.kind = query.error ? "error" : "waiting";
  setText(field(message, "message-kind"), query.error ? "Error:" : "Waiting:");
  setText(field(message, "message"), query.error || reason);
  fitActions(row, query.state);
}

function showLast(row, last) {
  if (!last) {
    setText(field(row, "last"), "none yet");
    setText(field(row, "last-at"), "");
    return;
  }
  setText(field(row, "last"), `event ${count(last.id)}, ${ago(last.emitted)}`);
  setText(field(row, "last-at"), `at ${instant(last.at)}`);
}

function showQueries({ queries, matching, total, states }) {
  const names = new Set(queries.map((query) => query.name));
  for (const row of [...body.rows]) {
    if (row.dataset.name && !names.has(row.dataset.name)) {
      row.nextElementSibling.remove();
      row.remove();
    }
  }
  rates.keep(names);
  queries.forEach(showQuery);
  const wanted = queries.flatMap(({ name }) => rowsOf(name));
  if (wanted.some((row, i) => body.rows[i] !== row)) body.append(...wanted);
  byId("no-queries").hidden = total > 0;
  byId("finder").hidden = total === 0;
  byId("scroll").hidden = queries.length === 0;
  byId("no-match").hidden = total === 0 || queries.length > 0;
  setText(byId("summary"), Object.entries(states).map(([state, many]) => `${count(many)} ${state}`).join(", "));
  const [first, last] = [offset + 1, offset + queries.length];
  setText(byId("range"), matching > queries.length ? `${count(first)} to ${count(last)} of ${count(matching)}` : "");
  byId("before").hidden = byId("after").hidden = matching <= PART;
  byId("before").disabled = offset === 0;
  byId("after").disabled = last >= matching;
}

/** Read the part of the list that is seen; what was asked before and comes later is left out. */
async function update() {
  const asked = `/queries?${new URLSearchParams({ contains: byId("find").value.trim(), state: byId("find-state").value, offset, limit: PART })}`;
  newest = asked;
  try {
    const { data } = await call("GET", asked);
    if (asked !== newest) return;
    if (data.queries.length === 0 && offset > 0 && data.matching > 0) await move(-PART);
    else showQueries(data);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

function move(by) {
  offset = Math.max(0, offset + by);
  return update();
}

function findAnew() {
  offset = 0;
  update();
}

const FIRST = `SELECT ?sensor ?value WHERE {
  STREAM <http://localhost/readings> [RANGE 1m] { ?sensor <http://example.org/value> ?value }
}`;
put(byId("first-query"),
  commandBox(curl("POST", "/queries?name=first", { type: "text/plain", body: FIRST })),
  commandBox(curl("POST", "/streams?iri=http://localhost/readings", { type: "text/turtle", body: "<http://example.org/sensor1> <http://example.org/value> 21.5 ." })));

showQueries(serverState({ queries: [], matching: 0, total: 0, states: {} }));
listenForActions(byId("queries"), (button) => button.closest("tr").dataset.name, byId("problem"), update);
byId("before").addEventListener("click", () => move(-PART));
byId("after").addEventListener("click", () => move(PART));
byId("find").addEventListener("input", findAnew);
byId("find-state").addEventListener("change", findAnew);
byId("finder").addEventListener("submit", (event) => event.preventDefault());
poll(update, 2000);
