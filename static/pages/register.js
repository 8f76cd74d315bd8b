// Register a continuous query: editor, options, validation, and errors at their place.

import { call, queryPath } from "../base/api.js";
import { announce, append, byId, el, put } from "../base/dom.js";
import { Editor } from "../editor/editor.js";
import { EXAMPLES } from "../editor/examples.js";
import { staticList, windowsList } from "../query/parts.js";
import { clearProblem, showProblem } from "../base/problem.js";

const CHOICES = ["dialect", "output", "bounds", "lateness", "result_iri", "profile", "window_default_graph"];
const FLAGS = ["non_empty", "strict", "strict_dataset"];
const KEPT = "quadrill.register.text";
const problemPlace = byId("problem");
const outcome = byId("outcome");
const editor = new Editor(byId("editor"), { onRun: () => validate(), onChange: () => sessionStorage.setItem(KEPT, editor.text) });

/** The registration as the interface takes it; members left empty are left out. */
function registration() {
  const body = { query: editor.text };
  for (const id of ["name", ...CHOICES]) {
    const value = byId(id).value.trim();
    if (value) body[id] = value;
  }
  const report = byId("report").value;
  if (report === "periodic") body.report = { periodic: byId("report-every").value.trim() };
  else if (report) body.report = report;
  const refresh = byId("refresh").value;
  if (refresh === "every") body.refresh = { every: byId("refresh-every").value.trim() };
  else if (refresh) body.refresh = refresh;
  if (byId("t0").value.trim()) body.t0 = instantOf(byId("t0").value);
  if (byId("start").value.trim()) body.start = { from: instantOf(byId("start").value) };
  if (byId("memory").value) body.memory = Number(byId("memory").value);
  for (const id of FLAGS) if (byId(id).checked) body[id] = true;
  const parameters = parametersOf(byId("parameters").value);
  if (Object.keys(parameters).length > 0) body.parameters = parameters;
  return body;
}

/** Digits are milliseconds, anything else is left to the server as an xsd:dateTime. */
function instantOf(text) {
  return /^-?\d+$/.test(text.trim()) ? Number(text.trim()) : text.trim();
}

function parametersOf(text) {
  const parameters = {};
  for (const line of text.split("\n")) {
    const [name, ...value] = line.split("=");
    if (name.trim() && value.length > 0) parameters[name.trim()] = value.join("=").trim();
  }
  return parameters;
}

async function attempt(action) {
  clearProblem(problemPlace, editor);
  outcome.hidden = true;
  byId("replace").hidden = true;
  const buttons = [byId("register"), byId("validate"), byId("replace")];
  buttons.forEach((button) => (button.disabled = true));
  try {
    await action();
  } catch (problem) {
    showProblem(problemPlace, problem, editor);
    byId("replace").hidden = problem.status !== 409 || !byId("name").value.trim();
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

function validate() {
  return attempt(async () => {
    const { data } = await call("POST", "/queries:validate", { json: registration() });
    showValid(data);
  });
}

function register() {
  return attempt(async () => {
    const { status, data } = await call("POST", "/queries", { json: registration() });
    follow(data.name, status === 201 ? "is registered" : "was already registered with the same text and options");
  });
}

function replace() {
  return attempt(async () => {
    const name = byId("name").value.trim();
    const { data } = await call("PUT", queryPath(name, "?replace=true"), { json: registration() });
    follow(data.name, "is registered anew");
  });
}

function follow(name, happened) {
  announce(`${name} ${happened}.`);
  location.assign(`/ui/queries/${encodeURIComponent(name)}`);
}

function showValid(answer) {
  outcome.hidden = false;
  put(outcome,
    el("p", { class: "notice notice-good" }, "The query is right. Nothing is registered yet."),
    answer.warnings.map((warning) => el("p", { class: "notice" }, warning)),
    el("p", { class: "chips" }, [answer.dialect, answer.profile === answer.dialect ? null : answer.profile, answer.output].filter(Boolean)
      .map((chip) => el("span", { class: "chip" }, chip))),
    el("h2", {}, "Windows and streams"), el("div", {}, windowsList(answer)),
    el("h2", {}, "Static parts"), el("div", {}, staticList(answer)),
    el("h2", {}, "Plan"), el("pre", { class: "listing", tabindex: "0" }, answer.plan));
  outcome.scrollIntoView({ block: "nearest" });
}

/** Put the options of a registered query into the form. */
function fillOptions(options) {
  for (const id of CHOICES) if (options[id] !== undefined) byId(id).value = options[id];
  for (const id of FLAGS) byId(id).checked = options[id] === true;
  for (const id of ["t0", "memory"]) if (options[id] !== undefined) byId(id).value = options[id];
  if (options.start) byId("start").value = options.start.from;
  fillTimed("report", "periodic", options.report);
  fillTimed("refresh", "every", options.refresh);
  byId("parameters").value = Object.entries(options.parameters || {}).map(([name, value]) => `${name} = ${value}`).join("\n");
}

/** A choice that is a word, or a period under a member of its own; periods are milliseconds. */
function fillTimed(id, member, value) {
  if (value === undefined) return;
  const timed = typeof value === "object";
  byId(id).value = timed ? member : value;
  if (timed) byId(`${id}-every`).value = value[member];
  showDependent(byId(id));
}

function showDependent(select) {
  const label = document.querySelector(`[data-for="${select.id === "report" ? "periodic" : "every"}"]`);
  label.hidden = !["periodic", "every"].includes(select.value);
}

async function begin() {
  append(byId("example"), EXAMPLES.map(({ title }, i) => el("option", { value: i }, title)));
  const copied = new URLSearchParams(location.search).get("from");
  if (copied) {
    try {
      const { data } = await call("GET", queryPath(copied));
      editor.text = data.query;
      fillOptions({ dialect: data.dialect, ...data.options });
      return;
    } catch (problem) {
      showProblem(problemPlace, problem);
    }
  }
  editor.text = sessionStorage.getItem(KEPT) || EXAMPLES[0].text;
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  register();
});
byId("validate").addEventListener("click", validate);
byId("replace").addEventListener("click", replace);
byId("example").addEventListener("change", (event) => {
  if (event.target.value === "") return;
  editor.text = EXAMPLES[Number(event.target.value)].text;
  clearProblem(problemPlace, editor);
  outcome.hidden = true;
});
for (const id of ["report", "refresh"]) byId(id).addEventListener("change", (event) => showDependent(event.target));
begin();
