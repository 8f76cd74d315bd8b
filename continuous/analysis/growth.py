"""Bounds the length of the strings that expressions of a query can build.

    BIND(CONCAT(?a, ?a) AS ?b) BIND(CONCAT(?b, ?b) AS ?c) ...      each doubles: 25 make 32 MB of a letter

A query that may build very long strings is evaluated in a worker process, whose memory is limited. In an
update, and in a server without worker processes, calls that build long strings are replaced by custom
functions that count the characters of their results (docs/decisions/0031-fixed-choices.md). An update that is
too long to be parsed is evaluated in a worker process, without functions that count characters.
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
    """Upper bound of the growth of strings, relative to the strings that a query reads, in bytes of UTF-8.

    Attributes:
        factor: the growth if each string function were applied to the result of all the others; infinite if
            unknown.
        replacements: the numbers of the constants that are replacement strings of REPLACE.
    """

    factor: float = inf
    replacements: tuple[int, ...] = ()

    def is_much(self, parts: SplitText) -> bool:
        """Return True if strings that a query text, split into ``parts``, builds could become too long."""
        factor = self.factor
        for number in self.replacements:
            factor *= len(parts.constants[number].encode()) - 1
        return factor > MUCH and _WORDS.search(parts.body) is not None


def growth_of(query: ContinuousQuery, *, numbered: bool) -> Growth:
    """Return the growth of a query's strings; ``numbered``: its constant strings are numbers of constants."""
    factor = 1.0
    replacements: list[int] = []
    nodes = all_nodes(query.root) if _WORDS.search(query.text) else ()
    for call in (call for node in nodes for expr in expressions(node) for call in sub_expressions(expr)):
        match call:
            case n.Call("CONCAT", args):
                factor *= max(len(args), 1)
            case n.Call("ENCODE_FOR_URI"):
                factor *= 3  # ENCODE_FOR_URI: each byte of UTF-8 becomes at most three characters.
            # A pattern that matches the empty string inserts the replacement between all letters, so each
            # letter can become the replacement and the letter.
            case n.Call("REPLACE", (_, _, n.Constant(Literal() as put), *_)) if _is_string(put):
                if numbered:
                    replacements.append(int(put.value))
                else:
                    factor *= len(put.value.encode()) + 1
            case n.Call("REPLACE"):
                factor = inf  # A replacement of REPLACE that is not a constant string may have any length.
    return Growth(factor, tuple(replacements))


def _is_string(literal: Literal) -> bool:
    return bool(literal.language) or literal.datatype.value == XSD + "string"


def counted(node: n.Algebra) -> n.Algebra:
    """Return the pattern with calls of length-counting functions, except inside remote SERVICE calls."""
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
    """Return the custom functions, by IRI, that a pattern rewritten by `counted` calls."""
    return {_NAMES[name]: calls.of(function) for name, function in _FUNCTIONS.items()}
