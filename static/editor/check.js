// Looks at the text while one types: the server's parser tells faults and warnings, which are marked at their place.

import { el, put } from "../base/dom.js";

const WAIT_MS = 400;

/**
 * Checks the text a while after the last `soon()`; `place` gets one sentence. `ask(signal)` gives what the server says:
 * { faults, warnings, good }, or null where it does not judge.
 */
export class LiveCheck {
  constructor(editor, place, ask) {
    Object.assign(this, { editor, place, ask, timer: null, abort: null });
  }

  /** Called at every change. */
  soon() {
    clearTimeout(this.timer);
    this.abort?.abort();
    if (this.editor.text.trim() === "") {
      put(this.place);
      return;
    }
    this.timer = setTimeout(() => this.look(), WAIT_MS);
  }

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  async look() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const { text } = this.editor;
    const found = await this.ask(signal).catch(() => null);
    if (found === null || signal.aborted) return;
    const { faults, warnings, good } = found;
    if (faults.length === 0) {
      this.show(warningsAt(warnings, text), warnings, good);
    } else {
      this.show(faults.filter(({ line }) => line).map(({ line, column, detail, message, hint }) => ({ line, column, detail: detail || message, hint })),
        faults.map((fault) => [fault.line ? `Line ${fault.line}: ` : "", fault.detail || fault.message].join("")), null);
    }
  }

  show(marks, sentences, good) {
    this.editor.mark(marks);
    put(this.place, good === null ? null : el("p", { class: "good" }, good), sentences.slice(0, 5).map((each) => el("p", { class: good === null ? "bad" : "doubt" }, each)));
  }
}

/** Warnings name what they mean, a variable or an IRI: that is where they are marked. */
function warningsAt(warnings, text) {
  return warnings.flatMap((detail) => {
    const name = /[?$][\p{L}\p{N}_]+|<[^<>\s]+>|\b[\w-]+:[\w-]+/u.exec(detail)?.[0];
    const at = name === undefined ? -1 : placeOf(name, text);
    if (at < 0) return [];
    const lines = text.slice(0, at).split("\n");
    return [{ line: lines.length, column: Array.from(lines.at(-1)).length + 1, detail, severity: "warning" }];
  });
}

function placeOf(name, text) {
  if (!name.startsWith("<")) return text.search(new RegExp(`${name.replace(/[?$]/, "\\$&")}(?![\\p{L}\\p{N}_])`, "u"));
  const whole = text.indexOf(name);
  const local = name.slice(1, -1).split(/[/#]/).at(-1);
  return whole >= 0 || local === "" ? whole : text.search(new RegExp(`(?<=:)${local.replaceAll(/[.*+?^$()[\]{}|\\]/g, "\\$&")}(?![\\p{L}\\p{N}_])`, "u"));
}
