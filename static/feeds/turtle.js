// Quads as people read them: N-Quads in, Turtle-like text out, with prefixes, grouped by graph and subject.

import { el } from "../base/dom.js";
import { shortIri, shortText, termText } from "../base/terms.js";

const TOKEN = /<<\(|\)>>|<[^>]*>|_:[^\s<"]*[^\s<".]|"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^>]*)>)?|\./g;
const TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const ESCAPES = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** The quads of N-Quads text as lists of three or four terms of SPARQL Results JSON. */
export function quadsOf(text) {
  return text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")).map((line) => {
    const tokens = [...line.matchAll(TOKEN)];
    const terms = [];
    while (tokens.length > 0 && tokens[0][0] !== ".") terms.push(termOf(tokens));
    return terms;
  }).filter((terms) => terms.length >= 3);
}

function termOf(tokens) {
  const [whole, literal, language, datatype] = tokens.shift();
  if (whole === "<<(") {
    const [subject, predicate, object] = [termOf(tokens), termOf(tokens), termOf(tokens)];
    tokens.shift();
    return { type: "triple", value: { subject, predicate, object } };
  }
  if (whole.startsWith("<")) return { type: "uri", value: unescaped(whole.slice(1, -1)) };
  if (whole.startsWith("_:")) return { type: "bnode", value: whole.slice(2) };
  return { type: "literal", value: unescaped(literal ?? ""), ...(language ? { "xml:lang": language } : {}), ...(datatype ? { datatype } : {}) };
}

/** A text without the escapes of N-Triples and Turtle. */
export function unescaped(text) {
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/g, (_, short, long, letter) =>
    (letter === undefined ? String.fromCodePoint(parseInt(short ?? long, 16)) : ESCAPES[letter] ?? letter));
}

/** Quads as an element; with `heading` the prefixes that are used stand before them. */
export function quadsNode(text, prefixes, heading = false) {
  const quads = quadsOf(text);
  if (quads.length === 0) return el("span", { class: "muted" }, "No triples.");
  const graphs = Map.groupBy(quads, ([, , , graph]) => (graph ? termText(graph) : ""));
  const used = new Set();
  const lines = [...graphs.values()].flatMap((inside) => graphLines(inside, prefixes, used));
  const declared = heading ? [...used].sort().map((prefix) => el("span", { class: "muted" }, `PREFIX ${prefix}: <${prefixes[prefix]}>\n`)) : [];
  return el("code", { class: "wrap turtle" }, declared, declared.length > 0 ? "\n" : null, lines);
}

function graphLines(quads, prefixes, used) {
  const [, , , graph] = quads[0];
  const indent = graph ? "  " : "";
  const subjects = [...Map.groupBy(quads, ([subject]) => termText(subject)).values()];
  const blocks = subjects.map((same, i) => [indent, shown(same[0][0], prefixes, used), same.length > 1 ? `\n${indent}  ` : " ",
    same.map(([, predicate, object], k) => [k > 0 ? ` ;\n${indent}  ` : null,
      predicate.value === TYPE ? el("span", { class: "term iri", title: termText(predicate) }, "a") : shown(predicate, prefixes, used), " ", shown(object, prefixes, used)]),
    i < subjects.length - 1 || graph ? " .\n" : " ."]);
  return graph ? ["GRAPH ", shown(graph, prefixes, used), " {\n", blocks, "}\n"] : blocks;
}

function shown(term, prefixes, used) {
  for (const iri of [term.type === "uri" ? term.value : null, term.datatype ?? null]) {
    const short = iri === null ? null : shortIri(iri, prefixes);
    if (short !== null && (iri === term.value || shortText(term, prefixes).includes("^^"))) used.add(short.slice(0, short.indexOf(":")));
  }
  const kind = term.type === "uri" ? "iri" : term.type === "bnode" ? "bnode" : term.type === "triple" ? "triple" : "literal";
  const text = shortText(term, prefixes, true);
  return el("span", { class: `term ${kind}`, title: termText(term).slice(0, 600) }, text);
}
