"""The list of SPARQL constructs that Oxigraph evaluates differently from the standard, and how to find them.

`corrected` rewrites a pattern so that Oxigraph returns SPARQL's solutions. Each `Correction` of an Oxigraph
departure gives the section of the SPARQL standard, a regular expression that finds the construct in a text,
and the test that covers the correction.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .build import is_plain
from .corrected_expressions import Calls
from .corrected_patterns import Corrections, IsNode, languages_of
from .merged_graphs import as_set
from .nodes import Algebra, Term, TermPattern


class Correction(NamedTuple):
    """One departure of Oxigraph from SPARQL.

    Attributes:
        name: the SPARQL construct.
        section: the section of SPARQL 1.1 Query, or of a standard that SPARQL refers to.
        mark: matches every text with the construct, and possibly other texts.
        test: the function of tests/continuous/analysis/test_corrections.py that covers the construct.
    """

    name: str
    section: str
    mark: re.Pattern[str]
    test: str


def _mark(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


CORRECTIONS = (
    Correction(
        "GROUP_CONCAT of other terms than strings", "18.5.1.7", _mark(r"group_concat"), "test_group_concat"
    ),
    Correction(
        "COUNT of an expression that fails",
        "18.5.1.2",
        _mark(r"count(?![\w:])(?!\s*\(\s*(?:distinct(?!\w)\s*)?(?:\*|[?$]\w+)\s*\))"),
        "test_count_of_expressions",
    ),
    Correction(
        "a moment plus a duration",
        "17.3, XPath and XQuery Functions and Operators 3.1, 9.7",
        _mark(r"[?$)>\w\"'\s(]\+(?!\s*[0-9.])"),
        "test_moments_and_durations",
    ),
    Correction(
        "ADJUST without a zone",
        "17.4.5, XPath and XQuery Functions and Operators 3.1, 9.6",
        _mark(r"(?<!\w)adjust\s*[(#]"),
        "test_time_zones",
    ),
    Correction(
        "groups of REPLACE, names in REGEX",
        "17.4.3.14-15, the same, 5.6",
        _mark(r"(?:replace|regex)\s*[(#]"),
        "test_regular_expressions",
    ),
    Correction(
        "STRDT with a datatype of language strings",
        "17.4.2.5, RDF 1.2 Concepts 3.4",
        _mark(r"(?<!\w)strdt\s*[(#]"),
        "test_datatypes_of_language_strings",
    ),
    Correction(
        "language tags without case",
        "17.4.2.2, RDF 1.2 Concepts 3.4",
        _mark(r"(?<!\w)lang\s*[(#]"),
        "test_language_tags",
    ),
    Correction(
        "the variable of GRAPH within its block",
        "18.6",
        _mark(r"(?<!\w)graph\s*(?:[?$]|#)"),
        "test_graph_variables",
    ),
    Correction(
        "alternatives of a path", "18.2.2.4 and 18.4", _mark(r"(?<!\|)\|(?!\|)"), "test_alternative_paths"
    ),
    Correction(
        "paths of length zero",
        "18.4",
        _mark(r"(?:>|\)|:[^\s()|/^!?*+]*|(?<![\w?$:])a)\s*(?:\*|\?(?![\w$]))"),
        "test_paths_of_length_zero",
    ),
    Correction(
        "graphs that a default graph is merged from",
        "13.2.1",
        _mark(r"(?<!\w)from(?!\w)[\s\S]*(?<!\w)from(?!\w)"),
        "test_merged_graphs",
    ),
)


ANY_MARK = re.compile("|".join(f"(?:{each.mark.pattern})" for each in CORRECTIONS), re.IGNORECASE)
"""A regular expression that matches every query text with a construct of the list of corrections.

The regular expression also matches some query texts that need no correction for Oxigraph.
"""


def may_need(text: str) -> bool:
    """Return True for a query text that may contain a construct of the list of corrections."""
    return ANY_MARK.search(text) is not None


def corrected(
    root: Algebra, *, merged: bool = False, replaces: bool = True, is_node: IsNode | None = None
) -> tuple[Algebra, bool]:
    """Return the pattern corrected for Oxigraph, and whether the pattern needed a correction.

    Args:
        root: a query without windows.
        merged: the default graph is merged from several graphs.
        replaces: Oxigraph evaluates REPLACE; otherwise REPLACE is a custom function, which needs no
            correction.
        is_node: tells which constants are known to occur in the graphs; without it, none are known.
    """
    if is_plain(root):
        return (as_set(root), True) if merged else (root, False)
    pass_ = Corrections(is_node or _unknown, Calls(languages_of(root), replacements=replaces))
    result = pass_.rewrite(root)
    changed = result is not root or pass_.count_differs
    return (as_set(result), True) if merged else (result, changed)


def as_both_read(root: Algebra) -> Algebra:
    """Return a continuous query with the corrections that both Oxigraph and the native engine need."""
    calls = Calls(languages_of(root), moments=False, patterns=False, replacements=False)
    return Corrections(_unknown, calls, native=True).rewrite(root)


def _unknown(_term: Term, _graph: TermPattern | None) -> bool:
    return False
