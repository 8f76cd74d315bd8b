"""Small updates that differ in constants alone are planned once; their quads are made without a parser.

    INSERT DATA { <http://e/s1> <http://e/p> "a" }      planned, and again: this shape comes more than once
    INSERT DATA { <http://e/s2> <http://e/p> "b" }      cut at the same places; the constants make its quad

Constants are absolute IRIs, names behind a prefix, plain strings and whole numbers that all readers of SPARQL
read alike. What else there is in a text, and how it is written, belongs to its shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store, Triple

from ..changes.commit import NetChange
from ..errors import QuadrillError
from ..terms import Solution, Term, store_form
from .cut import Cut, cut
from .guard import TextLimits, needs_no_scan
from .tokens import Kind, tokens
from .update_plan import UpdateEngine, UpdatePlan, UpdateRequest, parse_all
from .update_text import Data, Modify, Piece, UpdateOperation

_SHORT = 1_000
_MOST = 500
_SAFE = r"a-z0-9_~.!$&*+,;=:@?\-"
_TAKEN = re.compile(
    rf"<[a-z][a-z0-9+.\-]*:(?://[a-z0-9.\-]+(?:/(?!\.)[{_SAFE}]*)*(?:#[{_SAFE}/]*)?|(?![.?])[{_SAFE}]+)>"
    r"|\"[^\"]*\"|:\w+(?:-\w+)*|0|[1-9][0-9]*",
    re.IGNORECASE | re.ASCII,
)
_INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
_ENDS = frozenset({Kind.VAR, Kind.IRI, Kind.PNAME, Kind.STRING, Kind.NUMBER})
_PLAIN = (NamedNode, Literal, DefaultGraph)
_OPEN = re.compile(r"[^\s]*://[^\s]*[/#]")
"""A namespace that any name makes an IRI of."""
_PREFIX = re.compile(r"(?<![^\s(,;.{])(?:[a-z][\w\-]*)?\Z", re.IGNORECASE | re.ASCII)
_TYPED = re.compile(r"\"\"\s*\^\^")
_MARK = "urn:quadrill:slot:"

Span: TypeAlias = tuple[int, int]
_Template: TypeAlias = tuple[tuple[Any, ...], ...]
"""Quads with numbers in place of terms: that of a variable, or of a constant (its complement)."""
_Pattern: TypeAlias = tuple[tuple[int, int], ...]
"""A triple pattern of the default graph: which terms of a quad are which constants; the others may be any."""


class Shapes:
    """The shapes of updates that came more than once. Safe to use from any thread: only a dict is shared."""

    def __init__(self, limits: TextLimits) -> None:
        self._limits = limits
        # True for one that came once, False for one that is planned each time.
        self._known: dict[tuple[str, str, str | None], _Shape | bool] = {}

    def plan(self, request: UpdateRequest, anew: Callable[[], UpdatePlan]) -> UpdatePlan:
        """The checked plan of a request: that of its shape, or what ``anew`` gives."""
        text = request.text
        if len(text) > _SHORT or request.prefixes or request.custom_functions or request.custom_aggregates:
            return anew()
        if not needs_no_scan(text, self._limits):
            return anew()
        parts = cut(text)
        if not all(map(_TAKEN.fullmatch, parts.constants)):
            return anew()
        key = *parts.skeleton, request.base_iri
        shape = self._known.get(key)
        if isinstance(shape, _Shape):
            return shape.plan(request, parts.constants)
        plan = anew()
        if shape is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = True
        elif shape:
            self._known[key] = _shape_of(plan, parts) or False
        return plan


class _Place(NamedTuple):
    """A place in texts of a shape: without the constants before it, of which there are so many."""

    offset: int
    constants: int

    @classmethod
    def of(cls, at: int, spans: Sequence[Span]) -> _Place:
        before = [end - start for start, end in spans if end <= at]
        return cls(at - sum(before), len(before))


class _Cut(NamedTuple):
    """A piece of texts of a shape: a template with its quads, a WHERE part with its patterns, where known."""

    piece: Piece
    start: _Place
    end: _Place
    quads: _Template | None
    patterns: tuple[_Pattern, ...] | None

    def of(self, text: str, lengths: Sequence[int], constants: Sequence[Term]) -> Piece:
        """The piece of a text: ``lengths`` of so many constants together."""
        start = self.start.offset + lengths[self.start.constants]
        end = self.end.offset + lengths[self.end.constants]
        fill = None if self.quads is None else _Filling(self.quads, constants)
        concerns = None if self.patterns is None else partial(_concerns, self.patterns, constants)
        return Piece(text[start:end], start, self.piece.variables, self.piece.blanks, fill, concerns)


class _Shape(NamedTuple):
    """A planned operation: ``cuts`` are its pieces by the names of the fields of its ``action``.

    ``namespaces`` has that of each constant, empty for those that have none.
    """

    planned: UpdatePlan
    action: Data | Modify
    cuts: tuple[tuple[str, _Cut], ...]
    end: _Place
    namespaces: Sequence[str]

    def plan(self, request: UpdateRequest, texts: Sequence[str]) -> UpdatePlan:
        """The plan of a text of this shape."""
        text, lengths = request.text, [0]
        for each in texts:
            lengths.append(lengths[-1] + len(each))
        constants = list(map(_term, texts, self.namespaces))
        (kept,) = self.planned.operations
        pieces: dict[str, Any] = {name: cut.of(text, lengths, constants) for name, cut in self.cuts}
        end = self.end.offset + lengths[self.end.constants]
        operation = UpdateOperation(self.action._replace(**pieces), kept.prologue, kept.start, end)
        where = pieces.get("where")
        parts = {} if where is None else {where.start: request.where_parts(kept.prologue, where.text)}
        return self.planned._replace(request=request, operations=(operation,), parts=parts)


class _Filling:
    """A template whose constants are known: gives its quads for solutions."""

    def __init__(self, template: _Template, constants: Sequence[Term]) -> None:
        self._ground: list[Quad] = []
        self._open: list[list[Any]] = []
        for quad in template:
            known: list[Any] = [constants[~each] if type(each) is int and each < 0 else each for each in quad]
            if int in map(type, known):
                self._open.append(known)
            else:
                self._ground.append(Quad(*known))

    def __call__(self, rows: Sequence[Solution]) -> Iterator[Quad]:
        """A quad with an unbound variable, or with a term that may not stand where it would, is left out."""
        yield from self._ground
        for row in rows if self._open else ():
            for quad in self._open:
                terms: list[Any] = [_stored(row[each]) if type(each) is int else each for each in quad]
                if not any([term is None for term in terms]):
                    try:
                        made = Quad(*terms)
                    except TypeError:
                        continue
                    yield made


def _concerns(patterns: Sequence[_Pattern], constants: Sequence[Term], change: NetChange) -> bool:
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


def _term(text: str, namespace: str) -> Term:
    match text[0]:
        case "<":
            return NamedNode(text[1:-1])
        case '"':
            return Literal(text[1:-1])
        case ":":
            return NamedNode(namespace + text[1:])
    return Literal(text, datatype=_INTEGER)


def _prefix_before(text: str, colon: int) -> str:
    """The prefix of a name; raises ValueError where something else stands before the colon."""
    found = _PREFIX.search(text, 0, colon)
    if found is None:
        raise ValueError("no prefix")
    return found[0]


# --- learning ---------------------------------------------------------------------------------------------


def _shape_of(plan: UpdatePlan, parts: Cut) -> _Shape | None:
    """The shape of a request; None where it is not one plain operation."""
    if len(plan.operations) != 1 or '""@' in parts.body or _TYPED.search(parts.body):
        return None
    spans = parts.spans(plan.request.text)
    (operation,) = plan.operations
    pieces: dict[str, Piece | None]
    variables: tuple[str, ...] = ()
    match operation.action:
        case Data(quads) as action:
            pieces = {"quads": quads}
        case Modify(None, delete, insert, (), (), where) as action:
            pieces, variables = {"delete": delete, "insert": insert, "where": where}, action.variables
        case _:
            return None
    try:
        parse_all(plan)
        templates = _Templates(plan.request, operation.prologue, spans, variables)
        if not all(map(_OPEN.fullmatch, filter(None, templates.namespaces))):
            return None
        cuts = tuple(
            (name, templates.cut(piece, is_template=name != "where"))
            for name, piece in pieces.items()
            if piece is not None
        )
    except (QuadrillError, SyntaxError, RuntimeError, ValueError):
        return None  # what is wrong is told where it is evaluated
    kept, end = plan._replace(request=UpdateRequest(""), parts={}), _Place.of(operation.end, spans)
    return _Shape(kept, action, cuts, end, templates.namespaces)


class _Templates:
    """Reads the templates of one text, by Oxigraph."""

    def __init__(
        self, request: UpdateRequest, prologue: str, spans: Sequence[Span], variables: Sequence[str]
    ) -> None:
        self._request, self._prologue = request, prologue
        self._spans, self._variables = spans, variables
        text, engine = request.text, UpdateEngine(request, Store())
        self.namespaces = [
            engine.iri_text(prologue, f"{_prefix_before(text, start)}:") if text[start] == ":" else ""
            for start, _ in spans
        ]
        texts = [text[start:end] for start, end in spans]
        self._constants = list(map(_term, texts, self.namespaces))

    def cut(self, piece: Piece, *, is_template: bool) -> _Cut:
        """A piece, cut out of texts of its shape."""
        start, end = (_Place.of(at, self._spans) for at in (piece.start, piece.start + len(piece.text)))
        quads, patterns = (self._template(piece), None) if is_template else (None, self._patterns(piece))
        return _Cut(piece._replace(text=""), start, end, quads, patterns)

    def _numbers(self, piece: Piece) -> dict[int, int]:
        """The constants of a piece by the places of their tokens in it."""
        text = self._request.text
        starts = [start - len(_prefix_before(text, start)) * (text[start] == ":") for start, _ in self._spans]
        return {start - piece.start: number for number, start in enumerate(starts)}

    def _patterns(self, piece: Piece) -> tuple[_Pattern, ...] | None:
        """What a WHERE part reads; None where it is more than triple patterns, BIND and FILTER."""
        numbers, found = self._numbers(piece), list(tokens(piece.text))
        patterns: list[_Pattern] = []
        at, last = 1, len(found) - 1
        while at < last:
            if found[at].word in ("BIND", "FILTER"):
                depth, at = 0, at + 1
                while at < last:
                    depth += (found[at].text == "(") - (found[at].text == ")")
                    if not depth or found[at].text == "{":
                        break
                    at += 1
                if found[at].text != ")":
                    return None
                at += 1
            else:
                triple, at = found[at : at + 3], at + 3
                if at > last or not all(token.kind in _ENDS or token.text == "a" for token in triple):
                    return None
                places = ((place, numbers.get(token.start)) for place, token in enumerate(triple))
                patterns.append(tuple([(place, number) for place, number in places if number is not None]))
                if found[at].text not in (".", "}") and found[at].word not in ("BIND", "FILTER"):
                    return None
            at += found[at].text == "."
        return tuple(patterns)

    def _template(self, piece: Piece) -> _Template | None:
        """The quads of a template; None where it has blank nodes or quoted triples."""
        numbers = self._numbers(piece)
        places: dict[str, int] = {}
        marked, named, at = "", "", 0
        for token in tokens(piece.text):
            place = ~numbers[token.start] if token.start in numbers else None
            if token.kind is Kind.VAR:
                place = self._variables.index(token.text[1:])
            if place is None:
                continue
            mark, before = f"<{_MARK}{place}>", piece.text[at : token.start]
            places[mark] = place
            marked += before + mark
            named += before + (mark if place >= 0 else token.text)
            at = token.end
        # Each constant must be a token of its own.
        inside = sum(0 <= place < len(piece.text) for place in numbers)
        template = self._read(marked + piece.text[at:])
        if template is None or sum(place < 0 for place in places.values()) < inside:
            return None
        found = tuple(tuple([places.get(str(term), term) for term in quad]) for quad in template)
        # Of this very text it says the same as Oxigraph, or it is not believed.
        row = tuple(NamedNode(f"{_MARK}{place}") for place in range(len(self._variables)))
        again = self._read(named + piece.text[at:])
        return (
            found
            if again is not None and set(again) == set(_Filling(found, self._constants)([row]))
            else None
        )

    def _read(self, text: str) -> list[Quad] | None:
        scratch = Store()
        scratch.update(f"{self._prologue} INSERT DATA {text}", base_iri=self._request.base_iri)
        quads = list(scratch)
        plain = all(isinstance(term, _PLAIN) for quad in quads for term in quad)
        return quads if plain else None
