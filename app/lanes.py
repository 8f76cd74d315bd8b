"""Which queries are light enough to be evaluated within the server process, where nothing can stop them.

The judgement reads tokens, not algebra: it costs some ten microseconds, and errs towards the other lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from quadrill.store.tokens import Kind, Token, tokens

BOUND = 10_000_000
"""Combinations of quads that are tried within some seconds."""
MAX_TOKENS = 2_000
MAX_SCANNED_QUADS = 2_000_000
"""A single pattern may run over that many quads before its rows are sorted or counted."""

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


@dataclass(slots=True)
class Shape:
    """What a text asks of the store, as far as tokens tell.

    Attributes:
        patterns: triple patterns.
        components: groups of patterns that share no variable; their rows are multiplied.
        anchored: every component has a pattern with a constant subject or object.
        holds_back: rows are collected before the first one comes out.
        strange: something stands here that is not judged.
    """

    patterns: int = 0
    components: int = 0
    anchored: bool = True
    holds_back: bool = False
    strange: bool = False


def is_light(text: str, quads: int) -> bool:
    """True when the evaluation over so many quads is short, or streams so that it can be stopped."""
    shape = shape_of(text)
    if shape.strange:
        return False
    if max(quads, 2) ** shape.patterns <= BOUND:
        return True
    if shape.components > 1:
        return False
    if shape.patterns <= 1:
        return shape.anchored or not shape.holds_back or quads <= MAX_SCANNED_QUADS
    return shape.anchored


@lru_cache(maxsize=2048)
def shape_of(text: str) -> Shape:
    """The shape of a query text."""
    if len(text) > 20 * MAX_TOKENS:
        return Shape(strange=True)
    found: list[Token] = []
    for token in tokens(text):
        found.append(token)
        if len(found) > MAX_TOKENS:
            return Shape(strange=True)
    return _Reader(found).read()


@dataclass(slots=True)
class _Reader:
    """Walks through a text and collects its triple patterns."""

    found: list[Token]
    shape: Shape = field(default_factory=Shape)
    groups: list[tuple[set[str], bool]] = field(default_factory=list)

    def read(self) -> Shape:
        for block in self._blocks():
            self._patterns(block)
        self.shape.components = len(self.groups)
        self.shape.anchored = all(anchored for _, anchored in self.groups)
        return self.shape

    def _blocks(self) -> Iterator[list[Token]]:
        """Runs of tokens between braces and keywords: each holds triple patterns or nothing."""
        depth, selects, position = 0, 0, 0
        block: list[Token] = []
        while position < len(self.found):
            token = self.found[position]
            word = token.word
            position += 1
            if word in _HOLDING_BACK:
                self.shape.holds_back = True
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
            elif depth and word and word not in ("A", "TRUE", "FALSE"):
                yield block
                block = []
                if word == "GRAPH":
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
        ends = (subject, object_)
        names = {token.text[1:] for token in (*ends, *verb) if token.kind is Kind.VAR}
        names |= {token.text for token in ends if token.kind is Kind.BLANK}
        anchored = any(token.kind not in (Kind.VAR, Kind.BLANK) for token in ends)
        joined = [group for group in self.groups if group[0] & names]
        for group in joined:
            self.groups.remove(group)
            names |= group[0]
            anchored = anchored or group[1]
        if names:
            self.groups.append((names, anchored))
