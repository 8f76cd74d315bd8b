// Loads, compactions and restores: how far they are, what was left out, a way to cancel.

import { call } from "../base/api.js";
import { commandBox, curl } from "../base/curl.js";
import { announce, byId, el, poll, put, setText } from "../base/dom.js";
import { ago, bytes, count, counted, duration } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";

const SHOWN = 100;
const body = byId("jobs").tBodies[0];

put(byId("first-job"), commandBox(curl("POST", "/loads", { json: { source: "products/*.nq.gz" } })));

function isOpen(job) {
  return job.state === "queued" || job.state === "running";
}

function nameOf(job) {
  const { request, kind } = job;
  if (kind === "load") return request.source;
  if (kind === "mirror") return request.compact ? "compact the mirror" : "make the mirror";
  if (kind === "rules") return `the rule set ${request.rules}`;
  return kind === "restore" ? request.folder : "compact the database files";
}

function details(job) {
  const { request } = job;
  if (job.kind === "rules") return `into ${request.into}`;
  if (job.kind !== "load") return request.automatic ? "by itself" : job.kind;
  return [request.graph ? `into ${request.graph}` : "load", request.files ? counted(request.files.length, "file") : null].filter(Boolean).join(", ");
}

/** A bar where the end is known: while files are parsed. Other stages tell their name alone. */
function progress(job) {
  const { stage, read_bytes: read, total_bytes: total } = job.progress;
  if (!isOpen(job)) return job.error ? el("span", { class: "bad" }, job.error) : "";
  if (!stage) return "waits";
  if (stage !== "parse" || !total) return [stage, el("progress", { "aria-label": stage })];
  return [stage, el("progress", { max: total, value: read, "aria-label": `${bytes(read)} of ${bytes(total)} read` }),
    el("span", { class: "sub" }, `${bytes(read)} of ${bytes(total)}`)];
}

function badLines(job) {
  const { bad_lines: bad, quarantine } = job.progress;
  return bad ? [count(bad), quarantine ? el("span", { class: "sub" }, el("code", { class: "wrap" }, quarantine)) : null] : bad === 0 ? "0" : "";
}

function row(job) {
  const cancel = job.kind === "load" && isOpen(job);
  return el("tr", { dataset: { key: job.id } },
    el("th", { scope: "row" }, nameOf(job), el("span", { class: "sub" }, details(job))),
    el("td", { "data-name": "State" }, el("span", { class: `badge badge-${job.state}` }, job.state), el("span", { class: "sub" }, ago(job.created))),
    el("td", { class: "progress", "data-name": "Progress" }, progress(job)),
    el("td", { class: "num", "data-name": "Quads" }, job.progress.rows === undefined ? "" : count(job.progress.rows)),
    el("td", { class: "num", "data-name": "Rate" }, job.progress.rate ? `${count(job.progress.rate)}/s` : ""),
    el("td", { class: "num", "data-name": "Bad lines" }, badLines(job)),
    el("td", { class: "num", "data-name": "Time" }, job.progress.seconds === undefined ? "" : duration(job.progress.seconds * 1000)),
    el("td", { class: "actions" }, cancel ? el("button", { type: "button", class: "quiet danger", needs: "write", on: { click: () => stop(job) } }, "Cancel") : null));
}

async function update() {
  try {
    const { jobs } = (await call("GET", "/jobs")).data;
    redraw(body, jobs.slice(-SHOWN).reverse().map(row));
    byId("no-jobs").hidden = jobs.length > 0;
    if (jobs.some((job) => job.kind === "mirror" && job.state === "done")) byId("mirror").dataset.made = "";
    const open = jobs.filter(isOpen).length;
    setText(byId("summary"), open === 0 ? "" : `${counted(open, "job")} at work or in line`);
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

async function showMirror() {
  const place = byId("mirror");
  if (!("made" in place.dataset)) return;
  try {
    const { data: mirror } = await call("GET", "/mirror");
    const changes = mirror.stale ? `It is stale: ${mirror.stale}.` : `${counted(mirror.changes, "quad")} changed since.`;
    setText(place, `The mirror has ${counted(mirror.quads, "quad")} at version ${count(mirror.version)}. ${changes}`);
  } catch (problem) {
    if (problem.status === 404) setText(place, "This store has no mirror for Spark.");
  }
}

async function stop(job) {
  try {
    await call("DELETE", `/jobs/${encodeURIComponent(job.id)}`);
    announce(`The load of ${nameOf(job)} is cancelled.`);
    await update();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

async function ask(path, place, json) {
  clearProblem(place);
  try {
    await call("POST", path, json === undefined ? {} : { json });
    announce("The job is in line.");
    await update();
  } catch (problem) {
    showProblem(place, problem);
  }
}

async function load(event) {
  event.preventDefault();
  const members = { source: byId("load-source").value.trim(), engine: byId("load-engine").value };
  const graph = byId("load-graph").value.trim();
  if (graph) members.graph = graph;
  if (byId("load-bad").value) members.strict = true;
  await ask("/loads", byId("load-problem"), members);
}

byId("load").addEventListener("submit", load);
byId("make").addEventListener("click", () => ask("/mirror", byId("upkeep-problem")));
byId("compact").addEventListener("click", () => ask("/mirror?compact=true", byId("upkeep-problem")));
byId("optimize").addEventListener("click", () => ask("/optimize", byId("upkeep-problem")));
poll(update, 1000);
poll(showMirror, 5000);
