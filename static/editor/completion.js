// What the editor offers while one types: variables of the text, keywords of its dialect, and names that the store knows,
// written with a prefix, which is declared where it is not yet.

import { prefixesOf, shortIri } from "../base/terms.js";
import { dialectOf, wordsOf } from "./keywords.js";
import { vocabulary } from "./vocabulary.js";

const BEHIND = [
  // What stands before the place, and the kinds of names that are meant there.
  [/\b(?:STREAM|WINDOW\s+\S+\s+ON|ON)\s+\S*$/i, ["streams"]],
  [/\b(?:GRAPH|INTO|FROM|NAMED)\s+\S*$/i, ["graphs", "streams"]],
  [/(?:\ba|rdf:type|\^\^)\s+\S*$/, ["classes"]],
];

/** A source of completions; `dialect()` is the chosen one, or null where the text decides. */
export function completion(dialect = () => null) {
  return async (context) => {
    const word = context.matchBefore(/[?$][\p{L}\p{N}_]*|<[^<>"{}|^`\\\s]*|[\p{L}_][\p{L}\p{N}_.-]*:?[\p{L}\p{N}_.%-]*/u);
    if (word === null && !context.explicit) return null;
    const text = context.state.doc.toString();
    const from = word?.from ?? context.pos;
    const typed = word?.text ?? "";
    const before = text.slice(Math.max(0, from - 200), from);
    if (inComment(before)) return null;
    if (/^[?$]/.test(typed)) return { from, options: variables(text, from), validFor: /^[?$][\p{L}\p{N}_]*$/u };
    const names = await nameOptions(text, before);
    if (typed.startsWith("<")) return { from, options: names.map((each) => ({ ...each, label: `<${each.iri}>`, apply: `<${each.iri}>` })) };
    const options = typed.includes(":") ? names : [...keywords(dialect() || dialectOf(text), before), ...names];
    return { from, options, validFor: /^[\p{L}_][\p{L}\p{N}_.:%-]*$/u };
  };
}

function inComment(before) {
  return /(?:^|\s)#[^\n]*$/.test(before.slice(before.lastIndexOf("\n") + 1));
}

function variables(text, from) {
  const names = new Set([...text.matchAll(/[?$][\p{L}\p{N}_]+/gu)].filter((match) => match.index !== from).map(([name]) => name));
  return [...names].sort().map((label) => ({ label, detail: "variable" }));
}

function keywords(dialect, before) {
  if (/[<:]\S*$/.test(before)) return [];
  const { words, streaming, functions } = wordsOf(dialect);
  return [
    ...streaming.map((label) => ({ label, detail: "stream" })),
    ...words.map((label) => ({ label, detail: "keyword" })),
    ...functions.map((name) => ({ label: name, detail: "function", apply: `${name}(` })),
  ];
}

/** The names of the store, those first that fit behind what stands before. */
async function nameOptions(text, before) {
  const found = await vocabulary();
  const declared = prefixesOf(text);
  const prefixes = { ...found.prefixes, ...declared };
  const lists = { streams: found.streams.map(({ iri }) => iri), graphs: found.graphs, classes: found.classes, predicates: found.predicates };
  const wanted = BEHIND.find(([pattern]) => pattern.test(before))?.[1] ?? ["predicates", "classes"];
  const details = { streams: "stream", graphs: "graph", classes: "class", predicates: "predicate" };
  return Object.entries(lists).flatMap(([kind, iris]) => iris.map((iri) => option(iri, details[kind], wanted.includes(kind), prefixes, text)));
}

function option(iri, detail, fits, prefixes, text) {
  const short = shortIri(iri, prefixes);
  const label = short ?? `<${iri}>`;
  return { iri, label, detail, boost: fits ? 2 : -40, info: short === null ? undefined : iri, apply: (view, _, from, to) => insert(view, label, from, to, prefixes, text) };
}

/** Put a name in, and its PREFIX at the top of the text where nobody has declared it. */
function insert(view, label, from, to, prefixes, text) {
  const prefix = /^([\w.-]*):/.exec(label)?.[1];
  const missing = prefix !== undefined && !new RegExp(`\\bPREFIX\\s+${prefix.replaceAll(".", "\\.")}:`, "i").test(text);
  const head = missing ? `PREFIX ${prefix}: <${prefixes[prefix]}>\n` : "";
  const changes = [{ from, to, insert: label }];
  if (head !== "") changes.unshift({ from: 0, insert: head });
  view.dispatch({ changes, selection: { anchor: from + label.length + head.length }, userEvent: "input.complete" });
}
