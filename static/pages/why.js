// Why a quad is in the store: whether it is asserted, and the rules and quads that derive it. An inferred premise leads to its own reason.

import { call, Problem } from "../base/api.js";
import { linkIris } from "../base/browse.js";
import { byId, el, poll, setText } from "../base/dom.js";
import { counted } from "../base/format.js";
import { serverPrefixes } from "../base/prefixes.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";
import { prefixesOf, termNode } from "../base/terms.js";
import { quadsOf } from "../feeds/turtle.js";
import { rulesView } from "../rules/path.js";
import { markedQuad, setsByGraph } from "../rules/quads.js";
import { ruleNode } from "../rules/rules.js";

const SHARE = 0.1;
const MOST = 10;
const line = byId("quad").dataset.quad;
let prefixes = prefixesOf();
let problemText = "";

/** The quad with short names; the prefixes of the rules that derive it shorten it, too. */
function showQuad() {
  let terms;
  try {
    [terms] = quadsOf(line);
  } catch {
    // What is no quad stays as it was given; the server says what is wrong with it.
  }
  if (terms === undefined) return;
  const [subject, predicate, object, graph] = terms.map((term) => termNode(term, prefixes));
  redraw(byId("quad"), linkIris(el("div", { class: "quad" }, subject, " ", predicate, " ", object, graph ? [" in ", graph] : " in the default graph")));
}

/** The answer in one sentence. */
function sentence({ asserted, derivations }) {
  const many = derivations.length >= MOST ? `${MOST} or more ways` : counted(derivations.length, "way");
  if (derivations.length === 0) return "Asserted: a client, a load or a view wrote it. No rule derives it.";
  return asserted ? `Asserted and inferred: an input graph of the rule set has the triple, and rules derive it in ${many}.`
    : `Inferred: rules derive it in ${many}. No input graph has the triple.`;
}

function derivation({ set, rule, premises }, sets) {
  return el("li", { dataset: { key: JSON.stringify([rule, premises]) } },
    el("div", {}, "Rule set ", el("a", { href: rulesView(set) }, set)), ruleNode(rule),
    premises.length === 0 ? el("p", {}, "The rule needs no quad.") : [el("h3", {}, "From"),
      el("ul", { class: "premises" }, premises.map((premise) => el("li", {}, markedQuad(premise, prefixes, sets))))]);
}

function show(why, sets) {
  prefixes = { ...prefixesOf(why.derivations.map(({ rule }) => rule).join("\n")), ...ofServer };
  showQuad();
  setText(byId("answer"), sentence(why));
  byId("derivations-panel").hidden = why.derivations.length === 0;
  redraw(byId("derivations"), why.derivations.map((each) => derivation(each, sets)));
}

async function update() {
  try {
    const [{ data }, { sets }] = await Promise.all([call("GET", `/why?${new URLSearchParams({ quad: line })}`), setsByGraph()]);
    clearProblem(byId("problem"));
    problemText = "";
    show(data, sets);
  } catch (problem) {
    // A problem that stays is shown once, so that screen readers say it once.
    if (!(problem instanceof Problem) || problem.status === 0 || problem.message === problemText) return;
    problemText = problem.message;
    setText(byId("answer"), "");
    byId("derivations-panel").hidden = true;
    showProblem(byId("problem"), problem);
  }
}

const ofServer = await serverPrefixes();
showQuad();
poll(update, 2000, SHARE);
