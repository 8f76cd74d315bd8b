"""Parses rules, which are CONSTRUCT queries, and refuses what a rule must not use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quadrill.store.errors import QueryTextError, ReportedError, UnsupportedError

from ..algebra import nodes as n
from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.query import ContinuousQuery
from ..algebra.rewrites import drop_idle_minus, rename_subquery_variables
from ..algebra.variables import in_scope
from ..language.context import LanguageLimits
from ..language.parser import parse
from .interfaces import Evaluable
from .places import place_of_word
from .terms import RuleTerms
from .triggers import Occurrence, occurrences

VOLATILE = frozenset(("NOW", "RAND", "UUID", "STRUUID", "BNODE"))
"""Built-in functions whose value is not a function of the dataset; rules must not call them."""


class RuleError(QueryTextError):
    """Rules are refused; the details name one rule (``rule``, a number from 0) or a cycle (``rules``)."""

    code = "rule-unsafe"


class NegationCycleError(RuleError):
    """Rules depend on one another in a cycle through a negation or an aggregate."""

    code = "rule-negation-cycle"


class BindCycleError(RuleError):
    """Rules depend on one another in a cycle through computed terms."""

    code = "rule-bind-cycle"


@dataclass(frozen=True, slots=True)
class Rule:
    """One parsed rule.

    Attributes:
        text: the text as the client wrote it; of a built-in rule its W3C name.
        head: the triple patterns that each solution of the body turns into triples.
        body: the algebra of WHERE.
        patterns: the triple patterns and paths of the body.
        computes: True if the rule computes terms: with BIND, with an expression in a SELECT clause, or as a
            triple term of the head that no pattern of the body matches.
        base_iri: the base against which IRI() resolves relative IRIs.
        compile: compiles a built-in rule over all members of a list, which no body can express; ``body`` then
            only shows which predicates the rule reads. None for all other rules.
    """

    text: str
    head: tuple[n.TriplePattern, ...]
    body: n.Algebra
    patterns: tuple[Occurrence, ...]
    computes: bool = False
    base_iri: str | None = None
    compile: Callable[[Rule, RuleTerms], Evaluable] | None = None


def parse_rules(texts: Sequence[str], *, base_iri: str, limits: LanguageLimits | None = None) -> list[Rule]:
    """Parse the rules of a set.

    Raises:
        QueryTextError: a text is malformed or not a safe rule; see `RuleError`.
        UnsupportedError: a text has a feature that rules do not support, such as LIMIT.

    The detail ``rule`` of both errors is the number of the text, from 0.
    """
    rules = []
    for number, text in enumerate(texts):
        try:
            rules.append(parse_rule(text, base_iri=base_iri, limits=limits))
        except ReportedError as error:
            error.details.setdefault("rule", number)
            error.message = f"rule {number}: {error.message}"
            raise
    return rules


def parse_rule(
    text: str, *, base_iri: str, limits: LanguageLimits | None = None, name: str | None = None
) -> Rule:
    """Parse one rule; ``name`` replaces the text in the result, for a built-in rule."""
    query = parse(text, base_iri=base_iri, limits=limits)
    _require_rule_form(query, text)
    body = rename_subquery_variables(drop_idle_minus(query.root))
    head = _head(query, body, text)
    found = tuple(occurrences(body))
    return Rule(name or text, head, body, found, _computes(head, body), query.base_iri)


def _computes(head: tuple[n.TriplePattern, ...], body: n.Algebra) -> bool:
    made = {each.object for each in head if isinstance(each.object, n.TripleTerm)}
    return bool(made and made - _matched(body)) or any(isinstance(each, n.Extend) for each in all_nodes(body))


def _matched(node: n.Algebra) -> set[n.TermPattern]:
    """Return triple terms that each solution of a pattern has matched in the data."""
    match node:
        case n.Bgp(patterns):
            return {term for each in patterns for term in _nested(each.object)}
        case n.Join(left, right):
            return _matched(left) | _matched(right)
        case n.LeftJoin(inner) | n.Minus(inner) | n.Filter(_, inner) | n.Graph(_, inner) | n.Distinct(inner):
            return _matched(inner)
        case _:
            return set()


def _nested(term: n.TermPattern) -> Iterator[n.TermPattern]:
    while isinstance(term, n.TripleTerm):
        yield term
        term = term.object


def _require_rule_form(query: ContinuousQuery, text: str) -> None:
    if query.form != "construct":
        raise QueryTextError(
            f"a rule is a CONSTRUCT query, not {query.form.upper()}",
            hint="write CONSTRUCT { head } WHERE { body }",
            **place_of_word(text, rf"\b{query.form}\b"),
        )
    if query.windows:
        hint = "a rule reads graphs only; give a registration an entailment to reason over windows"
        raise _missing("a window", hint, text, r"\bWINDOW\b|\bSTREAM\b")
    if query.dataset.default or query.dataset.named:
        raise _missing("FROM", "name the input graphs in the member from of the rule set", text, r"\bFROM\b")
    for node in all_nodes(query.root):
        match node:
            case n.Service():
                hint = "load the remote data into a graph of the store first"
                raise _missing("SERVICE", hint, text, r"\bSERVICE\b")
            case n.Slice():
                hint = "a rule must not depend on an order of solutions"
                raise _missing("LIMIT or OFFSET", hint, text, r"\b(?:LIMIT|OFFSET)\b")
        for expr in expressions(node):
            for each in sub_expressions(expr):
                if isinstance(each, n.Call) and each.name in VOLATILE:
                    hint = "a rule's result must be a function of the dataset"
                    raise _missing(f"{each.name}()", hint, text, rf"(?<![\w?$:]){each.name}\s*\(")


def _missing(what: str, hint: str, text: str, pattern: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} in a rule",
        f"{what} is not supported in a rule",
        hint=hint,
        **place_of_word(text, pattern),
    )


def _head(query: ContinuousQuery, body: n.Algebra, text: str) -> tuple[n.TriplePattern, ...]:
    names = in_scope(body)
    for quad in query.template:
        if quad.graph is not None:
            raise QueryTextError(
                "the head of a rule has no GRAPH",
                hint="the member into of the rule set names the graph of its triples",
                **place_of_word(text, r"\bGRAPH\b", in_head=True),
            )
        for var in sorted(quad.variables, key=lambda each: each.name):
            if var.hidden:
                raise RuleError(
                    "the head has a blank node",
                    code="rule-blank-node",
                    hint="make an IRI from the variables of the body: BIND(IRI(CONCAT(…)) AS ?new)",
                    **place_of_word(text, r"_:|<<|[\[(]", in_head=True),
                )
            if var.name not in names:
                raise RuleError(
                    f"the variable ?{var.name} of the head is not bound in the body",
                    hint=f"bind ?{var.name} in WHERE, or take it out of the head",
                    variable=var.name,
                    **place_of_word(text, rf"[?$]{re.escape(var.name)}(?![\w])", in_head=True),
                )
    return tuple(quad.triple for quad in query.template)


def described(rules: Sequence[Rule], numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the numbers and texts of the rules of a cycle, as a member of a problem document."""
    return [{"rule": number, "text": rules[number].text} for number in numbers]
