// Dead letters of a stream: what did not get where it should, by reason, to be tried again or dropped.

import { act } from "../base/act.js";
import { call } from "../base/api.js";
import { confirmed } from "../base/ask.js";
import { byId, el } from "../base/dom.js";
import { count, counted, instant } from "../base/format.js";
import { redraw } from "../base/redraw.js";
import { streamPath } from "./path.js";
import { quadsNode } from "./quads.js";

const SHOWN = 25;
const REASONS = {
  late: ["Late", "Behind the watermark. Tried again, an element enters after all and corrects windows that still hold its time."],
  early: ["Early", "Ahead of the clock, so it was refused. Tried again, its time is checked again."],
  failed: ["A query failed", "The element is in the stream. Tried again, its query begins anew from the element's time on."],
  budget: ["A query cost too much", "The element is in the stream. Tried again, its query begins anew from the element's time on."],
  shape: ["Does not conform to the shapes", "The element would add a violation to the data. Tried again, it is validated again."],
  unreadable: ["Unreadable", "The mapping could not read the record, or the stream refused its time as late. Tried again, it is read by the mapping of now."],
};

/** Keeps `#letters` as the stream has them; `then` follows what was done to some. */
export class Letters {
  constructor(stream, prefixes, then) {
    this.name = stream.name;
    this.prefixes = prefixes;
    this.then = then;
    this.shown = "";
  }

  async update() {
    const place = byId("letters");
    const { text, data } = await call("GET", streamPath(this.name, "/dead-letters"));
    if (text === this.shown) return;
    this.shown = text;
    byId("no-letters").hidden = data.letters.length > 0;
    redraw(place, Object.keys(REASONS).map((reason) => this.group(reason, data.letters.filter((each) => each.reason === reason))));
  }

  group(reason, letters) {
    if (letters.length === 0) return null;
    const [title, meaning] = REASONS[reason];
    const newest = letters.slice(-SHOWN).reverse();
    // What has entered all the same cannot enter again.
    const again = letters.some((each) => !(each.reason === "late" && each.entered));
    return el("section", { class: "letters", "aria-label": title, dataset: { reason, key: reason } },
      el("div", { class: "panel-head" }, el("h3", {}, `${title} (${count(letters.length)})`),
        el("span", { class: "actions" }, again ? this.button("Retry all", "retry", { reason }, `all ${reason} letters`) : null,
          this.button("Drop all", "drop", { reason }, `all ${reason} letters`, letters.length))),
      el("p", { class: "muted" }, meaning),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${title}` },
        el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["Event time (UTC)", "What", "Why", ""].map((head) =>
          el("th", { scope: "col" }, head || el("span", { class: "visually-hidden" }, "Actions"))))),
        el("tbody", {}, newest.map((letter) => this.row(letter))))),
      letters.length > SHOWN ? el("p", { class: "muted" }, `The newest ${SHOWN} of ${count(letters.length)} are shown.`) : null);
  }

  row(letter) {
    const what = letter.record === undefined ? quadsNode(letter.quads, this.prefixes, 3) : el("pre", { class: "record wrap" }, letter.record);
    return el("tr", { dataset: { letter: letter.id, key: letter.id } },
      el("td", {}, el("span", { class: "stamp" }, instant(letter.at)), letter.seq === null ? null : el("span", { class: "sub" }, `sequence ${letter.seq}`)),
      el("td", {}, what), el("td", {}, this.why(letter)),
      el("td", { class: "actions" }, letter.reason === "late" && letter.entered ? null : this.button("Retry", "retry", { id: letter.id }, `letter ${letter.id}`),
        this.button("Drop", "drop", { id: letter.id }, `letter ${letter.id}`)));
  }

  why(letter) {
    const query = letter.query === null ? null
      : [el("a", { href: `/ui/queries/${encodeURIComponent(letter.query)}` }, letter.query), letter.error ? ": " : null];
    if (letter.reason === "late") return letter.entered ? "behind the watermark, admitted" : "behind the watermark";
    return el("span", { class: "bad" }, query, letter.error || "");
  }

  button(label, action, choice, what, many = 1) {
    const click = async () => {
      const question = [`Drop ${counted(many, "dead letter")}?`, "They are deleted, and cannot be tried again.", "Drop"];
      if (many > 1 && !(await confirmed(...question))) return null;
      const step = action === "retry" ? () => call("POST", streamPath(this.name, "/dead-letters:retry", choice))
        : () => call("DELETE", streamPath(this.name, "/dead-letters", choice));
      return act(step, (answer) => told(action, answer), this.then);
    };
    return el("button", { type: "button", class: action === "drop" ? "quiet danger" : "quiet", needs: action === "drop" ? "write" : "push", "aria-label": `${label}: ${what}`, on: { click } }, label);
  }
}

function told(action, answer) {
  if (action === "drop") return `${counted(answer.dropped, "dead letter")} dropped.`;
  if (answer.id !== undefined) return `Tried again: ${answer.query ?? `element ${answer.seq ?? ""}`}.`;
  const first = answer.errors.length > 0 ? `: ${answer.errors[0].error}` : "";
  return `${counted(answer.retried, "letter")} tried again${answer.failed ? `, ${count(answer.failed)} not${first}` : ""}.`;
}
