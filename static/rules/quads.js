// Quads with a mark that says whether a rule set infers them. The mark of an inferred quad leads to the reason.

import { call } from "../base/api.js";
import { linkIris } from "../base/browse.js";
import { el } from "../base/dom.js";
import { shortText, termNode, termText } from "../base/terms.js";
import { quadsOf } from "../feeds/turtle.js";
import { whyView } from "./path.js";

/** All rule sets by the IRI of their graph. */
export async function setsByGraph() {
  const { rules } = (await call("GET", "/rules")).data;
  return new Map(rules.map((set) => [set.into, set]));
}

/** The link from an inferred quad to the reason; with `asserted`, an input graph of the set has the triple as well. */
export function whyMark(terms, prefixes, asserted = false) {
  const text = `${asserted ? "asserted and inferred" : "inferred"}: why?`;
  const triple = terms.slice(0, 3).map((term) => shortText(term, prefixes, true)).join(" ");
  return el("a", { class: "chip mark-inferred", href: whyView(`${terms.map(termText).join(" ")} .`), "aria-label": `${text} ${triple}` }, text);
}

/** A line of N-Quads with links to what the store knows of its IRIs, and the mark; `sets` are the rule sets by graph. */
export function markedQuad(line, prefixes, sets) {
  const terms = quadsOf(line)[0];
  const [subject, predicate, object, graph] = terms.map((term) => termNode(term, prefixes));
  const isInferred = sets.has(terms[3]?.value);
  return linkIris(el("div", { class: "quad" }, subject, " ", predicate, " ", object, graph ? [" in ", graph] : null, " ",
    isInferred ? whyMark(terms, prefixes) : el("span", { class: "muted" }, "(asserted)")));
}
