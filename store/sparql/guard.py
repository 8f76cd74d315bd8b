"""What is checked of a text before Oxigraph gets it: length, nesting, and calls that would reach the network.

Oxigraph's parser and evaluator recurse: a text of 10 KB with 2,300 nested braces overflows a thread's 8 MB
stack and ends the process, and so do long chains of UNION, OPTIONAL or ``||`` (they nest to one side). So the
height of a text is measured first; over `TextLimits.inline_height` it is evaluated in a thread with a big
stack, over `TextLimits.height` it is refused. SERVICE reaches any host by default, so it is found here by its
token. The tokens are ours and the grammar is Oxigraph's; where the two may read a text differently
(`tokens.is_doubtful`), the worse reading counts.

Oxigraph's keywords need no border: it reads ``SERVICE:x {}``, ``SERVICESILENT<x>{}`` and ``trueSERVICE<x>{}``
as calls. Whatever could be a call and is not written as a plain one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import LimitError, NetworkRefusedError, QueryTextError, UnsupportedError
from ..hosts import AllowedHosts
from .tokens import Token, TokenKind, excerpt_at, line_and_column

_CALL_WORD = re.compile("service|load", re.IGNORECASE)
_SPACE = r"[ \t\r\n]*+"
# Nothing is read twice: a name that holds another call word, or a comment in between, counts as a call.
_HERE = "(?:service|load)"
_PREFIXED = rf"(?:(?!{_HERE})[^\s{{}}<>\"'?$:])*+:"
_NAMED = rf"(?:<[^<>]*+>|[?$]\w++|{_PREFIXED}(?:(?!{_HERE})[^\s{{}}<>\"'#\\]|\\.)*+)"
_CALL = re.compile(
    rf"service{_SPACE}(?:silent{_SPACE})?+(?:\#|{_NAMED}(?:{_HERE}|{_SPACE}[{{#]))"
    rf"|load{_SPACE}(?:silent{_SPACE})?+(?:\#|<[^<>]*+>|[?$]|{_PREFIXED})",
    re.IGNORECASE,
)
_SERVICE_PREFIX = re.compile(r"service(?:silent)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits on one query or update text.

    Attributes:
        characters: length of the text.
        height: nesting, chains of operators and group members counted in.
        inline_height: up to here a text is evaluated in the calling thread; the smallest texts that overflow
            an 8 MB stack are above 2,000.
        quads: of INSERT DATA and DELETE DATA together, counted by the signs between them.
    """

    characters: int = 128 * 1024 * 1024
    height: int = 10_000
    inline_height: int = 1_000
    quads: int = 1_000_000

    @property
    def tokens(self) -> int:
        """How many a text may have: a quad has a dozen at most. Reading them is what costs time."""
        return max(1_000_000, 16 * self.quads)


class ServiceCall(NamedTuple):
    """A SERVICE call of a text: the token of its endpoint, from ``start`` to ``end``.

    ``nested``: it stands within the group of another one, whose endpoint evaluates it.
    """

    token: str
    start: int
    end: int
    silent: bool
    nested: bool


@dataclass(frozen=True, slots=True)
class TextFacts:
    """The findings of the guard about a text.

    Attributes:
        height: nesting; 0 when the text is too short to matter.
        services: the IRI tokens that SERVICE names.
        calls: the same calls with their places.
    """

    height: int
    services: tuple[str, ...]
    calls: tuple[ServiceCall, ...] = field(default=(), compare=False)


def check_length(text: str, limits: TextLimits) -> None:
    """Refuse a text that is too long.

    Raises:
        LimitError: it is.
    """
    if len(text) > limits.characters:
        raise LimitError(
            f"the text has {len(text):,} characters, the limit is {limits.characters:,}",
            hint="send large data as RDF to the graph store, not inside an update",
        )


def check_services(facts: TextFacts, hosts: AllowedHosts, resolve: Callable[[str], str]) -> None:
    """Refuse a text whose SERVICE calls, SILENT ones excepted, reach other hosts than those allowed.

    Args:
        facts: what `inspect_text` found.
        hosts: the allowed hosts.
        resolve: IRI token to absolute IRI (prefixes and base applied).

    Raises:
        NetworkRefusedError: a host is not allowed.
    """
    for call in facts.calls:
        if call.silent and not call.nested:
            continue  # its host is checked when it is called: SILENT hides a refusal, too
        token = call.token
        if not hosts:
            raise NetworkRefusedError(
                f"SERVICE {token} is refused: no host is allowed",
                hint="an administrator can allow the host in the settings",
            )
        hosts.require(resolve(token), "SERVICE")


def may_call(text: str) -> bool:
    """False for a text that has no call; every query passes here, so the usual ones need no regex."""
    if text.isascii():
        small = text.lower()
        return "service" in small or "load" in small
    return bool(_CALL_WORD.search(text))


class CallFinder:
    """Collects the calls of a text, token by token.

    Attributes:
        services: the SERVICE calls.
    """

    def __init__(self, text: str) -> None:
        self.services: list[ServiceCall] = []
        self._text = text
        self._seen: set[int] = set()
        self._after_service = self._silent = False
        # The depth outside of the group of an outer call, whose brace may be still to come.
        self._outside: int | None = None
        self._suspect: Token | None = None
        self._last: Token | None = None
        self._depth = 0

    def add_token(self, token: Token) -> None:
        """Read the next token.

        Raises:
            UnsupportedError: SERVICE with a variable.
            QueryTextError: a SERVICE without a border.
        """
        word = token.word
        if self._after_service and word != "SILENT":
            self._after_service = False
            if token.kind in (TokenKind.IRI, TokenKind.PNAME):
                nested = self._outside is not None
                self.services.append(ServiceCall(token.text, token.start, token.end, self._silent, nested))
                if not nested:
                    self._outside = self._depth
            elif token.kind is TokenKind.VAR:
                raise UnsupportedError(
                    "SERVICE with a variable",
                    "SERVICE with a variable is refused: its host could not be checked",
                    hint="name the endpoint by its IRI",
                )
        elif self._after_service:
            self._silent = True
        elif word == "SERVICE":
            self._after_service, self._silent = True, False
            self._seen.add(token.start)
        elif word == "LOAD":
            self._seen.add(token.start)
        elif "SERVICE" in word:
            raise self._borderless(token)
        if self._suspect is not None and token.text == "{":
            raise self._borderless(self._suspect)
        self._suspect = token if self._may_be_service(token) else None
        if token.kind is TokenKind.PUNCT:
            self._depth += (token.text == "{") - (token.text == "}")
            if token.text == "}" and self._depth == self._outside:
                self._outside = None
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
        if token.kind is not TokenKind.PNAME or self._depth == 0:
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
