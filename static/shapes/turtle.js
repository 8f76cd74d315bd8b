// Turtle as the server writes it, read into terms of SPARQL Results JSON. The server labels each blank node, so brackets do not occur.

import { unescaped } from "../feeds/turtle.js";
import { RDF } from "./graph.js";

const XSD = "http://www.w3.org/2001/XMLSchema#";
const TOKEN = new RegExp([
  String.raw`<<\(|\)>>`,
  String.raw`<(?<iri>[^<>"{}|^\x60\s]*)>`,
  String.raw`"""(?<long>(?:[^"\\]|\\.|"(?!""))*)"""|"(?<text>(?:[^"\\\n]|\\.)*)"`,
  String.raw`@(?<tag>prefix\b|[A-Za-z]+(?:-[A-Za-z0-9]+)*)`,
  String.raw`_:(?<label>[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-])?)`,
  String.raw`(?<number>[+-]?(?:\d+\.\d*|\.?\d+)(?:[eE][+-]?\d+)?(?![\p{L}_:]))`,
  String.raw`(?<prefix>[\p{L}\p{N}_.-]*):(?<local>(?:[\p{L}\p{N}_:·-]|%[0-9A-Fa-f]{2}|\\.|\.(?=[\p{L}\p{N}_:.%\\-]))*)`,
  String.raw`(?<word>true\b|false\b|a\b)`,
  String.raw`\^\^|[;,.]`,
].join("|"), "gsu");

/** The triples of a Turtle text, each as a list of three terms. */
export function triplesOf(text) {
  return new Reader(text).triples();
}

class Reader {
  constructor(text) {
    this.tokens = [...text.matchAll(TOKEN)];
    this.at = 0;
    this.prefixes = {};
  }

  triples() {
    const found = [];
    while (this.at < this.tokens.length) {
      if (this.tokens[this.at].groups.tag === "prefix") this.declare();
      else found.push(...this.block());
    }
    return found;
  }

  declare() {
    const [, name, iri] = this.tokens.slice(this.at, this.at + 3);
    this.prefixes[name.groups.prefix] = unescaped(iri.groups.iri);
    this.at += 4;
  }

  /** The triples of one subject, up to the full stop. */
  block() {
    const found = [];
    const subject = this.term();
    let predicate = this.term();
    for (;;) {
      found.push([subject, predicate, this.term()]);
      const mark = this.tokens[this.at++]?.[0];
      if (mark === ";") predicate = this.term();
      else if (mark !== ",") return found;
    }
  }

  term() {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new Error("The Turtle text is broken off.");
    const [whole] = token;
    const { iri, label, number, prefix, local, word, long, text } = token.groups;
    if (whole === "<<(") {
      const [subject, predicate, object] = [this.term(), this.term(), this.term()];
      this.at += 1;
      return { type: "triple", value: { subject, predicate, object } };
    }
    if (iri !== undefined) return { type: "uri", value: unescaped(iri) };
    if (label !== undefined) return { type: "bnode", value: label };
    if (prefix !== undefined) return { type: "uri", value: this.prefixes[prefix] + local.replace(/\\(.)/g, "$1") };
    if (number !== undefined) return { type: "literal", value: number, datatype: XSD + (/e/i.test(number) ? "double" : number.includes(".") ? "decimal" : "integer") };
    if (word === "a") return { type: "uri", value: `${RDF}type` };
    if (word !== undefined) return { type: "literal", value: word, datatype: `${XSD}boolean` };
    return this.literal(unescaped(long ?? text ?? ""));
  }

  literal(value) {
    const next = this.tokens[this.at];
    if (next?.groups.tag !== undefined) {
      this.at += 1;
      return { type: "literal", value, "xml:lang": next.groups.tag };
    }
    if (next?.[0] !== "^^") return { type: "literal", value };
    this.at += 1;
    return { type: "literal", value, datatype: this.term().value };
  }
}
