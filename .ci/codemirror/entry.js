// What the page uses of CodeMirror 6: `make vendor` bundles it into static/vendor/codemirror/codemirror.js.

export { EditorState, Prec, RangeSet, StateEffect, StateField } from "@codemirror/state";
export { EditorView, GutterMarker, drawSelection, gutterLineClass, highlightActiveLine, highlightSpecialChars, keymap,
  lineNumbers } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
export { setDiagnostics } from "@codemirror/lint";
export { Tag } from "@lezer/highlight";
