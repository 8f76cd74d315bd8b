// Register a continuous query, or edit one in place: editor, options, checks while one types, preview, share.

import { call, queryPath } from "../base/api.js";
import { announce, append, byId, el, put, setText } from "../base/dom.js";
import { completion } from "../editor/completion.js";
import { Editor } from "../editor/editor.js";
import { EXAMPLES } from "../editor/examples.js";
import { staticList, windowsList } from "../query/parts.js";
import { rememberBefore } from "../query/undo.js";
import { LiveCheck } from "../editor/check.js";
import { fillForm, listenToChoices, registrationOf } from "../register/form.js";
import { showParameters } from "../register/parameters.js";
import { showPreview } from "../register/preview.js";
import { copied, linkOf, sharedRegistration } from "../register/share.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { go } from "../base/root.js";

const KEPT = "quadrill.register.text";
const BUTTONS = ["register", "validate", "preview", "replace"];
const asked = new URLSearchParams(location.search);
const edited = asked.get("edit");
const problemPlace = byId("problem");
const outcome = byId("outcome");
const registration = () => registrationOf(editor.text);
const editor = new Editor(byId("editor"), { onRun: () => validate(), onChange: changed, complete: completion(() => byId("dialect").value || null) });
const check = new LiveCheck(editor, byId("live-check"), async (signal) => {
  try {
    const { data } = await call("POST", "/queries:validate", { json: registration(), signal });
    return { faults: [], warnings: data.warnings, good: `No fault found: ${data.dialect}, ${data.output}.` };
  } catch (problem) {
    // Its static parts are read elsewhere, and tell nothing of the text.
    if (problem.name === "AbortError" || problem.members?.code === "materialising") return null;
    return { faults: problem.faults.length > 0 ? problem.faults : [problem], warnings: [], good: null };
  }
});
/** What a query that is edited was before. */
let before = null;

function changed() {
  if (edited === null) sessionStorage.setItem(KEPT, editor.text);
  showParameters(editor.text);
  clearProblem(problemPlace);
  check.soon();
}

function show(text) {
  editor.text = text;
  showParameters(text);
  clearProblem(problemPlace, editor);
  outcome.hidden = true;
  check.soon();
}

async function attempt(action) {
  check.stop();
  clearProblem(problemPlace, editor);
  put(byId("live-check"));
  outcome.hidden = true;
  byId("replace").hidden = true;
  const buttons = BUTTONS.map(byId).filter((button) => !button.disabled);
  buttons.forEach((button) => (button.disabled = true));
  try {
    await action();
  } catch (problem) {
    showProblem(problemPlace, problem, editor);
    byId("replace").hidden = problem.status !== 409 || edited !== null || !byId("name").value.trim();
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
    if (edited !== null) {
      await replace(edited);
      return;
    }
    const { status, data } = await call("POST", "/queries", { json: registration() });
    follow(data.name, status === 201 ? "is registered" : "was already registered with the same text and options");
  });
}

/** The query with the name is replaced; what it was can be put back for a minute. */
async function replace(name) {
  const old = before ?? (await call("GET", queryPath(name))).data;
  const { data } = await call("PUT", queryPath(name, "?replace=true"), { json: registration() });
  rememberBefore(name, { query: old.query, ...old.options });
  follow(data.name, "is registered anew");
}

function follow(name, happened) {
  announce(`${name} ${happened}.`);
  go(`/ui/queries/${encodeURIComponent(name)}`);
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

/** A registered query in the form: to be edited in place, or a copy of it. */
async function load(name) {
  const { data } = await call("GET", queryPath(name));
  show(data.query);
  fillForm({ query: data.query, name: edited, ...data.options });
  if (edited === null) return;
  before = data;
  byId("name").readOnly = true;
  setText(document.querySelector("h1"), `Edit ${name}`);
  setText(byId("register"), "Save");
}

async function begin() {
  append(byId("example"), EXAMPLES.map(({ title, dialect }, i) => el("option", { value: i }, `${title} (${dialect})`)));
  const named = edited ?? asked.get("from");
  const shared = sharedRegistration();
  try {
    if (named !== null) await load(named);
    else if (shared !== null) {
      show(shared.query);
      fillForm(shared);
    } else show(sessionStorage.getItem(KEPT) || EXAMPLES[0].text);
  } catch (problem) {
    show(sessionStorage.getItem(KEPT) || EXAMPLES[0].text);
    showProblem(problemPlace, problem);
  }
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  register();
});
byId("validate").addEventListener("click", validate);
byId("replace").addEventListener("click", () => attempt(() => replace(byId("name").value.trim())));
byId("preview").addEventListener("click", () => attempt(() => showPreview(outcome, registration(), byId("last").value)));
byId("share").addEventListener("click", async () => {
  const link = linkOf(registration());
  history.replaceState(null, "", link);
  announce((await copied(link)) ? "The link is on the clipboard: the whole query is in it." : "The link stands in the address bar: the whole query is in it.");
});
byId("example").addEventListener("change", (event) => {
  if (event.target.value !== "") show(EXAMPLES[Number(event.target.value)].text);
});
for (const id of ["dialect", "output", "profile"]) byId(id).addEventListener("change", () => check.soon());
listenToChoices();
begin();
