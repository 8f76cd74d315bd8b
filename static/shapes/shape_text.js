// The text of one shape as Turtle, with the blank nodes inside it in brackets.

import { el } from "../base/dom.js";
import { shortIri, shortText } from "../base/terms.js";
import { coloured } from "../editor/coloured.js";
import { RDF } from "./graph.js";

const MOST_CHARACTERS = 20_000;

/**
 * The named shape that contains `shape`, a term of the shapes graph, with the part of `shape` marked; null if the graph
 * does not have it. A text of more than 20,000 characters is cut.
 */
export function shapeNode(graph, shape, prefixes) {
  if (graph.from(shape).length === 0) return null;
  const writer = new Writer(graph, shape, prefixes);
  const root = rootOf(graph, shape);
  const { text, start, end } = writer.write(root);
  if (end > MOST_CHARACTERS && root.value !== shape.value) return shapeNode(withoutParents(graph, shape), shape, prefixes);
  const shown = text.slice(0, MOST_CHARACTERS);
  const isWhole = start === writer.headLength;
  const parts = isWhole ? coloured(shown) : [coloured(shown.slice(0, start)), el("mark", { class: "source-shape" }, coloured(shown.slice(start, end))), coloured(shown.slice(end))];
  return [el("pre", { class: "listing wrap", tabindex: "0", role: "region", "aria-label": "Text of the shape" }, parts),
    text.length > MOST_CHARACTERS ? el("p", { class: "muted" }, "Only the beginning is shown; the shapes graph below has all of it.") : null];
}

/** The node that contains a blank node, through all blank nodes between. */
function rootOf(graph, shape) {
  const seen = new Set();
  let here = shape;
  while (here.type === "bnode" && !seen.has(here.value) && graph.to(here).length > 0) {
    seen.add(here.value);
    [[here]] = graph.to(here);
  }
  return here;
}

/** The same graph, in which nothing leads to the shape: its text begins with it. */
function withoutParents(graph, shape) {
  const alone = Object.create(graph);
  alone.to = (term) => (term.value === shape.value ? [] : graph.to(term));
  return alone;
}

class Writer {
  constructor(graph, marked, prefixes) {
    Object.assign(this, { graph, marked, prefixes, used: new Set(), inside: new Set(), text: "", start: 0, end: Infinity });
  }

  /** The text, and the offsets between which the marked shape stands. */
  write(root) {
    this.add(this.short(root));
    this.properties(root, "  ", " ");
    this.add(" .\n");
    if (root.value === this.marked.value) [this.start, this.end] = [0, this.text.length];
    const head = [...this.used].sort().map((prefix) => `PREFIX ${prefix}: <${this.prefixes[prefix]}>\n`).join("");
    const top = head === "" ? "" : `${head}\n`;
    this.headLength = top.length;
    return { text: top + this.text, start: this.start + top.length, end: this.end + top.length };
  }

  add(text) {
    this.text += text;
  }

  /** Predicates and objects of a node, one predicate a line; rdf:type comes first. */
  properties(node, indent, first) {
    this.inside.add(node.value);
    const groups = [...Map.groupBy(this.graph.from(node), ([, predicate]) => predicate.value).entries()]
      .sort(([a], [b]) => (b === `${RDF}type`) - (a === `${RDF}type`));
    for (const [i, [predicate, triples]] of groups.entries()) {
      this.add(i === 0 ? first : ` ;\n${indent}`);
      this.add(predicate === `${RDF}type` ? "a " : `${this.short({ type: "uri", value: predicate })} `);
      for (const [k, [, , object]] of triples.entries()) {
        if (k > 0) this.add(" , ");
        this.object(object, indent);
      }
    }
    this.inside.delete(node.value);
  }

  /** An object: a blank node in brackets, a list in parentheses, others by name, as is a node that contains itself. */
  object(term, indent) {
    const isInside = term.type === "bnode" && this.graph.from(term).length > 0 && !this.inside.has(term.value);
    if (this.text.length > 2 * MOST_CHARACTERS || !isInside) {
      this.add(this.short(term));
      return;
    }
    const start = this.text.length;
    const members = this.graph.list(term);
    if (members === null) {
      this.add("[\n");
      this.properties(term, `${indent}  `, `${indent}  `);
      this.add(`\n${indent}]`);
    } else {
      this.members(term, members, indent);
    }
    if (term.value === this.marked.value && term.type === this.marked.type) [this.start, this.end] = [start, this.text.length];
  }

  members(list, members, indent) {
    this.inside.add(list.value);
    this.add("(");
    for (const member of members) {
      if (this.text.length > 2 * MOST_CHARACTERS) break;
      this.add(" ");
      this.object(member, indent);
    }
    this.add(" )");
    this.inside.delete(list.value);
  }

  short(term) {
    for (const iri of [term.type === "uri" ? term.value : null, term.datatype ?? null]) {
      const name = iri === null ? null : shortIri(iri, this.prefixes);
      if (name !== null && (iri === term.value || shortText(term, this.prefixes, true).endsWith(`^^${name}`))) this.used.add(name.slice(0, name.indexOf(":")));
    }
    return shortText(term, this.prefixes, true);
  }
}
