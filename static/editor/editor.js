// The query editor: a textarea, which keeps every habit of the keyboard and of screen readers, with a coloured
// copy of its text painted underneath, line numbers, and marks under the places of errors.

import { el, put } from "../base/dom.js";
import { tokens } from "./tokens.js";

/** Makes an editor of a `<div class="editor">` that holds one textarea. */
export class Editor {
  constructor(host, { onRun = null } = {}) {
    this.area = host.querySelector("textarea");
    this.gutter = el("div", { class: "gutter", "aria-hidden": "true" });
    this.paint = el("pre", { class: "paint", "aria-hidden": "true" });
    const code = el("div", { class: "code" });
    this.area.replaceWith(code);
    code.append(this.paint, this.area);
    host.prepend(this.gutter);
    this.marks = [];
    this.area.addEventListener("input", () => {
      this.marks = [];
      this.draw();
    });
    this.area.addEventListener("scroll", () => this.follow());
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && onRun) {
        event.preventDefault();
        onRun();
      }
    });
    new ResizeObserver(() => this.follow()).observe(this.area);
    this.draw();
  }

  get text() {
    return this.area.value;
  }

  set text(value) {
    this.area.value = value;
    this.marks = [];
    this.draw();
    this.area.scrollTop = 0;
    this.area.scrollLeft = 0;
    this.follow();
  }

  /** Mark the places of faults ({line, column}, both from 1, columns in code points). */
  mark(faults) {
    this.marks = faults.map((fault) => ({ ...this.span(fault), line: fault.line, detail: fault.detail || fault.message || "" }));
    this.draw();
  }

  /** Select the place of a fault and bring it into view. */
  select(fault) {
    const { start, end } = this.span(fault);
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(start, end);
    const lineHeight = this.paint.scrollHeight / Math.max(1, this.text.split("\n").length);
    const top = (fault.line - 1) * lineHeight;
    if (top < this.area.scrollTop || top > this.area.scrollTop + this.area.clientHeight - 2 * lineHeight) {
      this.area.scrollTop = Math.max(0, top - this.area.clientHeight / 3);
    }
    this.area.scrollIntoView({ block: "nearest" });
    this.follow();
  }

  /** From line and column to offsets in the text: the token that begins there, or one character. */
  span({ line, column }) {
    const lines = this.text.split("\n");
    const index = Math.min(Math.max(line, 1), lines.length) - 1;
    const before = lines.slice(0, index).reduce((sum, text) => sum + text.length + 1, 0);
    const inLine = Array.from(lines[index]).slice(0, Math.max(0, (column || 1) - 1)).join("").length;
    const start = before + inLine;
    const piece = tokens(this.text).find((token) => token.start <= start && start < token.start + token.text.length);
    if (piece && piece.kind !== "") return { start, end: Math.min(piece.start + piece.text.length, before + lines[index].length) };
    return { start, end: Math.min(this.text.length, start + 1) };
  }

  draw() {
    const cuts = this.marks.flatMap(({ start, end }) => [start, end]);
    const children = [];
    for (const token of tokens(this.text)) {
      const inside = cuts.filter((cut) => cut > token.start && cut < token.start + token.text.length);
      const edges = [token.start, ...inside.sort((a, b) => a - b), token.start + token.text.length];
      for (let i = 0; i + 1 < edges.length; i += 1) {
        const text = this.text.slice(edges[i], edges[i + 1]);
        const wrong = this.marks.some(({ start, end }) => start <= edges[i] && edges[i] < end);
        const kinds = [token.kind && `tok-${token.kind}`, wrong && "wrong"].filter(Boolean).join(" ");
        children.push(kinds ? el("span", { class: kinds }, text) : text);
      }
    }
    // A mark at the very end of the text has no character of its own to stand under.
    if (this.marks.some(({ start }) => start >= this.text.length)) children.push(el("span", { class: "wrong" }, " "));
    put(this.paint, children, "\n");
    const wrongLines = new Map(this.marks.map(({ line, detail }) => [line, detail]));
    put(this.gutter, el("div", { class: "numbers" }, this.text.split("\n").map((_, i) =>
      el("span", { class: wrongLines.has(i + 1) ? "wrong-line" : null, title: wrongLines.get(i + 1) }, i + 1))));
    this.area.setAttribute("aria-invalid", this.marks.length > 0 ? "true" : "false");
    this.follow();
  }

  follow() {
    this.paint.style.transform = `translate(${-this.area.scrollLeft}px, ${-this.area.scrollTop}px)`;
    this.gutter.firstChild?.style.setProperty("transform", `translateY(${-this.area.scrollTop}px)`);
  }
}

/** A query text, coloured. */
export function coloured(text) {
  return el("code", {}, tokens(text).map((token) => (token.kind ? el("span", { class: `tok-${token.kind}` }, token.text) : token.text)));
}

/** A query text, coloured, in a box of its own, to read only. */
export function codeBlock(text) {
  return el("pre", { class: "listing", tabindex: "0" }, coloured(text));
}
