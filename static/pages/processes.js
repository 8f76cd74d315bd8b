// Running queries and updates, with a way to stop each.

import { call } from "../base/api.js";
import { announce, byId, el, poll, put, setText } from "../base/dom.js";
import { counted, duration } from "../base/format.js";
import { showProblem } from "../base/problem.js";

const body = byId("processes").tBodies[0];

function row(process) {
  return el("tr", {},
    el("th", { scope: "row" }, process.id),
    el("td", {}, process.kind, el("span", { class: "sub" }, [process.lane, process.user].filter(Boolean).join(", "))),
    el("td", {}, duration(process.seconds * 1000), process.stopping ? el("span", { class: "sub" }, "stopping") : null),
    el("td", {}, el("code", { class: "wrap" }, process.text.slice(0, 600))),
    el("td", { class: "actions" }, el("button", { type: "button", class: "quiet danger", on: { click: () => stop(process.id) } }, "Stop")));
}

async function update() {
  try {
    const { data } = await call("GET", "/processes");
    const { processes } = data;
    if (!body.contains(document.activeElement)) put(body, processes.map(row));
    byId("no-processes").hidden = processes.length > 0;
    setText(byId("summary"), processes.length === 0 ? "" : `${counted(processes.length, "query", "queries")} running`);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

async function stop(id) {
  try {
    await call("DELETE", `/processes/${encodeURIComponent(id)}`);
    announce(`${id} is stopped.`);
    document.activeElement.blur();
    await update();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

poll(update, 1000);
