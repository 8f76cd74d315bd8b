"""The guard: checks the length, nesting and network calls of a SPARQL text before Oxigraph gets the text.

Oxigraph's parser and evaluator recurse: a text of 10 KB with 2,300 nested braces overflows a thread's 8 MB
stack and ends the process, and so do long chains of UNION, OPTIONAL or ``||`` (Oxigraph nests them to one
side). The guard therefore measures the height of a SPARQL text: the depth of its syntax tree. A SPARQL text
higher than `TextLimits.inline_height` is evaluated in a thread with a big stack, a text higher than
`TextLimits.height` is refused. By default Oxigraph's SERVICE reaches any host, so the guard finds SERVICE
tokens. Quadrill's tokeniser and Oxigraph's grammar may read a text differently (`tokens.is_doubtful`); then
the guard assumes the more dangerous reading.

Oxigraph's keywords need no white space around them: Oxigraph reads ``SERVICE:x {}``, ``SERVICESILENT<x>{}``
and ``trueSERVICE<x>{}`` as calls. The guard refuses a text that may contain a SERVICE call which the
tokeniser does not see as separate tokens.
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
# No character is matched twice by the expression: a name that contains a call word, or a comment in between,
# counts as a call.
_HERE = "(?:service|load)"
_PREFIXED = rf"(?>(?!{_HERE})[^\s{{}}<>\"'?$:])*+:"
_NAMED = rf"(?:<[^<>]*+>|[?$]\w++|{_PREFIXED}(?>(?!{_HERE})[^\s{{}}<>\"'#\\]|\\.)*+)"
_CALL = re.compile(
    rf"service{_SPACE}(?>silent{_SPACE})?+(?:\#|{_NAMED}(?:{_HERE}|{_SPACE}[{{#]))"
    rf"|load{_SPACE}(?>silent{_SPACE})?+(?:\#|<[^<>]*+>|[?$]|{_PREFIXED})",
    re.IGNORECASE,
)
_SERVICE_PREFIX = re.compile(r"service(?:silent)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits on one query or update text.

    Attributes:
        characters: maximum length of the text.
        height: maximum height of the syntax tree; chains of operators and of group members count as levels.
        inline_height: maximum height of a text that is evaluated in the calling thread; the smallest texts
            that overflow an 8 MB stack are higher than 2,000.
        quads: maximum number of quads in INSERT DATA and DELETE DATA together, counted by separators.
    """

    characters: int = 128 * 1024 * 1024
    height: int = 10_000
    inline_height: int = 1_000
    quads: int = 1_000_000

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of a text: at least a million, and 16 for each allowed quad."""
        return max(1_000_000, 16 * self.quads)


class ServiceCall(NamedTuple):
    """A SERVICE call of a text: ``token`` is the token that names its endpoint.

    The positions of this token in the text are ``start`` and ``end``.

    A ``nested`` SERVICE call stands inside another SERVICE call, whose endpoint evaluates the nested call.
    """

    token: str
    start: int
    end: int
    silent: bool
    nested: bool


@dataclass(frozen=True, slots=True)
class TextFacts:
    """The findings of the guard about a SPARQL text.

    Attributes:
        height: height of the syntax tree; 0 if the text is too short to need a measurement.
        services: the tokens of the endpoints that SERVICE calls name.
        calls: the SERVICE calls with their positions.
    """

    height: int
    services: tuple[str, ...]
    calls: tuple[ServiceCall, ...] = field(default=(), compare=False)


def check_length(text: str, limits: TextLimits) -> None:
    """Check the length of a SPARQL text.

    Raises:
        LimitError: the text is longer than ``limits.characters``.
    """
    if len(text) > limits.characters:
        raise LimitError(
            f"the text has {len(text):,} characters, the limit is {limits.characters:,}",
            hint="send large data as RDF to the graph store, not inside an update",
        )


def check_services(facts: TextFacts, hosts: AllowedHosts, resolve: Callable[[str], str]) -> None:
    """Check the hosts of SERVICE calls, except for SILENT calls that are not nested.

    Args:
        facts: the result of `inspect_text` for the text.
        hosts: the allowed hosts.
        resolve: maps the token of an endpoint to its absolute IRI (prefixes and base applied).

    Raises:
        NetworkRefusedError: a SERVICE call names a host that is not allowed.
    """
    for call in facts.calls:
        if call.silent and not call.nested:
            # The host of a SILENT call is checked when it is called, because SILENT must hide a refusal as
            # well.
            continue
        token = call.token
        if not hosts:
            raise NetworkRefusedError(
                f"SERVICE {token} is refused: no host is allowed",
                hint="an administrator can allow the host in the settings",
            )
        hosts.require(resolve(token), "SERVICE")


def may_call(text: str) -> bool:
    """Return False if a text cannot contain SERVICE or LOAD; fast, because every query is checked."""
    if text.isascii():
        small = text.lower()
        return "service" in small or "load" in small
    return bool(_CALL_WORD.search(text))


class CallFinder:
    """Finds the SERVICE and LOAD calls of a text, token by token.

    Attributes:
        services: the SERVICE calls found so far.
    """

    def __init__(self, text: str) -> None:
        self.services: list[ServiceCall] = []
        self._text = text
        self._seen: set[int] = set()
        self._after_service = self._silent = False
        # The brace depth around the outermost open SERVICE call; the brace of its group may follow later.
        self._outside: int | None = None
        self._suspect: Token | None = None
        self._last: Token | None = None
        self._depth = 0

    def add_token(self, token: Token) -> None:
        """Inspect the next token of the SPARQL text for SERVICE and LOAD calls.

        Raises:
            UnsupportedError: SERVICE has a variable for its endpoint.
            QueryTextError: Oxigraph would read a SERVICE call inside a longer word.
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
        """Check a text with a doubtful ``<`` for SERVICE and LOAD calls that the tokeniser may have missed.

        Raises:
            NetworkRefusedError: the text may contain a SERVICE or LOAD call.
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
        # Oxigraph reads ``service:x {`` as a call, unless ``service:x`` names a graph: after GRAPH inside
        # braces, or after FROM and DESCRIBE outside of braces.
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
