// Quads with a mark that says whether a rule set infers them. The mark of an inferred quad leads to the reason.

import { call } from "../base/api.js";
import { linkIris } from "../base/browse.js";
import { el } from "../base/dom.js";
import { shortText, termNode, termText } from "../base/terms.js";
import { quadsOf } from "../feeds/turtle.js";
import { whyView } from "./path.js";

// Largest number of characters of a link: by default a server accepts 65,536 bytes of request line and headers.
const LONGEST = 60_000;
const LONGEST_NAME = 200;

/** All rule sets by the IRI of their graph, oldest first, and the time of the server in milliseconds. */
export async function setsByGraph() {
  const { data: { rules }, headers } = await call("GET", "/rules");
  return { sets: new Map(rules.map((set) => [set.into, set])), atMs: Date.parse(headers.get("Date")) };
}

/**
 * The link from an inferred quad to the reason; with `asserted`, an input graph of the set has the triple as well.
 * A quad that is too long for a request has a mark without a link.
 */
export function whyMark(terms, prefixes, asserted = false) {
  const text = asserted ? "asserted and inferred" : "inferred";
  const href = whyView(`${terms.map(termText).join(" ")} .`);
  if (href.length > LONGEST) return el("span", { class: "chip", title: "The quad is too long to ask for the reason by a link." }, text);
  const triple = terms.slice(0, 3).map((term) => shortText(term, prefixes, true)).join(" ").slice(0, LONGEST_NAME);
  return el("a", { class: "chip mark-inferred", href, "aria-label": `${text}: why? ${triple}` }, `${text}: why?`);
}

/** A line of N-Quads with links to what the store knows of its IRIs, and the mark; `sets` are the rule sets by graph. */
export function markedQuad(line, prefixes, sets) {
  const terms = quadsOf(line)[0];
  const [subject, predicate, object, graph] = terms.map((term) => termNode(term, prefixes));
  const isInferred = sets.has(terms[3]?.value);
  return linkIris(el("div", { class: "quad" }, subject, " ", predicate, " ", object, graph ? [" in ", graph] : null, " ",
    isInferred ? whyMark(terms, prefixes) : el("span", { class: "muted" }, "(asserted)")));
}
