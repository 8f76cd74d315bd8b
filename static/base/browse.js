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
