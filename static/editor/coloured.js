// Query texts to read, coloured.

import { el } from "../base/dom.js";
import { tokens } from "./tokens.js";

/** A query text, coloured. */
export function coloured(text) {
  return el("code", {}, tokens(text).map((token) => (token.kind ? el("span", { class: `tok-${token.kind}` }, token.text) : token.text)));
}

/** A query text, coloured, in a box of its own, to read only. */
export function codeBlock(text) {
  return el("pre", { class: "listing", tabindex: "0" }, coloured(text));
}
