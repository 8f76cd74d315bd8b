"""Small updates that differ in constants alone are planned once; their quads are made without a parser.

    INSERT DATA { <http://e/s1> <http://e/p> "a" }      planned, and again: this shape comes more than once
    INSERT DATA { <http://e/s2> <http://e/p> "b" }      cut at the same places; the constants make its quad

Constants are absolute IRIs, names behind a prefix, plain strings and whole numbers that all readers of SPARQL
read alike. What else there is in a text, and how it is written, belongs to its shape. What a shape makes and
reads is asked of whoever knows the algebra (`AnalyseUpdate`); without that each update is planned by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from ..changes.commit import NetChange
from ..errors import ReportedError
from ..terms import Solution, Term, store_form
from .guard import TextLimits
from .scan import needs_no_scan
from .skeletons import SplitText, split_constants
from .update_plan import UpdatePlan, UpdateRequest, parse_all
from .update_text import Modify, Piece, UpdateOperation

_SHORT = 1_000
_MOST = 500
_SAFE = r"a-z0-9_~.!$&*+,;=:@?\-"
_TAKEN = re.compile(
    rf"<[a-z][a-z0-9+.\-]*:(?://[a-z0-9.\-]+(?:/(?!\.)[{_SAFE}]*)*(?:#[{_SAFE}/]*)?|(?![.?])[{_SAFE}]+)>"
    r"|\"[^\"]*\"|:\w+(?:-\w+)*|0|[1-9][0-9]*",
    re.IGNORECASE | re.ASCII,
)
_INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")

Template: TypeAlias = tuple[tuple[Any, ...], ...]
"""Quads with numbers in place of terms: that of a variable, or of a constant (its complement)."""
Pattern: TypeAlias = tuple[tuple[int, int], ...]
"""A triple pattern of the default graph: which terms of a quad are which constants; the others may be any."""


class UpdateAnalysis(NamedTuple):
    """What is known of all updates of one operation that differ in constants alone.

    Attributes:
        templates: by the name of their field in `Data` or `Modify`.
        patterns: what the WHERE part reads; None where that is not known.
        namespaces: of each constant what stands before its name; empty for those that are no names, None for
            those that are no terms of templates and patterns.
    """

    templates: Mapping[str, Template]
    patterns: tuple[Pattern, ...] | None
    namespaces: Sequence[str | None]


AnalyseUpdate: TypeAlias = Callable[[str, SplitText, str | None], UpdateAnalysis | None]
"""Gives what is known of an update, its parts and the base of its IRIs; None where that is not enough."""


def no_analysis(_text: str, _parts: SplitText, _base_iri: str | None) -> None:
    """Know nothing of any update."""


class UpdatePlanCache:
    """The shapes of updates that came more than once. Safe to use from any thread: only a dict is shared."""

    def __init__(self, limits: TextLimits, analyse_update: AnalyseUpdate) -> None:
        self._limits = limits
        self._analyse_update = analyse_update
        # True for one that came once, False for one that is planned each time.
        self._known: dict[tuple[str, str, str | None], _CachedUpdatePlan | bool] = {}

    def plan(self, request: UpdateRequest, make_plan: Callable[[], UpdatePlan]) -> UpdatePlan:
        """The checked plan of a request: that of its shape, or what ``make_plan`` gives."""
        text = request.text
        if len(text) > _SHORT or request.prefixes or request.custom_functions or request.custom_aggregates:
            return make_plan()
        if not needs_no_scan(text, self._limits):
            return make_plan()
        parts = split_constants(text)
        if not all(map(_TAKEN.fullmatch, parts.constants)):
            return make_plan()
        key = *parts.skeleton, request.base_iri
        shape = self._known.get(key)
        if isinstance(shape, _CachedUpdatePlan):
            return shape.plan(request, parts.constants)
        plan = make_plan()
        if shape is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = True
        elif shape:
            self._known[key] = self._cached_plan_of(plan, parts) or False
        return plan

    def _cached_plan_of(self, plan: UpdatePlan, parts: SplitText) -> _CachedUpdatePlan | None:
        """The shape of a request; None where it is not one plain operation."""
        text = plan.request.text
        analysis = self._analyse_update(text, parts, plan.request.base_iri)
        if analysis is None:
            return None
        try:
            parse_all(plan)
        except ReportedError:
            return None  # what is wrong is told where it is evaluated
        (operation,) = plan.operations
        where = operation.action.where if isinstance(operation.action, Modify) else Piece("", 0)
        before = [end - start for start, end in parts.spans(text) if end <= where.start]
        generic_plan = plan._replace(request=UpdateRequest(""), parts={})
        tail = len(text) - where.start - len(where.text)
        return _CachedUpdatePlan(generic_plan, analysis, where.start - sum(before), len(before), tail)


class _CachedUpdatePlan(NamedTuple):
    """A planned operation and what is known of it.

    The WHERE part begins at ``start``, without the ``constants`` before it; ``tail`` is what follows it.
    """

    planned: UpdatePlan
    analysis: UpdateAnalysis
    start: int
    constants: int
    tail: int

    def plan(self, request: UpdateRequest, texts: Sequence[str]) -> UpdatePlan:
        """The plan of a text of this shape."""
        text, analysis = request.text, self.analysis
        constants = list(map(_term, texts, analysis.namespaces))
        (operation,) = self.planned.operations
        action: Any = operation.action
        pieces: dict[str, Piece] = {
            name: getattr(action, name)._replace(fill=_TemplateFiller(template, constants))
            for name, template in analysis.templates.items()
        }
        parts = {}
        if isinstance(action, Modify):
            start = self.start + sum(map(len, texts[: self.constants]))
            where = text[start : len(text) - self.tail]
            concerns = None if analysis.patterns is None else partial(_concerns, analysis.patterns, constants)
            pieces["where"] = Piece(where, start, action.where.variables, concerns=concerns)
            parts[start] = request.where_parts(operation.prologue, where)
        operation = UpdateOperation(action._replace(**pieces), operation.prologue, operation.start, len(text))
        return self.planned._replace(request=request, operations=(operation,), parts=parts)


class _TemplateFiller:
    """A template whose constants are known: gives its quads for solutions."""

    def __init__(self, template: Template, constants: Sequence[Term | None]) -> None:
        self._ground: list[Quad] = []
        self._open: list[list[Any]] = []
        for quad in template:
            terms: list[Any] = [constants[~term] if type(term) is int and term < 0 else term for term in quad]
            if int in map(type, terms):
                self._open.append(terms)
            else:
                self._ground.append(Quad(*terms))

    def __call__(self, rows: Sequence[Solution]) -> Iterator[Quad]:
        """A quad with an unbound variable, or with a term that may not stand where it would, is left out."""
        yield from self._ground
        for row in rows if self._open else ():
            for quad in self._open:
                terms: list[Any] = [_stored(row[term]) if type(term) is int else term for term in quad]
                if not any([term is None for term in terms]):
                    try:
                        filled = Quad(*terms)
                    except TypeError:
                        continue
                    yield filled


def _concerns(patterns: Sequence[Pattern], constants: Sequence[Term | None], change: NetChange) -> bool:
    """True when a quad that comes or goes fits a pattern."""
    for quad in (*change.added, *change.removed):
        if isinstance(quad.graph_name, DefaultGraph):
            terms = quad.triple
            for pattern in patterns:
                if all([terms[place] == constants[number] for place, number in pattern]):
                    return True
    return False


def _stored(term: Term | None) -> Term | None:
    return store_form(term) if isinstance(term, Literal | Triple) else term


def _term(text: str, namespace: str | None) -> Term | None:
    if namespace is None:
        return None
    match text[0]:
        case "<":
            return NamedNode(text[1:-1])
        case '"':
            return Literal(text[1:-1])
        case ":":
            return NamedNode(namespace + text[1:])
    return Literal(text, datatype=_INTEGER)
