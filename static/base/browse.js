// IRIs that lead to what the store knows of them.

import { el } from "./dom.js";

/** Where the page shows the triples from and to an IRI. */
export function browsePath(iri) {
  return `/ui/store?${new URLSearchParams({ iri })}`;
}

/** Make the IRIs inside an element, shown by `termNode`, links to that. */
export function linkIris(root) {
  for (const term of root.querySelectorAll("span.term.iri")) {
    term.replaceWith(el("a", { class: "term iri", title: term.title, href: browsePath(term.title) }, ...term.childNodes));
  }
  return root;
}

/** Where the page shows some triples of a graph; the default graph has the empty name. */
export function triplesPath(iri) {
  const pattern = iri === "" ? "?subject ?predicate ?object" : `GRAPH <${iri}> { ?subject ?predicate ?object }`;
  return `/ui/sparql?${new URLSearchParams({ query: `SELECT * WHERE {\n  ${pattern}\n}\nLIMIT 100` })}`;
}
