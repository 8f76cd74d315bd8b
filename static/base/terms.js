// RDF terms of SPARQL Results JSON as elements: short to read, complete in the tooltip.

import { breakable, el } from "./dom.js";

const XSD = "http://www.w3.org/2001/XMLSchema#";
const NUMERIC = new Set(["integer", "decimal", "double", "float", "int", "long", "short", "byte", "nonNegativeInteger",
  "positiveInteger", "nonPositiveInteger", "negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort",
  "unsignedByte"].map((name) => XSD + name));
const PLAIN = new Set([XSD + "string", XSD + "boolean", XSD + "dateTime", XSD + "date", XSD + "time"]);
// Written without quotes in Turtle.
const BARE = new Set([XSD + "integer", XSD + "decimal", XSD + "boolean"]);
const LONG = 600;
const WELL_KNOWN = {
  rdf: "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
  rdfs: "http://www.w3.org/2000/01/rdf-schema#",
  owl: "http://www.w3.org/2002/07/owl#",
  xsd: XSD,
  skos: "http://www.w3.org/2004/02/skos/core#",
  dcterms: "http://purl.org/dc/terms/",
  foaf: "http://xmlns.com/foaf/0.1/",
  geo: "http://www.opengis.net/ont/geosparql#",
  wgs84: "http://www.w3.org/2003/01/geo/wgs84_pos#",
  prov: "http://www.w3.org/ns/prov#",
  schema: "https://schema.org/",
  sosa: "http://www.w3.org/ns/sosa/",
  ssn: "http://www.w3.org/ns/ssn/",
  qudt: "http://qudt.org/schema/qudt/",
  unit: "http://qudt.org/vocab/unit/",
};

/** The prefixes that a query text declares, with the well-known ones behind them. */
export function prefixesOf(text = "") {
  const declared = {};
  for (const match of text.matchAll(/\bPREFIX\s+([\w.-]*):\s*<([^<>"{}|^`\\\s]*)>/gi)) declared[match[1]] = match[2];
  return { ...WELL_KNOWN, ...declared };
}

/** `prefix:local` when a prefix covers the IRI and what is left is a plain local name, else null. */
export function shortIri(iri, prefixes) {
  let best = null;
  for (const [prefix, namespace] of Object.entries(prefixes)) {
    if (namespace === "" || !iri.startsWith(namespace)) continue;
    if (best === null || namespace.length > best.namespace.length) best = { prefix, namespace };
  }
  if (best === null) return null;
  const local = iri.slice(best.namespace.length);
  return /^[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-])?$/u.test(local) || local === "" ? `${best.prefix}:${local}` : null;
}

/** Whether the term is a number, for right alignment. */
export function isNumeric(term) {
  return Boolean(term) && term.type !== "uri" && NUMERIC.has(term.datatype);
}

/** One term as an element; an unbound variable is an empty mark. */
export function termNode(term, prefixes) {
  if (!term) return el("span", { class: "term unbound", title: "unbound" }, "·");
  switch (term.type) {
    case "uri":
      return iriNode(term.value, prefixes);
    case "bnode":
      return el("span", { class: "term bnode", title: "blank node" }, `_:${term.value}`);
    case "triple": {
      const { subject, predicate, object } = term.value;
      return el("span", { class: "term triple", title: termText(term) }, "<<( ", termNode(subject, prefixes), " ",
        termNode(predicate, prefixes), " ", termNode(object, prefixes), " )>>");
    }
    default:
      return literalNode(term, prefixes);
  }
}

function iriNode(iri, prefixes) {
  const short = shortIri(iri, prefixes);
  return el("span", { class: "term iri", title: iri }, short === null ? ["<", breakable(iri), ">"] : short);
}

function literalNode(term, prefixes) {
  if (NUMERIC.has(term.datatype)) return el("span", { class: "term number", title: termText(term) }, roundedValue(term.value));
  const tag = tagOf(term, prefixes);
  return el("span", { class: "term literal", title: termText(term).slice(0, LONG) }, lexical(term.value),
    tag === null ? null : el("span", { class: "tag" }, tag));
}

/** A number for the eye: whole ones as they are, others with three digits behind the point, or three that count below one. */
export function roundedValue(value) {
  const number = Number(value);
  if (/^[+-]?\d+$/.test(value) || !Number.isFinite(number) || value.trim() === "") return value;
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return number.toExponential(2);
  return String(size < 1 ? Number(number.toPrecision(3)) : Number(number.toFixed(3)));
}

/** A term as short text: prefixed, a number rounded; `quoted` writes it as Turtle does, in full. */
export function shortText(term, prefixes, quoted = false) {
  if (!term) return "";
  switch (term.type) {
    case "uri":
      return shortIri(term.value, prefixes) ?? `<${term.value}>`;
    case "bnode":
      return `_:${term.value}`;
    case "triple": {
      const { subject, predicate, object } = term.value;
      return `<<( ${[subject, predicate, object].map((part) => shortText(part, prefixes, true)).join(" ")} )>>`;
    }
    default: {
      if (!quoted) return NUMERIC.has(term.datatype) ? roundedValue(term.value) : term.value;
      if (BARE.has(term.datatype)) return term.value;
      const text = termText({ type: "literal", value: term.value });
      if (term["xml:lang"]) return `${text}@${term["xml:lang"]}`;
      return term.datatype && term.datatype !== XSD + "string" ? `${text}^^${shortIri(term.datatype, prefixes) ?? `<${term.datatype}>`}` : text;
    }
  }
}

function tagOf(term, prefixes) {
  const language = term["xml:lang"];
  if (language) return `@${language}${term["its:dir"] ? `--${term["its:dir"]}` : ""}`;
  if (!term.datatype || PLAIN.has(term.datatype)) return null;
  return `^^${shortIri(term.datatype, prefixes) ?? `<${term.datatype}>`}`;
}

/** A long value is cut, with a button that shows all of it. */
function lexical(value) {
  if (value.length <= LONG) return value;
  const shown = el("span", {}, value.slice(0, LONG));
  const more = el("button", { type: "button", class: "link", on: { click: () => {
    shown.textContent = value;
    more.remove();
  } } }, `… ${value.length - LONG} more characters`);
  return [shown, " ", more];
}

/** The whole term as N-Triples text, without abbreviation. */
export function termText(term) {
  if (!term) return "";
  switch (term.type) {
    case "uri":
      return `<${term.value}>`;
    case "bnode":
      return `_:${term.value}`;
    case "triple":
      return `<<( ${termText(term.value.subject)} ${termText(term.value.predicate)} ${termText(term.value.object)} )>>`;
    default: {
      const value = `"${term.value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`;
      if (term["xml:lang"]) return `${value}@${term["xml:lang"]}${term["its:dir"] ? `--${term["its:dir"]}` : ""}`;
      return term.datatype && term.datatype !== XSD + "string" ? `${value}^^<${term.datatype}>` : value;
    }
  }
}
