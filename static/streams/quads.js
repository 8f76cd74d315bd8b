// Quads of N-Quads as elements: terms short to read, complete in the tooltip.

import { el } from "../base/dom.js";
import { termNode } from "../base/terms.js";

const TERM = /<([^<>"{}|^`\\\s]*)>|_:(\S+)|"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^<>"{}|^`\\\s]*)>)?/y;
const ESCAPES = { t: "\t", n: "\n", r: "\r", b: "\b", f: "\f" };

function unescaped(text) {
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/g, (_, four, eight, one) =>
    (one === undefined ? String.fromCodePoint(parseInt(four ?? eight, 16)) : ESCAPES[one] ?? one));
}

/** The terms of one line as SPARQL Results JSON has them; null where it is more than plain terms. */
export function termsOf(line) {
  const terms = [];
  let place = 0;
  while (line[place] !== ".") {
    TERM.lastIndex = place;
    const match = TERM.exec(line);
    if (match === null) return null;
    const [all, iri, bnode, literal, language, datatype] = match;
    if (iri !== undefined) terms.push({ type: "uri", value: iri });
    else if (bnode !== undefined) terms.push({ type: "bnode", value: bnode });
    else terms.push({ type: "literal", value: unescaped(literal), ...(language && { "xml:lang": language }), ...(datatype && { datatype }) });
    place += all.length;
    while (line[place] === " ") place += 1;
  }
  return terms.length === 3 || terms.length === 4 ? terms : null;
}

/** Quads, a line each: subject, predicate, object, and the graph in brackets. */
export function quadsNode(text, prefixes, most = 5) {
  const lines = text.split("\n").filter((line) => line !== "");
  const shown = (line) => {
    const terms = termsOf(line);
    if (terms === null) return el("div", { class: "quad" }, line);
    const [subject, predicate, object, graph] = terms.map((term) => termNode(term, prefixes));
    return el("div", { class: "quad" }, subject, " ", predicate, " ", object, graph ? [" in ", graph] : null);
  };
  if (lines.length <= most) return el("div", { class: "quads" }, lines.map(shown));
  return el("div", { class: "quads" }, lines.slice(0, most).map(shown),
    el("details", {}, el("summary", {}, `${lines.length - most} more`), lines.slice(most).map(shown)));
}
