// The editor of a text: a textarea first, which CodeMirror replaces as soon as it is there. What does not come, or
// fails, leaves the textarea, with which everything works as well.

import { el } from "../base/dom.js";
import { tokens } from "./tokens.js";

/** Makes an editor of a `<div class="editor">` that holds one textarea. */
export class Editor {
  /**
   * `onRun()` is called at Ctrl+Enter, `onChange()` at every change by typing, `complete` offers completions (completion.js).
   * `atFocus` fetches CodeMirror only when somebody begins to write.
   */
  constructor(host, { onRun = null, onChange = null, complete = null, atFocus = false } = {}) {
    this.area = host.querySelector("textarea");
    this.view = null;
    this.onRun = onRun;
    this.onChange = onChange;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !onRun) return;
      event.preventDefault();
      onRun();
    });
    const fetchCode = () => import("./code.js").then(({ CodeView }) => this.upgrade(CodeView, complete)).catch((failure) => console.info("plain editor:", failure.message));
    if (atFocus) this.area.addEventListener("focus", fetchCode, { once: true });
    else fetchCode();
  }

  /** CodeMirror takes the place of the textarea, which keeps the text for the form. */
  upgrade(CodeView, complete) {
    const { area } = this;
    const place = el("div", { class: "code" });
    const label = area.labels[0]?.textContent.trim() || "Text";
    const view = new CodeView(place, { text: area.value, label, complete, onRun: this.onRun, onChange: (text) => {
      area.value = text;
      this.changed();
    } });
    const focused = document.activeElement === area;
    area.before(place);
    area.hidden = true;
    for (const each of area.labels) each.addEventListener("click", () => view.focus());
    this.view = view;
    if (this.marks) this.mark(this.marks);
    // The place of the cursor matters only to who writes; an unread text begins at its first letter.
    if (focused) {
      view.choose(area.selectionStart, area.selectionEnd);
      view.focus();
    }
  }

  get text() {
    return this.area.value;
  }

  set text(value) {
    this.area.value = value;
    this.area.setSelectionRange(0, 0);
    this.mark([]);
    this.view?.replace(value);
  }

  changed() {
    this.mark([]);
    this.onChange?.();
  }

  focus() {
    (this.view ?? this.area).focus();
  }

  /** Mark the places of faults ({line, column, detail, hint, severity}; line and column from 1, columns in code points). */
  mark(faults) {
    this.marks = faults;
    this.area.setAttribute("aria-invalid", faults.some(({ severity }) => severity !== "warning") ? "true" : "false");
    this.view?.mark(faults.map((fault) => ({ ...this.span(fault), severity: fault.severity || "error",
      message: [fault.detail || fault.message || "", fault.hint].filter(Boolean).join("\n") })));
  }

  /** Select the place of a fault and bring it into view. */
  select(fault) {
    const { start, end } = this.span(fault);
    if (this.view) {
      this.view.choose(start, end);
    } else {
      this.area.setSelectionRange(start, end);
    }
    this.focus();
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
}
