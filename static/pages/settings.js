// Settings with their values and origins, and the tokens with their roles, for who has the role admin.

import { call } from "../base/api.js";
import { byId, el, setText } from "../base/dom.js";
import { counted, instant } from "../base/format.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";

const MAY = {
  read: "query; read graphs, streams and feeds",
  push: "push to streams",
  write: "read, push, and change graphs, streams and queries",
  admin: "everything",
};
let settings = [];

/** A value as the documents write it; an empty one is a dash. */
function valueNode(value) {
  const text = Array.isArray(value) ? value.join(", ") : String(value);
  return text === "" ? el("span", { class: "muted" }, "–") : el("code", { class: "wrap" }, text);
}

/** A meaning with what stands in backticks as code. */
function meaningNode(help) {
  return help.split("`").map((part, i) => (i % 2 === 1 ? el("code", {}, part) : part));
}

function settingRow({ name, value, default: usual, unit, help, origin }) {
  return el("tr", { dataset: { key: name } },
    el("th", { scope: "row" }, el("code", {}, name), el("span", { class: "sub" }, unit)),
    el("td", { class: "value", "data-name": "Value" }, valueNode(value)),
    el("td", { class: "value", "data-name": "Default" }, valueNode(usual)),
    el("td", { class: "origin", "data-name": "Set by" }, origin),
    el("td", { "data-name": "Meaning" }, meaningNode(help)));
}

function tokenRow({ hash, role, label, created }) {
  return el("tr", { dataset: { key: hash ?? label } },
    el("th", { scope: "row" }, label || el("span", { class: "muted" }, "without a label")),
    el("td", { "data-name": "Role" }, el("span", { class: "badge" }, role)),
    el("td", { "data-name": "May" }, MAY[role] ?? "nothing"),
    el("td", { "data-name": "Hash begins with" }, el("code", {}, hash ?? "–")),
    el("td", { "data-name": "Made" }, el("span", { class: "stamp" }, instant(created))));
}

function showSettings() {
  const wanted = byId("find").value.trim().toLowerCase();
  const found = settings.filter(({ name, value, default: usual, help }) => `${name} ${help}`.toLowerCase().includes(wanted)
    && !(byId("only-set").checked && JSON.stringify(value) === JSON.stringify(usual)));
  redraw(byId("settings").tBodies[0], found.map(settingRow));
  byId("no-settings").hidden = found.length > 0;
  setText(byId("found"), `${counted(found.length, "setting")} of ${settings.length}`);
}

async function begin() {
  try {
    const { tokens } = (await call("GET", "/tokens")).data;
    redraw(byId("tokens").tBodies[0], tokens.map(tokenRow));
    byId("tokens-scroll").hidden = tokens.length === 0;
    byId("no-tokens").hidden = tokens.length > 0;
    settings = (await call("GET", "/settings")).data.settings;
    showSettings();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

if (byId("finder") !== null) {
  byId("find").addEventListener("input", showSettings);
  byId("only-set").addEventListener("change", showSettings);
  byId("finder").addEventListener("submit", (event) => event.preventDefault());
  begin();
}
