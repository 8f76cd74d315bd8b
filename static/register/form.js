// The registration as the interface takes it, from the fields of the form and back.

import { byId } from "../base/dom.js";
import { parameterValues, showParameters } from "./parameters.js";

const CHOICES = ["dialect", "output", "bounds", "lateness", "result_iri", "profile", "window_default_graph"];
const FLAGS = ["non_empty", "strict", "strict_dataset"];

/** The registration of a text; members left empty are left out. */
export function registrationOf(text) {
  const body = { query: text };
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
  const parameters = parameterValues();
  if (Object.keys(parameters).length > 0) body.parameters = parameters;
  return body;
}

/** Digits are milliseconds, anything else is left to the server as an xsd:dateTime. */
function instantOf(text) {
  return /^-?\d+$/.test(text.trim()) ? Number(text.trim()) : text.trim();
}

/** Put a registration into the form, all but its text. */
export function fillForm({ query, name, parameters, ...options }) {
  if (name) byId("name").value = name;
  for (const id of CHOICES) if (options[id] !== undefined && options[id] !== null) byId(id).value = options[id];
  for (const id of FLAGS) byId(id).checked = options[id] === true;
  for (const id of ["t0", "memory"]) if (options[id] !== undefined) byId(id).value = options[id];
  if (options.start?.from !== undefined) byId("start").value = options.start.from;
  fillTimed("report", "periodic", options.report);
  fillTimed("refresh", "every", options.refresh);
  showParameters(query, parameters);
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

/** Show the fields that belong to a choice while it is chosen. */
export function listenToChoices() {
  for (const id of ["report", "refresh"]) byId(id).addEventListener("change", (event) => showDependent(event.target));
}
