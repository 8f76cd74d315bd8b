// CodeMirror as the page uses it: colours, line numbers, marks under faults, completion. It lives in a shadow root,
// where its styles are constructed style sheets, which the page's policy allows.

import { EditorState, EditorView, GutterMarker, HighlightStyle, Prec, RangeSet, StateEffect, StateField, StreamLanguage, Tag, autocompletion,
  bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection, gutterLineClass, highlightActiveLine,
  highlightSpecialChars, history, historyKeymap, keymap, lineNumbers, setDiagnostics, syntaxHighlighting } from "../vendor/codemirror/codemirror.js";
import { KINDS, tokenizer } from "./tokens.js";

const TAGS = Object.fromEntries(KINDS.map((kind) => [kind, Tag.define()]));
// Names of our own: some kinds are called like CodeMirror's built-in styles.
const styleOf = (kind) => `quadrill-${kind}`;
const LANGUAGE = StreamLanguage.define({
  ...tokenizer,
  token: (stream, state) => {
    const kind = tokenizer.token(stream, state);
    return kind === null ? null : styleOf(kind);
  },
  tokenTable: Object.fromEntries(KINDS.map((kind) => [styleOf(kind), TAGS[kind]])),
});
const COLOURS = { function: "keyword", name: "iri", tag: "string" };
const LOOKS = { keyword: { fontWeight: "600" }, stream: { fontWeight: "600" }, comment: { fontStyle: "italic" }, parameter: { color: "var(--bad)" } };
const STYLE = HighlightStyle.define(KINDS.filter((kind) => kind !== "word")
  .map((kind) => ({ tag: TAGS[kind], color: `var(--tok-${COLOURS[kind] ?? kind})`, ...LOOKS[kind] })));
const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--panel)", fontSize: "13.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 12px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "40px", padding: "0 10px 0 8px" },
  ".cm-gutterElement.wrong-line": { backgroundColor: "var(--bad)", color: "var(--panel)", fontWeight: "700" },
  ".cm-gutterElement.doubtful-line": { backgroundColor: "var(--warn-soft)", color: "var(--warn)", fontWeight: "700" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 5%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { backgroundColor: "color-mix(in srgb, var(--sun) 32%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--line-strong)" },
  ".cm-lintRange-error": { background: "var(--bad-soft)", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { background: "var(--warn-soft)", textDecoration: "underline wavy var(--warn)", textDecorationSkipInk: "none", textUnderlineOffset: "3px" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "7px", overflow: "hidden",
    boxShadow: "0 6px 24px rgb(0 0 0 / 18%)" },
  ".cm-tooltip-lint": { maxWidth: "min(520px, 86vw)" },
  ".cm-diagnostic": { padding: "8px 12px", whiteSpace: "pre-wrap", fontFamily: "var(--sans)", fontSize: "13.5px", marginLeft: "0" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "4px solid var(--warn)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxWidth: "min(620px, 90vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "1.5em" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
});

const setLines = StateEffect.define();
const marker = (name) => new (class extends GutterMarker { elementClass = name; })();
const MARKERS = { error: marker("wrong-line"), warning: marker("doubtful-line") };
const wrongLines = StateField.define({
  create: () => RangeSet.empty,
  update: (lines, transaction) => transaction.effects.reduce((kept, effect) => (effect.is(setLines) ? effect.value : kept), lines.map(transaction.changes)),
  provide: (field) => gutterLineClass.from(field),
});

/** One editor in `place`. Offsets are those of the text's code units. */
export class CodeView {
  constructor(place, { text, label, complete, onRun, onChange }) {
    const run = onRun ? [{ key: "Mod-Enter", run: () => {
      onRun();
      return true;
    } }] : [];
    this.quiet = false;
    this.view = new EditorView({
      root: place.attachShadow({ mode: "open" }),
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(keymap.of(run)), lineNumbers(), wrongLines, history(), drawSelection(), highlightSpecialChars(), highlightActiveLine(),
          bracketMatching(), closeBrackets(), LANGUAGE, syntaxHighlighting(STYLE), THEME,
          autocompletion({ override: complete ? [complete] : [], icons: false }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocapitalize: "off", autocorrect: "off" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged && !this.quiet) onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    place.shadowRoot.append(this.view.dom);
  }

  focus() {
    this.view.focus();
  }

  /** Put another text there, which can be undone; nobody is told. */
  replace(text) {
    this.quiet = true;
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
    this.quiet = false;
  }

  choose(start, end) {
    const most = this.view.state.doc.length;
    this.view.dispatch({ selection: { anchor: Math.min(start, most), head: Math.min(end, most) }, scrollIntoView: true });
  }

  /** Mark faults as {start, end, severity, message}: a wave under the place, the line's number, the message on hover. */
  mark(faults) {
    const { state } = this.view;
    const inside = (at) => Math.min(Math.max(at, 0), state.doc.length);
    const lines = new Map();
    for (const { start, severity } of faults) {
      const { from } = state.doc.lineAt(inside(start));
      if (lines.get(from) !== "error") lines.set(from, severity);
    }
    const ranges = [...lines].sort(([a], [b]) => a - b).map(([from, severity]) => MARKERS[severity].range(from));
    this.view.dispatch(setDiagnostics(state, faults.map(({ start, end, severity, message }) => ({ from: inside(start), to: inside(end), severity, message }))));
    this.view.dispatch({ effects: setLines.of(RangeSet.of(ranges)) });
  }
}
