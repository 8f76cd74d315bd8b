// The list of continuous queries, kept up to date.

import { call } from "../base/api.js";
import { fitActions, listenForActions } from "../query/actions.js";
import { drawSpark, Rates } from "../charts/lines.js";
import { byId, poll, serverState, setText } from "../base/dom.js";
import { ago, count, instant, rate } from "../base/format.js";
import { growing, staticSummary, waiting } from "../query/names.js";

const body = byId("queries").tBodies[0];
const rates = new Map();

function field(row, name) {
  return row.querySelector(`[data-field="${name}"]`);
}

function rowsOf(name) {
  const row = [...body.rows].find((candidate) => candidate.dataset.name === name);
  if (row) return [row, row.nextElementSibling];
  const copy = byId("query-row").content.cloneNode(true);
  const [fresh, message] = [...copy.querySelectorAll("tr")];
  fresh.dataset.name = name;
  field(fresh, "name").href = `/ui/queries/${encodeURIComponent(name)}`;
  body.append(fresh, message);
  return [fresh, message];
}

function showQuery(query) {
  const [row, message] = rowsOf(query.name);
  setText(field(row, "name"), query.name);
  setText(field(row, "dialect"), [query.dialect, query.output, query.engine].filter(Boolean).join(" · "));
  setText(field(row, "state"), query.state);
  field(row, "state").className = `badge badge-${query.state}`;
  const known = rates.get(query.name) || new Rates(["in", "out"], 60);
  rates.set(query.name, known);
  known.add(growing(query));
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

function showQueries(queries) {
  const names = new Set(queries.map((query) => query.name));
  for (const row of [...body.rows]) {
    if (row.dataset.name && !names.has(row.dataset.name)) {
      row.nextElementSibling.remove();
      row.remove();
    }
  }
  queries.forEach(showQuery);
  byId("no-queries").hidden = queries.length > 0;
  const states = ["running", "materialising", "paused", "failed"].map((state) => [queries.filter((query) => query.state === state).length, state]);
  setText(byId("summary"), states.filter(([many]) => many > 0).map(([many, state]) => `${many} ${state}`).join(", "));
}

async function update() {
  try {
    showQueries((await call("GET", "/queries")).data.queries);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

showQueries(serverState({ queries: [] }).queries);
listenForActions(byId("queries"), (button) => button.closest("tr").dataset.name, byId("problem"), update);
poll(update, 2000);
