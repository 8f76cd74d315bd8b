// The newest elements of a stream, as they come.

import { call } from "../base/api.js";
import { byId, el, setText } from "../base/dom.js";
import { count, counted, instant } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { streamPath } from "./path.js";
import { quadsNode } from "./quads.js";

const SHOWN = 20;

/** Keeps `#tail` as the stream is, but while it is held. */
export class Tail {
  constructor(name, prefixes) {
    this.name = name;
    this.prefixes = prefixes;
    this.newest = undefined;
    this.body = byId("tail").tBodies[0];
    byId("hold").addEventListener("click", (event) => {
      this.held = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", String(this.held));
      setText(event.currentTarget, this.held ? "Go on" : "Hold");
    });
  }

  async update() {
    if (this.held) return;
    const { elements } = (await call("GET", streamPath(this.name, "/elements", { limit: SHOWN }))).data;
    const newest = elements.length === 0 ? null : elements[0].seq;
    if (newest === this.newest) return;
    this.newest = newest;
    redraw(this.body, elements.map((each) => this.row(each)));
    byId("tail-scroll").hidden = elements.length === 0;
    byId("no-elements").hidden = elements.length > 0;
  }

  row({ seq, at, size, quads }) {
    const shown = quads.split("\n").length - 1;
    return el("tr", { dataset: { key: seq } },
      el("td", { class: "rownum" }, seq),
      el("td", { "data-name": "Event time" }, el("span", { class: "stamp", title: `${at} ms` }, instant(at))),
      el("td", { "data-name": "Quads" }, quadsNode(quads, this.prefixes), shown < size ? el("span", { class: "sub" }, `${count(shown)} of ${counted(size, "quad")}`) : null));
  }
}
