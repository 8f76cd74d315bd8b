// "Why is there no result?": the reasons of a query's description in plain sentences, each with what mends it.

import { el, put, setText } from "../base/dom.js";
import { mendsOf } from "./mends.js";

const TITLES = {
  source: "A source refuses records or does not run",
  late: "Elements come too late",
  idle: "The stream is silent",
  watermark: "Event time does not move on",
  "window-empty": "The window holds nothing",
  "static-empty": "Static data is missing or old",
  filtered: "No row passes the patterns and filters",
  paused: "The query is paused",
  failed: "The query has failed",
  "no-element": "Nothing has come yet",
};

/** Shows the reasons in a section; `act` does what a button says, see mends.js. */
export class Reasons {
  constructor(section, act) {
    this.title = el("h2", { id: "reasons-title" });
    this.list = el("ul", { class: "reasons" });
    this.section = section;
    this.act = act;
    this.shown = new Map();
    put(section, this.title, this.list);
  }

  show(query) {
    const reasons = query.waiting_for || [];
    this.section.hidden = reasons.length === 0;
    setText(this.title, query.last_result ? "What stands in the way of further results" : "Why is there no result?");
    // What is shown stays in place while its sentence changes: somebody may be typing into its field.
    const kept = new Map();
    for (const reason of reasons) {
      const key = `${reason.reason} ${reason.stream}${[...kept.keys()].filter((each) => each.startsWith(`${reason.reason} ${reason.stream}`)).map(() => "+").join("")}`;
      const item = this.shown.get(key) || this.make(reason, query);
      setText(item.text, sentence(reason.text));
      item.now = { reason, query };
      kept.set(key, item);
    }
    const order = [...kept.values()].map((item) => item.node);
    if (order.some((node, i) => this.list.children[i] !== node) || this.list.children.length !== order.length) {
      this.list.replaceChildren(...order);
    }
    this.shown = kept;
  }

  make(reason, query) {
    const item = { text: el("p"), now: { reason, query } };
    const mends = mendsOf(reason, query, (work) => this.act(work, item.now));
    item.node = el("li", { dataset: { reason: reason.reason } },
      el("div", { class: "reason-head" }, el("span", { class: `dot dot-${reason.reason === "failed" ? "bad" : "warn"}`, "aria-hidden": "true" }),
        el("strong", {}, TITLES[reason.reason] || reason.reason)),
      item.text, mends.length > 0 ? el("div", { class: "row mends" }, mends) : null);
    return item;
  }
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
