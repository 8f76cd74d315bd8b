// The tables of sources and sinks: state, rate, position, the newest error; start, stop, edit, delete.

import { breakable, byId, el } from "../base/dom.js";
import { ago, count, rate } from "../base/format.js";
import { menu, step } from "../base/menu.js";
import { redraw } from "../base/redraw.js";
import { at } from "../base/root.js";
import { streamView } from "../streams/path.js";

const BADGES = { running: "running", starting: "idle", waiting: "idle", failed: "failed", stopped: "" };

function where(each) {
  const place = each.url ?? each.path ?? (each.stream ? at(`/sources/${each.name}`) : null);
  return [each.kind, [each.topic].flat().filter(Boolean).join(", "), place].filter(Boolean).join(" · ");
}

function carries(each) {
  return each.stream ? el("a", { href: streamView(each.stream) }, breakable(each.stream))
    : el("a", { href: `/ui/queries/${encodeURIComponent(each.query)}` }, each.query);
}

/** Rows of a table; `on` has what the buttons do: start, stop, edit, drop, letters. */
export function showList(which, all, on) {
  const body = byId(which).tBodies[0];
  byId(`${which}-scroll`).hidden = all.length === 0;
  byId(`no-${which}`).hidden = all.length > 0;
  redraw(body, all.map((each) => rows(which, each, on)));
}

function rows(which, each, on) {
  const running = each.state !== "stopped" && each.state !== "failed";
  const button = (action, label, needs = "admin") => el("button", { type: "button", class: "quiet", dataset: { action }, needs, "aria-label": `${label}: ${each.name}`,
    on: { click: () => on[action](which, each) } }, label);
  const degraded = each.health === "degraded" && each.state === "running";
  const position = each.position === null || each.position === undefined ? "–" : String(each.position);
  return [el("tr", { dataset: { name: each.name, key: each.name } },
    el("th", { scope: "row" }, each.name, el("span", { class: "sub" }, where(each))),
    el("td", { "data-name": which === "sources" ? "Brings" : "Takes" }, carries(each)),
    el("td", { "data-name": "State" }, el("span", { class: `badge badge-${degraded ? "degraded" : BADGES[each.state]}`, dataset: { field: "state" } }, each.state),
      degraded ? el("span", { class: "sub short", dataset: { field: "health" } }, "degraded") : null, el("span", { class: "sub short" }, each.last ? ago(each.last) : "nothing yet")),
    el("td", { class: "num", "data-name": "/s" }, rate(each.rate)),
    el("td", { class: "num", "data-name": "Taken" }, count(each.taken), each.skipped ? el("span", { class: "sub" }, `${count(each.skipped)} empty`) : null),
    el("td", { class: "num", "data-name": "Refused" }, each.refused ? el("button", { type: "button", class: "link", on: { click: () => on.letters(which, each) } }, count(each.refused)) : "0"),
    el("td", { class: "num", "data-name": "Lag" }, each.lag === null ? "–" : count(each.lag)),
    el("td", { "data-name": "Position" }, el("code", { class: "wrap position", title: position }, position.length > 60 ? `${position.slice(0, 60)}…` : position)),
    el("td", { class: "actions" }, running ? button("stop", "Stop") : button("start", "Start"), button("edit", "Edit"),
      button("letters", "Dead letters", "read"),
      menu(`${which}-${each.name}`, each.name, step("Delete", { dataset: { action: "drop" }, needs: "admin", on: { click: () => on.drop(which, each) } })))),
  each.error ? el("tr", { class: "message", dataset: { key: `${each.name}/error`, kind: each.state === "failed" ? "error" : "waiting" } },
    el("td", { colspan: 9 }, el("span", { class: "message-kind" }, each.state === "failed" ? "Failed: " : "Newest error: "), each.error)) : null,
  each.health === "degraded" && each.last_refusal ? el("tr", { class: "message", dataset: { key: `${each.name}/refusal`, kind: "waiting" } },
    el("td", { colspan: 9 }, el("span", { class: "message-kind" }, `Refused ${ago(each.last_refusal.at)}: `), each.last_refusal.error)) : null].filter(Boolean);
}
