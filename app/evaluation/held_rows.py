"""Which WHERE parts of updates hold few rows back, so that they may be evaluated within the server.

Oxigraph collects rows before it gives the first one where it sorts, groups, removes duplicates, subtracts and
joins by hash. Nothing can stop it there, and nothing counts what it collects. What streams is counted by
whoever takes the rows.

    { ?s :a ?x . ?s :b ?y }                              streams
    { ?j :is ?s { SELECT ?j { ?j :at ?t } ORDER BY ?t } }    holds as many rows as there are quads
    { SELECT * { ?a :p ?x . ?b :p ?x } ORDER BY ?a }     the square of that

It reads tokens as `admission` does, and what is not known there counts as holding much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from quadrill.store.sparql.cut import MOST_CHARACTERS, cut
from quadrill.store.sparql.tokens import Kind, Token, tokens
from quadrill.store.sparql.update_plan import HeldBackError

from .admission import MAX_SCANNED_QUADS, shape_of

MOST_ROWS = 500_000
"""Rows that one WHERE part may hold back, or give, within the server: 100 to 200 MB."""
_UNKNOWN = 1_000
"""So many patterns hold more than any store has room for."""


@dataclass(frozen=True, slots=True)
class Room:
    """What may be held back within the server; ``quads`` counts those of the store.

    ``rows`` of several patterns, or ``scanned`` rows of one.
    """

    quads: Callable[[], int]
    rows: int = MOST_ROWS
    scanned: int = MAX_SCANNED_QUADS

    def admit(self, where: str, pending: int) -> None:
        """Raise HeldBackError when a part may hold back too much, with so many changes made before it."""
        shape = where_shape(cut(where).body)
        if not self.has(shape.held if shape.streams else shape.patterns, pending):
            raise HeldBackError("a WHERE part of the update may hold back too many rows")

    def has(self, held: int, pending: int = 0) -> bool:
        """True when the rows of so many triple patterns together may be held back."""
        most = max(self.rows, self.scanned) if held == 1 else self.rows
        return not held or (held < _UNKNOWN and max(self.quads() + pending, 2) ** held <= most)

    def take(self, rows: int) -> None:
        """Raise HeldBackError when a part gives too many rows."""
        if rows > self.rows:
            raise HeldBackError("a WHERE part of the update has too many solutions")


class NoRoom:
    """A `Room` that leaves every WHERE part to a worker process, which can be killed."""

    def admit(self, where: str, pending: int) -> None:
        """Raise HeldBackError."""
        raise HeldBackError("a WHERE part of the update calls a function that may take long")

    def take(self, rows: int) -> None:
        """Accept every number of rows: none are evaluated here."""


@dataclass(frozen=True, slots=True)
class WhereShape:
    """How much a WHERE part holds back, in triple patterns: a power of the number of quads.

    Attributes:
        held: of the largest group that is evaluated by itself: a sub-query, OPTIONAL, MINUS, UNION.
        patterns: of the whole part, but for EXISTS, which is asked row by row.
        streams: what stands outside such groups is connected, and is not collected to be joined with one.
    """

    held: int
    patterns: int
    streams: bool


@dataclass(slots=True)
class _Group:
    """A group while it is read: its text without the groups in it, whose patterns are counted.

    ``kind`` is ``graph`` for a part of the group around it, ``dropped`` for what holds nothing back,
    ``right`` behind OPTIONAL and MINUS, else ``joined``. In the text around it, it begins at ``cut``.
    """

    kind: str
    cut: int
    start: int
    text: list[str] = field(default_factory=list)
    patterns: int = 0
    joins: bool = False


@lru_cache(maxsize=2048)
def where_shape(where: str) -> WhereShape:
    """The shape of a WHERE part, or of the template of one, with its braces."""
    unknown = WhereShape(_UNKNOWN, _UNKNOWN, False)
    if len(where) > MOST_CHARACTERS:
        return unknown
    stack = [_Group("joined", 0, 0)]
    before: list[Token] = []  # the tokens since the last brace
    held, outer = 0, None
    for token in tokens(where):
        if token.kind is Kind.PUNCT and token.text == "{":
            if outer is not None:
                return unknown
            kind, cut = _kind(before, token)
            group = stack[-1]
            group.text.append(where[group.start : cut])
            stack.append(_Group(kind, cut, token.end))
            before = []
        elif token.kind is Kind.PUNCT and token.text == "}":
            if len(stack) < 2:
                return unknown
            group, around = stack.pop(), stack[-1]
            group.text.append(where[group.start : token.start])
            text, around.start = " ".join(group.text), token.end
            before = []
            if group.kind == "graph":
                around.text.append(f"{where[group.cut : where.index('{', group.cut)]}{{{text}}}")
                around.patterns += group.patterns
                around.joins |= group.joins
                continue
            if group.kind == "dropped":
                continue
            shape = shape_of(text if _is_select(text) else f"SELECT * {{{text}}}")
            own = _UNKNOWN if shape.strange else shape.patterns
            around.patterns += own + group.patterns
            if len(stack) > 1:
                held = max(held, own + group.patterns)
                around.joins |= group.kind == "joined"
            elif _is_select(text):
                outer = WhereShape(max(held, own + group.patterns), own + group.patterns, True)
            else:
                streams = not shape.strange and shape.components <= 1 and (own <= 1 or not group.joins)
                outer = WhereShape(held, own + group.patterns, streams)
        else:
            before.append(token)
    return unknown if outer is None or len(stack) > 1 else outer


def _is_select(text: str) -> bool:
    return text.lstrip()[:6].upper() == "SELECT"


def _kind(before: list[Token], brace: Token) -> tuple[str, int]:
    """What a brace opens, by the tokens before it, and where that begins."""
    words = [token.word for token in before[-3:]]
    if words[-1:] == ["EXISTS"] and "FILTER" in words:
        return "dropped", before[-3 + words.index("FILTER") + 3 - len(words)].start
    if words[-2:-1] == ["GRAPH"]:
        return "graph", before[-2].start
    for at in range(len(before) - 1, -1, -1):
        if before[at].word == "VALUES":
            return "dropped", before[at].start
        if before[at].kind is not Kind.VAR and before[at].text not in ("(", ")"):
            break
    return "right" if words[-1:] in (["OPTIONAL"], ["MINUS"]) else "joined", brace.start
