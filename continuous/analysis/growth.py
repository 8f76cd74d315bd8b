"""Expressions that could make long values of short ones, and limits for them.

    BIND(CONCAT(?a, ?a) AS ?b) BIND(CONCAT(?b, ?b) AS ?c) ...      each doubles: 25 make 32 MB of a letter

Such a query goes to a worker, whose memory is limited. In an update, and where no worker is, the calls are
written as functions of ours that count (docs/decisions/0031-fixed-choices.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from pyoxigraph import Literal, NamedNode

from quadrill.store.sparql.skeletons import SplitText
from quadrill.store.terms import Term

from ..algebra import nodes as n
from ..algebra.build import (
    all_nodes,
    expressions,
    map_expression,
    operands,
    sub_expressions,
    with_expressions,
    with_operands,
)
from ..algebra.order import XSD
from ..algebra.query import ContinuousQuery
from ..expressions.choices import MUCH, LimitedCalls
from ..expressions.string_growth import concat, corrected_replace, encode_for_uri
from ..expressions.values import Maybe

_FUNCTIONS: dict[str, Callable[..., Maybe]] = {
    "CONCAT": concat,
    "REPLACE": corrected_replace,
    "ENCODE_FOR_URI": encode_for_uri,
}
_NAMES = {name: NamedNode(f"urn:quadrill:limited:{name.lower()}") for name in _FUNCTIONS}
_WORDS = re.compile("|".join(_FUNCTIONS), re.IGNORECASE)


class Growth(NamedTuple):
    """How many times as long as what is read a value could become, in bytes of UTF-8.

    Attributes:
        factor: each call is counted as if it took the results of all others; infinite where nothing is known.
        replacements: the numbers of the constants that REPLACE puts in the place of what it finds.
    """

    factor: float = inf
    replacements: tuple[int, ...] = ()

    def is_much(self, parts: SplitText) -> bool:
        """True for a text, which was cut into ``parts``, whose values could become long."""
        factor = self.factor
        for number in self.replacements:
            factor *= len(parts.constants[number].encode()) - 1
        return factor > MUCH and _WORDS.search(parts.body) is not None


def growth_of(query: ContinuousQuery, *, numbered: bool) -> Growth:
    """The growth of the values of a query; ``numbered``: its strings are numbers of constants."""
    factor = 1.0
    replacements: list[int] = []
    nodes = all_nodes(query.root) if _WORDS.search(query.text) else ()
    for call in (call for node in nodes for expr in expressions(node) for call in sub_expressions(expr)):
        match call:
            case n.Call("CONCAT", args):
                factor *= max(len(args), 1)
            case n.Call("ENCODE_FOR_URI"):
                factor *= 3  # it writes each byte of a letter by three
            # A pattern that matches nothing puts the string between all letters, so one letter doubles.
            case n.Call("REPLACE", (_, _, n.Constant(Literal() as put), *_)) if _is_string(put):
                if numbered:
                    replacements.append(int(put.value))
                else:
                    factor *= len(put.value.encode()) + 1
            case n.Call("REPLACE"):
                factor = inf  # what is no string in the text may be of any length
    return Growth(factor, tuple(replacements))


def _is_string(literal: Literal) -> bool:
    return bool(literal.language) or literal.datatype.value == XSD + "string"


def counted(node: n.Algebra) -> n.Algebra:
    """The pattern with calls of functions that count, `counting`, but for what another endpoint evaluates."""
    if isinstance(node, n.Service) and node.name != n.LATERAL:
        return node
    node = with_operands(node, [counted(each) for each in operands(node)])
    return with_expressions(node, [map_expression(each, _counted_call) for each in expressions(node)])


def _counted_call(expr: n.Expr) -> n.Expr | None:
    if not isinstance(expr, n.Call) or expr.name not in _NAMES:
        return None
    return n.FunctionCall(
        _NAMES[expr.name], tuple([map_expression(each, _counted_call) for each in expr.args])
    )


def counting(calls: LimitedCalls) -> dict[NamedNode, Callable[..., Term | None]]:
    """What a `counted` pattern calls."""
    return {_NAMES[name]: calls.of(function) for name, function in _FUNCTIONS.items()}
