"""Which queries are light enough to be evaluated within the server process, where nothing can stop them.

The judgement reads tokens, not algebra: it costs some ten microseconds, and errs towards the workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from quadrill.store.sparql.cut import MOST_CHARACTERS, Cut, cut
from quadrill.store.sparql.tokens import Kind, Token, tokens

BOUND = 10_000_000
"""Combinations of quads that are tried within some seconds."""
MAX_TOKENS = 2_000
MAX_SCANNED_QUADS = 2_000_000
"""A single pattern may run over that many quads before its rows are sorted or counted."""
MOST_HELD = 1_000_000
"""Combinations that may be sorted, grouped or kept apart: a row of three variables takes 200 bytes."""
MOST_JOINED = 100_000
"""Combinations whose texts GROUP_CONCAT may put together; nothing limits its result within the server."""

_SHORT_CHARACTERS = 1_000
_GROUP = r"\{(?:[^{}]|\{[^{}]*+\})*+\}\s*"
_SHORT_UPDATE = re.compile(
    rf"\s*(?:(?:INSERT|DELETE)\s+DATA\s*{_GROUP}"
    rf"|(?:DELETE\s*{_GROUP})?(?:INSERT\s*{_GROUP})?WHERE\s*(?P<where>{_GROUP})"
    rf"|DELETE\s+WHERE\s*(?P<both>{_GROUP}))",
    re.IGNORECASE | re.ASCII,
)

_TERMS = frozenset({Kind.IRI, Kind.PNAME, Kind.VAR, Kind.BLANK, Kind.STRING, Kind.NUMBER})
_STRANGE_WORDS = frozenset({"VALUES", "SERVICE", "DESCRIBE", "LATERAL"})
_HOLDING_BACK = frozenset(
    {
        "ORDER",
        "GROUP",
        "DISTINCT",
        "REDUCED",
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "SAMPLE",
        "GROUP_CONCAT",
        "HAVING",
    }
)
_EXPRESSION_WORDS = frozenset({"FILTER", "BIND", "HAVING"})


SLOW_SECONDS = 1.0
MAX_SLOW_TEXTS = 1000


class SlowTexts:
    """Texts that took long although they were taken for light: the next time they go to a worker."""

    def __init__(self, after_seconds: float = SLOW_SECONDS) -> None:
        self.texts: dict[str, None] = {}
        self.after_seconds = after_seconds

    def ended(self, text: str, seconds: float) -> None:
        """Learn from an evaluation within the server."""
        if seconds < self.after_seconds or len(text) > MOST_CHARACTERS:
            return
        if len(self.texts) >= MAX_SLOW_TEXTS:
            self.texts.clear()
        self.texts[text] = None


@dataclass(slots=True)
class Shape:
    """The shape of a query's patterns, as far as tokens tell it.

    Attributes:
        patterns: triple patterns.
        components: groups of patterns that share no variable; their rows are multiplied.
        anchored: every pattern has a constant subject or object, or its subject is reached from such a one by
            going from subjects to objects. Going backwards, from an object that many share to all its
            subjects, is what makes a join explode.
        holds_back: rows are collected before the first one comes out.
        concatenates: texts of many rows are put together.
        strange: something stands here that is not judged.
    """

    patterns: int = 0
    components: int = 0
    anchored: bool = True
    holds_back: bool = False
    concatenates: bool = False
    strange: bool = False


def _unknown_size(graph: str) -> int | None:
    return None


def is_light(
    text: str,
    quads: int,
    size_of: Callable[[str], int | None] = _unknown_size,
    parts: Cut | None = None,
) -> bool:
    """True when the evaluation over so many quads is short, or streams so that it can be stopped.

    Args:
        text: the query.
        quads: in the whole store.
        size_of: the number of quads in a named graph, None where there is no such graph. It is asked for
            graphs that a query names which would be heavy otherwise.
        parts: the text cut, where that is done.
    """
    if len(text) > MOST_CHARACTERS:
        return False
    body = (parts or cut(text)).body
    return _is_light(body, quads) or (_names_graphs(body) and _is_bounded_by_its_graphs(text, quads, size_of))


def is_short_update(text: str) -> bool:
    """True for one operation with data, or with a WHERE part that goes along quads from known terms."""
    return len(text) <= _SHORT_CHARACTERS and _is_short_update(cut(text).body)


@lru_cache(maxsize=2048)
def _is_short_update(template: str) -> bool:
    operation = _SHORT_UPDATE.fullmatch(template)
    if operation is None:
        return False
    shape = _shape_of_template(f"SELECT * {operation['where'] or operation['both'] or '{}'}")
    return shape.anchored and shape.components <= 1 and not (shape.strange or shape.holds_back)


def shape_of(text: str) -> Shape:
    """The shape of a query text."""
    return _shape_of_template(cut(text).body)


@lru_cache(maxsize=2048)
def _is_light(template: str, quads: int) -> bool:
    shape = _shape_of_template(template)
    if shape.strange:
        return False
    if max(quads, 2) ** shape.patterns <= _most(shape):
        return True
    if shape.components > 1:
        return False
    if shape.patterns <= 1:
        return shape.anchored or not shape.holds_back or quads <= MAX_SCANNED_QUADS
    return shape.anchored


def _most(shape: Shape) -> int:
    return MOST_JOINED if shape.concatenates else MOST_HELD if shape.holds_back else BOUND


@lru_cache(maxsize=2048)
def _names_graphs(template: str) -> bool:
    """True for a query that is judged and in which GRAPH stands with a name."""
    return "GRAPH" in template.upper() and not _shape_of_template(template).strange


def _is_bounded_by_its_graphs(text: str, quads: int, size_of: Callable[[str], int | None]) -> bool:
    """True when the sizes of the graphs that are named leave few combinations of quads to try."""
    reader = _TokenReader(list(tokens(text)))
    if reader.read().strange:
        return False
    combinations = 1
    for graph in reader.graphs:
        name = None if graph is None else _absolute(graph, reader.found)
        size = None if name is None else size_of(name)
        combinations *= max(quads if size is None else size, 2)
        if combinations > _most(reader.shape):
            return False
    return True


def _absolute(name: Token, found: list[Token]) -> str | None:
    """The IRI that a token stands for; None where it had to be resolved against another or unescaped."""
    iri = name.text[1:-1]
    if name.kind is Kind.PNAME:
        prefix, _, local = name.text.partition(":")
        declared = {
            found[at + 1].text: found[at + 2].text[1:-1]
            for at in range(len(found) - 2)
            if found[at].word == "PREFIX"
        }
        iri = declared.get(f"{prefix}:", "") + local
    # Segments of dots may go when an IRI is resolved, even one that is absolute.
    return iri if _SCHEME.match(iri) and "\\" not in iri and not _DOTS.search(iri) else None


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_DOTS = re.compile(r"[:/]\.")


@lru_cache(maxsize=2048)
def _shape_of_template(text: str) -> Shape:
    if len(text) > MOST_CHARACTERS:
        return Shape(strange=True)
    found: list[Token] = []
    for token in tokens(text):
        found.append(token)
        if len(found) > MAX_TOKENS:
            return Shape(strange=True)
    return _TokenReader(found).read()


@dataclass(slots=True)
class _TokenReader:
    """Walks through a text and collects its triple patterns.

    ``graphs`` has for each of them the name behind the GRAPH around it, None where nothing tells how large
    that graph is.
    """

    found: list[Token]
    shape: Shape = field(default_factory=Shape)
    groups: list[set[str]] = field(default_factory=list)
    walks: list[_Walk] = field(default_factory=list)
    graphs: list[Token | None] = field(default_factory=list)
    _around: list[Token | None] = field(default_factory=lambda: [None])

    def read(self) -> Shape:
        for block in self._blocks():
            self._patterns(block)
        self.shape.components = len(self.groups)
        self.shape.anchored = self._anchored()
        return self.shape

    def _anchored(self) -> bool:
        reached: set[str] = set()
        left = self.walks
        while left:
            later = [walk for walk in left if not walk.is_open(reached)]
            if len(later) == len(left):
                return False
            for walk in left:
                if walk.is_open(reached):
                    reached |= walk.names
            left = later
        return True

    def _blocks(self) -> Iterator[list[Token]]:
        """Runs of tokens between braces and keywords: each holds triple patterns or nothing."""
        depth, selects, position = 0, 0, 0
        block: list[Token] = []
        inside: Token | None = None
        while position < len(self.found):
            token = self.found[position]
            word = token.word
            position += 1
            if word in _HOLDING_BACK:
                self.shape.holds_back = True
                self.shape.concatenates |= word == "GROUP_CONCAT"
            if word == "SELECT":
                selects += 1
            if word in _STRANGE_WORDS or selects > 1 or token.text in ("[", "<<", "{|"):
                self.shape.strange = True
                return
            if word == "CONSTRUCT" and position < len(self.found) and self.found[position].text == "{":
                position = self._after_braces(position)
            elif word in _EXPRESSION_WORDS or (depth and token.text == "("):
                yield block
                block = []
                position = self._after_expression(position if token.text != "(" else position - 1)
            elif token.text in ("{", "}"):
                depth += 1 if token.text == "{" else -1
                yield block
                block = []
                if token.text == "{":
                    self._around.append(inside)
                elif len(self._around) > 1:
                    self._around.pop()
                inside = self._around[-1]
            elif depth and word and word not in ("A", "TRUE", "FALSE"):
                yield block
                block = []
                if word == "GRAPH" and position < len(self.found):
                    inside = self.found[position] if self.found[position].kind in _NAMED else None
                    position += 1
            elif depth:
                block.append(token)

    def _after_braces(self, position: int) -> int:
        """The place behind a template: writing it out costs no search."""
        depth = 0
        while position < len(self.found):
            depth += (self.found[position].text == "{") - (self.found[position].text == "}")
            position += 1
            if not depth:
                break
        return position

    def _after_expression(self, position: int) -> int:
        """The place behind a bracketed expression; one with EXISTS is strange, its patterns multiply work."""
        depth = 0
        while position < len(self.found):
            token = self.found[position]
            if token.word == "EXISTS" or token.text == "{":
                self.shape.strange = True
            depth += (token.text == "(") - (token.text == ")")
            position += 1
            if depth == 0 and (token.text == ")" or (token.kind in _TERMS and not self._calls(position))):
                break
        return position

    def _calls(self, position: int) -> bool:
        return position < len(self.found) and self.found[position].text == "("

    def _patterns(self, block: list[Token]) -> None:
        """Triple patterns of one block; ``;`` repeats the subject, ``,`` the verb as well."""
        parts: list[Token] = []
        subject: Token | None = None
        for token in [*block, None]:
            text = "." if token is None else token.text
            if text in (".", ";", ","):
                if len(parts) >= 3 or (subject is not None and parts):
                    subject = parts[0] if len(parts) >= 3 else subject
                    assert subject is not None
                    verb = parts[1:-1] if len(parts) >= 3 else parts[:-1]
                    self._pattern(subject, verb, parts[-1])
                elif parts:
                    self.shape.strange = True
                parts = []
                if text == ".":
                    subject = None
            elif token is not None and (token.kind is Kind.LANG or (parts and parts[-1].text == "^^")):
                continue
            elif token is not None:
                parts.append(token)

    def _pattern(self, subject: Token, verb: list[Token], object_: Token) -> None:
        if any(token.text in ("*", "+") or token.text.startswith(("*", "+")) for token in verb):
            # A closure may run over everything that can be reached.
            self.shape.strange = True
        self.shape.patterns += 1
        # A path tries more than one quad at a time.
        self.graphs.append(self._around[-1] if len(verb) == 1 else None)
        ends = (subject, object_)
        if any(token.text == "^" for token in verb):
            ends = (object_, subject)
            # A longer path may go to and fro.
            self.shape.strange |= len(verb) > 2
        names = {_name(token) for token in (*ends, *verb) if token.kind in _OPEN}
        self.walks.append(
            _Walk(_name(ends[0]), any(token.kind not in _OPEN for token in ends), frozenset(names))
        )
        for group in [group for group in self.groups if group & names]:
            self.groups.remove(group)
            names |= group
        if names:
            self.groups.append(names)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A pattern as a step: from its subject, or from a constant end, to all its variables."""

    start: str
    constant: bool
    names: frozenset[str]

    def is_open(self, reached: set[str]) -> bool:
        return self.constant or self.start in reached


_NAMED = frozenset({Kind.IRI, Kind.PNAME})
_OPEN = frozenset({Kind.VAR, Kind.BLANK})


def _name(token: Token) -> str:
    return token.text[1:] if token.kind is Kind.VAR else token.text
