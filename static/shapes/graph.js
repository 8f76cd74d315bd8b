// Triples by subject: what reports and shapes graphs are read from.

import { termText } from "../base/terms.js";

export const RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
export const SH = "http://www.w3.org/ns/shacl#";

/** The triples of a Turtle text, found by subject and by object. */
export class Graph {
  constructor(triples) {
    this.bySubject = Map.groupBy(triples, ([subject]) => termText(subject));
    this.byObject = Map.groupBy(triples.filter(([, , object]) => object.type === "bnode"), ([, , object]) => termText(object));
  }

  /** The triples from a term. */
  from(term) {
    return this.bySubject.get(termText(term)) ?? [];
  }

  /** The triples to a blank node. */
  to(term) {
    return this.byObject.get(termText(term)) ?? [];
  }

  /** The objects of a predicate. */
  objects(subject, predicate) {
    return this.from(subject).filter(([, each]) => each.value === predicate).map(([, , object]) => object);
  }

  /** The first object of a predicate, or undefined. */
  object(subject, predicate) {
    return this.objects(subject, predicate)[0];
  }

  /** The members of an RDF list; null for a node that begins no well-formed list. */
  list(node) {
    const members = [];
    const seen = new Set();
    for (let here = node; here.value !== `${RDF}nil`; here = this.object(here, `${RDF}rest`)) {
      const [first, rest] = [this.object(here, `${RDF}first`), this.object(here, `${RDF}rest`)];
      if (first === undefined || rest === undefined || seen.has(here.value) || this.from(here).length !== 2) return null;
      seen.add(here.value);
      members.push(first);
    }
    return members;
  }
}
