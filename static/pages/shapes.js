// All shapes: mode, state, results by severity, the cost of the last check and the error.

import { call } from "../base/api.js";
import { commandBox, curl } from "../base/curl.js";
import { byId, el, poll, put, serverState, setText } from "../base/dom.js";
import { counted } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { menu, step } from "../base/menu.js";
import { redraw } from "../base/redraw.js";
import { costText, stateBadge } from "../rules/figures.js";
import { remove } from "../shapes/actions.js";
import { dataText, MODES, severitiesNode } from "../shapes/figures.js";
import { shapesPath, shapesView } from "../shapes/path.js";

const SHARE = 0.1;
const { refusal } = serverState({ refusal: null });
const body = byId("shapes").tBodies[0];
const EXAMPLE = `PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX ex: <http://example.org/>
ex:PersonShape a sh:NodeShape ; sh:targetClass ex:Person ;
  sh:property [ sh:path ex:name ; sh:minCount 1 ] .`;
let prefixes = {};

put(byId("first-shapes"), commandBox(curl("PUT", shapesPath("people", "?mode=watch"), { body: EXAMPLE, type: "text/turtle" })));

function row(shapes) {
  return el("tr", { dataset: { key: shapes.name } },
    el("th", { scope: "row" }, el("a", { href: shapesView(shapes.name) }, shapes.name), el("span", { class: "sub" }, `checks ${dataText(shapes)}`)),
    el("td", { "data-name": "State" }, stateBadge(shapes), shapes.error ? el("span", { class: "sub bad" }, shapes.error) : null),
    el("td", { "data-name": "Mode" }, shapes.mode, el("span", { class: "sub" }, MODES[shapes.mode])),
    el("td", { "data-name": "Results" }, severitiesNode(shapes, prefixes)),
    el("td", { class: "num", "data-name": "Last check" }, costText(shapes)),
    el("td", { class: "actions" }, menu(shapes.name, shapes.name, step("Delete", { needs: "write",
      "aria-label": `Delete the shapes ${shapes.name}`, on: { click: () => remove(shapes, update) } }))));
}

async function update() {
  try {
    const { data: { shapes } } = await call("GET", "/shapes");
    redraw(body, shapes.map(row));
    byId("no-shapes").hidden = shapes.length > 0;
    byId("shapes-scroll").hidden = shapes.length === 0;
    setText(byId("summary"), shapes.length === 0 ? "" : counted(shapes.length, "set of shapes", "sets of shapes"));
  } catch {
    // The header shows that the connection is lost; the next round tries again.
  }
}

setText(byId("refusal"), refusal);
byId("refusal").hidden = refusal === null;
poll(update, 1000, SHARE);
serverPrefixes().then((known) => {
  prefixes = known;
});
