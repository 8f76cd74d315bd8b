// Rules to read: the text of a rule, the W3C name of a built-in one, and the rules of a set by stratum.

import { el } from "../base/dom.js";
import { counted } from "../base/format.js";
import { coloured } from "../editor/coloured.js";

const RDFS = { title: "RDF 1.1 Semantics", href: "https://www.w3.org/TR/rdf11-mt/#patterns-of-rdfs-entailment-informative" };
const OWL = { title: "OWL 2 Profiles", href: "https://www.w3.org/TR/owl2-profiles/#Reasoning_in_OWL_2_RL_and_RDF_Graphs_using_Rules" };

function specificationOf(name) {
  return name.startsWith("rdfs") ? RDFS : OWL;
}

/** The W3C name of a built-in rule as a link to the tables that define it. */
export function ruleName(name) {
  return el("a", { href: specificationOf(name).href }, name);
}

/** The names of several built-in rules, with one link to the tables: the keyboard need not pass fifty. */
function builtInRules(names) {
  const specifications = [...new Set(names.map(specificationOf))];
  return el("div", { class: "rule" }, el("p", { class: "muted" }, "Built-in rules of ",
    specifications.map(({ title, href }, i) => [i > 0 ? " and " : null, el("a", { href }, title)])), el("p", {}, names.join(", ")));
}

/** A rule as `/why` has it: a text, or the W3C name of a built-in rule. */
export function ruleNode(rule) {
  return /\s/.test(rule) ? el("pre", { class: "rule-text" }, coloured(rule)) : el("p", {}, "Built-in rule ", ruleName(rule), ".");
}

/**
 * The rules of a set by stratum, of its own rules at most `most`. The strata are unknown during the first PUT: then all rules
 * stand in one list.
 */
export function strataNodes({ rules, include = [], strata }, most) {
  let left = most;
  const own = (numbers) => {
    const shown = numbers.slice(0, left);
    left -= shown.length;
    return shown.map((number) => el("div", { class: "rule" }, el("p", { class: "muted" }, `Rule ${number}`), ruleNode(rules[number])));
  };
  if (strata.length === 0) return el("li", {}, el("h3", {}, "All rules"), own([...rules.keys()]), include.map((name) => el("p", {}, `Built-in rules: ${name}`)));
  return strata.map((members, i) => {
    const builtIn = members.filter((member) => typeof member === "string");
    return el("li", {}, el("h3", {}, `Stratum ${i + 1} `, el("span", { class: "muted" }, counted(members.length, "rule"))),
      own(members.filter((member) => typeof member === "number")),
      builtIn.length === 0 ? null : builtInRules(builtIn));
  });
}
