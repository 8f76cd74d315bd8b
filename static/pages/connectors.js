// Sources and sinks: what comes in and goes out by other means than requests.

import { act } from "../base/act.js";
import { call } from "../base/api.js";
import { confirmed } from "../base/ask.js";
import { commandBox, curl } from "../base/curl.js";
import { byId, el, poll, put, setText } from "../base/dom.js";
import { count, counted, instant } from "../base/format.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { Form } from "../connectors/form.js";
import { showList } from "../connectors/list.js";

const form = new Form(update);
const MOST_NAMES = 200;
const FORMATS = ["application/json", "application/x-ndjson", "text/csv", "text/turtle", "application/trig", "application/n-triples", "application/n-quads", "application/ld+json"];
let opened = null;

const path = (which, name, rest = "") => `/${which}/${encodeURIComponent(name)}${rest}`;

const on = {
  start: (which, each) => act(() => call("POST", path(which, each.name, ":start")), `${each.name} is started.`, update),
  stop: (which, each) => act(() => call("POST", path(which, each.name, ":stop")), `${each.name} is stopped.`, update),
  edit: (which, each) => form.edit(which, each),
  async drop(which, each) {
    if (!(await confirmed(`Delete ${each.name}?`, "Its declaration, its position and its dead letters are deleted.", "Delete"))) return;
    if (opened?.name === each.name) close();
    act(() => call("DELETE", path(which, each.name)), `${each.name} is deleted.`, update);
  },
  letters(which, each) {
    opened = { which, name: each.name };
    byId("letters-panel").hidden = false;
    byId("letters-close").focus();
    showLetters().catch((problem) => showProblem(byId("problem"), problem));
  },
};

async function showLetters() {
  if (opened === null) return;
  const { letters } = (await call("GET", path(opened.which, opened.name, "/dead-letters"))).data;
  setText(byId("letters-title"), `Dead letters of ${opened.name}`);
  setText(byId("letters-note"), letters.length === 0 ? "None." : `${counted(letters.length, "letter")}, the newest first${letters.length > 100 ? "; 100 are shown" : ""}.`);
  byId("letters-scroll").hidden = letters.length === 0;
  byId("letters-drop").hidden = letters.length === 0;
  redraw(byId("letters").tBodies[0], letters.slice(-100).reverse().map((each) => el("tr", {},
    el("td", { "data-name": "When" }, el("span", { class: "stamp" }, instant(each.at))), el("td", { "data-name": "Record" }, el("pre", { class: "record wrap" }, each.record)),
    el("td", { class: "bad", "data-name": "Why" }, each.error))));
}

function close() {
  opened = null;
  byId("letters-panel").hidden = true;
}

async function update() {
  try {
    const [{ data: { sources } }, { data: { sinks } }] = await Promise.all([call("GET", "/sources"), call("GET", "/sinks")]);
    showList("sources", sources, on);
    showList("sinks", sinks, on);
    const running = [...sources, ...sinks].filter(({ state }) => state === "running").length;
    setText(byId("summary"), sources.length + sinks.length === 0 ? "" : `${count(running)} of ${count(sources.length + sinks.length)} running`);
    await showLetters();
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

/** Names to choose from while a declaration is written; read again when somebody enters the form. */
async function showNames() {
  const [{ data: { streams } }, { data: { queries } }] = await Promise.all([call("GET", "/streams"), call("GET", `/queries?limit=${MOST_NAMES}`)]);
  redraw(byId("streams"), streams.slice(0, MOST_NAMES).map(({ iri, name }) => el("option", { value: iri }, name)));
  redraw(byId("queries"), queries.map(({ name, state }) => el("option", { value: name }, state)));
}

put(byId("first-sources"), commandBox(curl("PUT", "/sources/hook", { json: { kind: "webhook", stream: "http://example.org/readings", format: "application/n-triples" } })));
put(byId("first-sinks"), commandBox(curl("PUT", "/sinks/pager", { json: { kind: "webhook", query: "in-rooms", url: "http://127.0.0.1:9000/alerts" } })));
byId("letters-close").addEventListener("click", close);
byId("letters-panel").addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});
byId("letters-drop").addEventListener("click", async () => {
  const { which, name } = opened;
  if (await confirmed(`Drop the dead letters of ${name}?`, "They are deleted, and cannot be looked at again.", "Drop")) {
    act(() => call("DELETE", path(which, name, "/dead-letters")), ({ dropped }) => `${counted(dropped, "dead letter")} dropped.`, update);
  }
});
byId("declare").addEventListener("focusin", ({ target }) => target.list && showNames().catch(() => null));
put(byId("formats"), FORMATS.map((type) => el("option", { value: type })));
form.load().then(showNames).catch((problem) => showProblem(byId("declare-problem"), problem));
poll(update, 2000);
