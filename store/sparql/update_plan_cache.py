"""A cache of plans for small updates that differ only in constants; their quads are made without a parser.

    INSERT DATA { <http://e/s1> <http://e/p> "a" }      planned, and planned again at the second use
    INSERT DATA { <http://e/s2> <http://e/p> "b" }      equal skeleton: the constants fill the cached plan

The constants of cached updates are absolute IRIs, prefixed names, plain strings and integers in forms that
every SPARQL parser reads alike. All other parts of an update's text belong to its skeleton. An
`AnalyseUpdate` function of the continuous package says which quads a skeleton makes and reads; without the
function each update is planned separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from ..changes.commit import GraphName, NetChange
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
"""Quads of a template in which a number n stands for variable n, and ~n for constant n."""
Pattern: TypeAlias = tuple[tuple[int, int], ...]
"""A triple pattern on the default graph: pairs of (position in the triple, number of the constant)."""


class UpdateAnalysis(NamedTuple):
    """The analysis that all one-operation updates with one skeleton share.

    Attributes:
        templates: the templates by the names of their fields in `Data` or `Modify`.
        patterns: the triple patterns that the WHERE part reads; None if unknown.
        namespaces: for each constant the namespace of its prefix; empty for a constant that is no prefixed
            name, None for a constant that is no term of a template or pattern.
    """

    templates: Mapping[str, Template]
    patterns: tuple[Pattern, ...] | None
    namespaces: Sequence[str | None]


AnalyseUpdate: TypeAlias = Callable[[str, SplitText, str | None], UpdateAnalysis | None]
"""A function that analyses an update from its text, its split text and its base IRI; None: not cacheable."""


def no_analysis(_text: str, _parts: SplitText, _base_iri: str | None) -> None:
    """Return None: without a given function, no update is analysed."""


class UpdatePlanCache:
    """The cached plans of updates by their skeletons.

    The cache of plans is thread-safe: threads share only a dict.
    """

    def __init__(self, limits: TextLimits, analyse_update: AnalyseUpdate) -> None:
        self._limits = limits
        self._analyse_update = analyse_update
        # The values of the cache, by skeleton (an update's text without its constants) and base IRI: True if
        # one update with the skeleton was seen, then its plan, or False if its plan cannot be reused.
        self._known: dict[tuple[str, str, str | None], _CachedUpdatePlan | bool] = {}

    def plan(self, request: UpdateRequest, make_plan: Callable[[], UpdatePlan]) -> UpdatePlan:
        """Return the checked plan of an update, from the cached plan of its skeleton or ``make_plan``."""
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
        """Return a reusable plan for an update's skeleton; None if the analysis or the parser refuses it."""
        text = plan.request.text
        analysis = self._analyse_update(text, parts, plan.request.base_iri)
        if analysis is None:
            return None
        try:
            parse_all(plan)
        except ReportedError:
            return None  # the evaluation of the update reports the syntax error
        (operation,) = plan.operations
        where = operation.action.where if isinstance(operation.action, Modify) else Piece("", 0)
        before = [end - start for start, end in parts.spans(text) if end <= where.start]
        generic_plan = plan._replace(request=UpdateRequest(""), parts={})
        tail = len(text) - where.start - len(where.text)
        return _CachedUpdatePlan(generic_plan, analysis, where.start - sum(before), len(before), tail)


class _CachedUpdatePlan(NamedTuple):
    """A plan of one update operation that is reused for all updates with its skeleton.

    The field ``start`` is the offset of the WHERE part without the characters of the constants before it;
    ``constants`` is the number of these constants; ``tail`` is the number of characters after the WHERE part.
    """

    planned: UpdatePlan
    analysis: UpdateAnalysis
    start: int
    constants: int
    tail: int

    def plan(self, request: UpdateRequest, texts: Sequence[str]) -> UpdatePlan:
        """Return the plan of an update with this skeleton and the constants ``texts``."""
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
    """A template with its constants filled in, which makes quads from solutions."""

    def __init__(self, template: Template, constants: Sequence[Term | None]) -> None:
        self._ground: list[Quad] = []
        self._open: list[list[Any]] = []
        for quad in template:
            terms: list[Any] = [constants[~term] if type(term) is int and term < 0 else term for term in quad]
            if int in map(type, terms):
                self._open.append(terms)
            else:
                self._ground.append(Quad(*terms))

    @property
    def graphs(self) -> set[GraphName]:
        """The constant graphs of the template."""
        graphs = {quad.graph_name for quad in self._ground}
        graphs.update(terms[3] for terms in self._open if type(terms[3]) is not int)
        return graphs

    def __call__(self, rows: Sequence[Solution]) -> Iterator[Quad]:
        """Yield the template's quads for solutions; skip quads with an unbound or misplaced term."""
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
    """Return True if the change has a quad of the default graph that matches one of the patterns."""
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
