"""The places of a text that would make Oxigraph reach the network: SERVICE in patterns, LOAD in updates.

Oxigraph's keywords need no border: it reads ``SERVICE:x {}``, ``SERVICESILENT<x>{}`` and ``trueSERVICE<x>{}``
as calls. Whatever could be a call and is not written as a plain one is refused.
"""

from __future__ import annotations

import re

from ..errors import NetworkRefusedError, QueryTextError, UnsupportedError
from .tokens import Kind, Token, excerpt_at, line_and_column

CALL_WORD = re.compile("service|load", re.IGNORECASE)


def may_call(text: str) -> bool:
    """False for a text that has no call; every query passes here, so the usual ones need no regex."""
    if text.isascii():
        small = text.lower()
        return "service" in small or "load" in small
    return bool(CALL_WORD.search(text))


_SKIP = r"(?:[ \t\r\n]|\#[^\r\n]*[\r\n])*"
_NAME = r"(?:<[^<>]*>|[^\s{}<>\"'?$]*:[^\s{}<>\"']*|[?$]\w+)"
_CALL = re.compile(
    rf"service{_SKIP}(?:silent)?{_SKIP}{_NAME}{_SKIP}\{{|load{_SKIP}(?:silent)?{_SKIP}{_NAME}", re.IGNORECASE
)
_SERVICE_PREFIX = re.compile(r"service(?:silent)?$", re.IGNORECASE)


class CallFinder:
    """Collects the calls of a text, token by token.

    Attributes:
        services: the IRI tokens that SERVICE names.
    """

    def __init__(self, text: str) -> None:
        self.services: list[str] = []
        self._text = text
        self._seen: set[int] = set()
        self._after_service = False
        self._suspect: Token | None = None
        self._last: Token | None = None
        self._depth = 0

    def take(self, token: Token) -> None:
        """Read the next token.

        Raises:
            UnsupportedError: SERVICE with a variable.
            QueryTextError: a SERVICE without a border.
        """
        word = token.word
        if self._after_service and word != "SILENT":
            self._after_service = False
            if token.kind in (Kind.IRI, Kind.PNAME):
                self.services.append(token.text)
            elif token.kind is Kind.VAR:
                raise UnsupportedError(
                    "SERVICE with a variable",
                    "SERVICE with a variable is refused: its host could not be checked",
                    hint="name the endpoint by its IRI",
                )
        elif word == "SERVICE":
            self._after_service = True
            self._seen.add(token.start)
        elif word == "LOAD":
            self._seen.add(token.start)
        elif "SERVICE" in word:
            raise self._borderless(token)
        if self._suspect is not None and token.text == "{":
            raise self._borderless(self._suspect)
        self._suspect = token if self._may_be_service(token) else None
        if token.kind is Kind.PUNCT:
            self._depth += (token.text == "{") - (token.text == "}")
        self._last = token

    def require_nothing_hidden(self) -> None:
        """Refuse a text with a possible call not seen as one; for texts with a doubtful ``<``.

        Raises:
            NetworkRefusedError: there is one.
        """
        for match in _CALL.finditer(self._text):
            if match.start() not in self._seen:
                line, column = line_and_column(self._text, match.start())
                raise NetworkRefusedError(
                    f"the text at line {line}, column {column} may hide a call to the network",
                    hint="write spaces around every '<' that compares, and full IRIs",
                    line=line,
                    column=column,
                )

    def _may_be_service(self, token: Token) -> bool:
        # ``service:x {`` is a call unless it names a graph: GRAPH inside braces, FROM and DESCRIBE outside.
        if token.kind is not Kind.PNAME or self._depth == 0:
            return False
        if not _SERVICE_PREFIX.search(token.text.partition(":")[0]):
            return False
        return self._last is None or self._last.word != "GRAPH"

    def _borderless(self, token: Token) -> QueryTextError:
        line, column = line_and_column(self._text, token.start)
        return QueryTextError(
            f"{token.text[:60]!r} at line {line}, column {column} is read as a SERVICE call",
            line=line,
            column=column,
            excerpt=excerpt_at(self._text, line, column),
            hint="write spaces around SERVICE, or a '.' before a group",
        )
