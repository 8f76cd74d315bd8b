"""The rules about scopes that Oxigraph does not check: SPARQL 1.1 sections 18.2.1, 19.6 and 19.8 (notes).

    SELECT (MAX(?t) AS ?t) { ... ?t ... }       an alias that its own pattern binds, or a key of GROUP BY
    SELECT (COUNT(SUM(?t)) AS ?n) { ... }       an aggregate in an aggregate
    ... GROUP BY (STR(?t) AS ?t)                a key named as something that is bound already
    { _:a ?p ?o BIND(1 AS ?x) _:a ?q ?y }       one label in two basic graph patterns

Behind a GROUP BY only its keys are in scope (W3C test sparql12/syntax/group-by-scope-1). Oxigraph checks the
first rule in SELECT clauses without aggregates. The text is read as tokens, as the guard does. A text that
could break none of them is not read at all (`may_break_scopes`), which is what most small queries are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from ..errors import QueryTextError
from .tokens import Kind, Token, checked, excerpt_at, line_and_column, tokens

_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
_ALIAS = re.compile(r"\bAS[ \t\r\n]*+[?$](\w++)", re.IGNORECASE)
_VARIABLE = re.compile(r"[?$](\w++)")
_AGGREGATE = re.compile(r"\b(?:count|sum|min|max|avg|sample|group_concat)[ \t\r\n]*+\(")
_WORDS = ("count", "sum", "min", "max", "avg", "sample", "group")
_MOST_CHARACTERS = 200_000
"""Longer texts are inline data, which has no scopes; reading them would cost more than asking."""

_CHOOSE = "Choose another name."


def check_scopes(
    text: str, whole: str | None = None, start: int = 0, check: Callable[[], None] = lambda: None
) -> None:
    """Refuse a query, or the WHERE part of an update, that breaks one of the rules.

    Queries are checked where clients send them, since those that the program writes break none.

    Args:
        text: what is read.
        whole: the text that it was cut out of, where places are told.
        start: its offset there.
        check: called now and then, ends the reading by an error.

    Raises:
        QueryTextError: it does, with the place.
    """
    if not may_break_scopes(text):
        return
    reader = _Reader(text if whole is None else whole, start)
    for token in checked(tokens(text), check):
        reader.take(token)
    reader.end()


def may_break_scopes(text: str) -> bool:
    """False for a text that needs no reading: what Oxigraph does not check cannot be wrong in it."""
    lower = text.lower()
    if "_:" in lower and ("bind" in lower or "values" in lower) and len(text) <= _MOST_CHARACTERS:
        return True
    # What has neither aggregates nor groups is checked by Oxigraph.
    if not any(word in lower for word in _WORDS) or len(text) > _MOST_CHARACTERS:
        return False
    return _may_nest(lower) or _may_name_again(text, lower)


def _may_nest(lower: str) -> bool:
    """An aggregate may stand in another: not all that was open is closed before the next one begins."""
    found = list(_AGGREGATE.finditer(lower))
    if len(found) < 2:
        return False
    if '"' in lower or "'" in lower or "#" in lower:
        return True
    return any(
        lower.count("(", one.end(), two.start()) >= lower.count(")", one.end(), two.start())
        for one, two in pairwise(found)
    )


def _may_name_again(text: str, lower: str) -> bool:
    """An alias is named twice, or elsewhere; behind the pattern of a query without sub-queries it may be."""
    aliases = _ALIAS.findall(text)
    if not aliases:
        return False
    one = lower.count("select") == 1
    times = Counter(_VARIABLE.findall(text, 0, text.rfind("}") + 1 if one else len(text)))
    return len(set(aliases)) < len(aliases) or any(times[name] > 1 for name in aliases)


@dataclass(slots=True)
class _Select:
    """A SELECT while it is read: its clause, its pattern, what stands behind."""

    part: str = "clause"
    star: bool = False
    names: set[str] = field(default_factory=set)
    aliases: dict[str, Token] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    keys: set[str] | None = None
    values: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Frame:
    """What an open bracket holds; the text itself is the outermost.

    Attributes:
        visible: the variables that are in scope around it.
        hides: they are not told to what stands around.
        alias: what ``AS`` names in it.
        in_aggregate: it stands in the arguments of an aggregate.
        labels: of blank nodes, in the basic graph pattern that is being read.
        ended: labels of patterns that have ended.
    """

    opener: str
    hides: bool = False
    in_aggregate: bool = False
    visible: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    alias: Token | None = None
    select: _Select | None = None
    hides_next: bool = False


class _Reader:
    """Walks through a text with a stack of its open brackets, however deep they are."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._frames = [_Frame("{")]
        self._last: Token | None = None

    def take(self, token: Token) -> None:
        frame = self._frames[-1]
        match token.kind, token.text:
            case Kind.PUNCT, "{" | "(":
                self._open(token, frame)
            case Kind.PUNCT, "}" | ")":
                self._close(token.text)
            case Kind.PUNCT, "*":
                if frame.select is not None and frame.select.part == "clause":
                    frame.select.star = True
            case Kind.VAR, _:
                self._variable(token, frame)
            case Kind.BLANK, _:
                self._label(token, frame)
            case Kind.WORD, _:
                self._word(token.word, frame)
        self._last = token

    def end(self) -> None:
        """The text is over."""
        while self._frames:
            self._finish(self._frames.pop())

    def _word(self, word: str, frame: _Frame) -> None:
        select = frame.select
        if word == "SELECT":
            frame.select = _Select()
        elif select is not None:
            if word in ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES"):
                select.part = word
                if word == "GROUP":
                    select.keys = set()
        elif word in ("FILTER", "MINUS", "BIND", "EXISTS"):
            frame.hides_next = True
        if word in ("BIND", "VALUES", "UNION", "OPTIONAL", "MINUS", "GRAPH", "SERVICE"):
            frame.ended |= frame.labels
            frame.labels.clear()

    def _open(self, token: Token, frame: _Frame) -> None:
        called = self._last is not None and self._last.word in _AGGREGATES and token.text == "("
        if called and frame.in_aggregate:
            assert self._last is not None
            raise self._refused(
                f"the aggregate {self._last.word} cannot stand in the argument of an aggregate",
                self._last,
                "Use a sub-query.",
            )
        inner = _Frame(token.text, frame.hides_next)
        select = frame.select
        if token.text == "(":
            inner.in_aggregate = called or frame.in_aggregate
            inner.hides = inner.hides or (select is not None and select.part != "VALUES")
            # A collection belongs to the pattern around it.
            inner.labels, inner.ended = frame.labels, frame.ended
        frame.hides_next = False
        self._frames.append(inner)

    def _close(self, closer: str) -> None:
        if len(self._frames) == 1:
            return
        inner = self._frames.pop()
        frame = self._frames[-1]
        self._finish(inner)
        select = frame.select
        told = set() if inner.hides else inner.visible
        if closer == "}" and select is not None and select.part in ("clause", "FROM", "WHERE"):
            select.bound, select.part = told, "behind"
        elif select is not None and select.part == "VALUES":
            select.values = _union(select.values, told)
        elif select is None:
            frame.visible = _union(frame.visible, told)
        if inner.alias is not None:
            self._alias(inner.alias, frame)

    def _alias(self, alias: Token, frame: _Frame) -> None:
        """``(expression AS ?alias)`` has ended: in SELECT, GROUP BY or BIND."""
        select, name = frame.select, alias.text[1:]
        if select is None:
            frame.visible.add(name)
        elif select.part == "clause":
            if name in select.names or name in select.aliases:
                raise self._used("SELECT", alias)
            select.aliases[name] = alias
        elif select.part == "GROUP" and select.keys is not None:
            if name in select.bound or name in select.keys:
                raise self._used("GROUP BY", alias)
            select.keys.add(name)

    def _variable(self, token: Token, frame: _Frame) -> None:
        select, name = frame.select, token.text[1:]
        if frame.opener == "(" and self._last is not None and self._last.word == "AS":
            frame.alias = token
        elif select is None:
            frame.visible.add(name)
        elif select.part == "clause":
            select.names.add(name)
        elif select.part == "GROUP" and select.keys is not None:
            select.keys.add(name)
        elif select.part == "VALUES":
            select.values.add(name)

    def _label(self, token: Token, frame: _Frame) -> None:
        if token.text in frame.ended:
            raise self._refused(
                f"the blank node {token.text} is used in two basic graph patterns",
                token,
                f"Use a variable such as ?{token.text[2:]} instead.",
            )
        frame.labels.add(token.text)

    def _finish(self, frame: _Frame) -> None:
        """A group with a SELECT has ended: everything that its aliases must not name is known."""
        select = frame.select
        if select is None:
            return
        in_scope = select.bound if select.keys is None else select.keys
        for name, alias in select.aliases.items():
            if name in in_scope or name in select.values:
                raise self._used("SELECT", alias)
        frame.visible = _union(in_scope, select.values) if select.star else select.names.union(select.aliases)

    def _used(self, place: str, alias: Token) -> QueryTextError:
        return self._refused(f"{place} cannot set ?{alias.text[1:]}: it is already used", alias, _CHOOSE)

    def _refused(self, what: str, token: Token, hint: str) -> QueryTextError:
        line, column = line_and_column(self._text, self._start + token.start)
        return QueryTextError(
            f"line {line}, column {column}: {what}",
            line=line,
            column=column,
            excerpt=excerpt_at(self._text, line, column),
            hint=hint,
        )


def _union(one: set[str], other: set[str]) -> set[str]:
    """Both, in the larger of them: what a deep text holds inside is not copied at each level."""
    small, large = sorted((one, other), key=len)
    large |= small
    return large
