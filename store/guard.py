"""What is checked before a text is handed to Oxigraph: nesting, and calls that would reach the network.

Oxigraph's parser and evaluator recurse: a text of 10 KB with 2,300 nested braces overflows a thread's 8 MB
stack and ends the process, and so do long chains of UNION, OPTIONAL or ``||`` (they nest to one side). So the
height of a text is measured first; over `Limits.inline_height` it is evaluated in a thread with a big stack,
over `Limits.height` it is refused. SERVICE reaches any host by default, so it is found here by its token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import LimitError, QueryTextError, StoreError, UnsupportedError
from .tokens import Kind, Token, excerpt_at, line_and_column, tokens


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one query or update text.

    Attributes:
        characters: length of the text.
        height: nesting, chains of operators and group members counted in.
        inline_height: up to here a text is evaluated in the calling thread; the smallest texts that overflow
            an 8 MB stack are above 2,000.
    """

    characters: int = 128 * 1024 * 1024
    height: int = 10_000
    inline_height: int = 1_000


class NetworkRefusedError(StoreError):
    """A query or update would reach a host that is not on the allow-list."""

    code = "host-not-allowed"


class AllowedHosts:
    """The hosts that SERVICE and LOAD may reach: ``example.org`` (any port) or ``example.org:8080``.

    None by default. Only http and https IRIs are ever allowed.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def allows(self, iri: str) -> bool:
        """True when a request to ``iri`` may be made."""
        try:
            parts = urlsplit(iri)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not host:
            return False
        named = port or (443 if parts.scheme == "https" else 80)
        shown = f"[{host}]" if ":" in host else host
        return host in self._hosts or shown in self._hosts or f"{shown}:{named}" in self._hosts

    def require(self, iri: str, construct: str) -> None:
        """Check that ``iri`` may be reached.

        Raises:
            NetworkRefusedError: it may not.
        """
        if not self.allows(iri):
            raise NetworkRefusedError(
                f"{construct} <{iri}> is refused: the host is not on the list of allowed hosts",
                hint="an administrator can allow the host in the settings",
                iri=iri,
            )


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What the guard learnt: ``height`` (0: too short to matter), and the IRI tokens that SERVICE names."""

    height: int
    services: tuple[str, ...]


def inspect_text(text: str, limits: Limits) -> TextFacts:
    """Measure a query or update text.

    Raises:
        LimitError: the text is too long or nests too deeply.
        UnsupportedError: SERVICE with a variable; the host could not be checked.
    """
    if len(text) > limits.characters:
        raise LimitError(
            f"the text has {len(text):,} characters, the limit is {limits.characters:,}",
            hint="send large data as RDF to the graph store, not inside an update",
        )
    # Each step of height needs a character, so a short text needs no scan unless it may call a service.
    if len(text) <= min(limits.height, limits.inline_height) and "service" not in text.lower():
        return TextFacts(0, ())
    height = _Height(text, limits)
    services: list[str] = []
    service_open = False
    for token in tokens(text):
        height.take(token)
        word = token.word
        if service_open and word != "SILENT":
            service_open = False
            if token.kind in (Kind.IRI, Kind.PNAME):
                services.append(token.text)
            elif token.kind is Kind.VAR:
                raise UnsupportedError(
                    "SERVICE with a variable",
                    "SERVICE with a variable is refused: its host could not be checked",
                    hint="name the endpoint by its IRI",
                )
        elif word == "SERVICE":
            service_open = True
    return TextFacts(height.measured(), tuple(services))


def check_services(facts: TextFacts, hosts: AllowedHosts, resolve: Callable[[str], str]) -> None:
    """Refuse a text whose SERVICE calls reach other hosts than those allowed.

    Args:
        facts: what `inspect_text` found.
        hosts: the allowed hosts.
        resolve: IRI token to absolute IRI (prefixes and base applied).

    Raises:
        NetworkRefusedError: a host is not allowed.
    """
    for token in facts.services:
        if not hosts:
            raise NetworkRefusedError(
                f"SERVICE {token} is refused: no host is allowed",
                hint="an administrator can allow the host in the settings",
            )
        hosts.require(resolve(token), "SERVICE")


_CHAINS = frozenset({"||", "&&", "+", "-", "*", "/", "|", "^", "!", "=", "!=", "<", ">", "<=", ">="})
_CHAIN_WORDS = frozenset(
    {"UNION", "OPTIONAL", "MINUS", "BIND", "FILTER", "VALUES", "LATERAL", "EXISTS", "AS"}
)
_OPERANDS = frozenset({Kind.IRI, Kind.PNAME, Kind.VAR, Kind.BLANK, Kind.STRING, Kind.NUMBER})
_PAIRS = {"(": ")", "[": "]", "{": "}", "<<": ">>", "{|": "|}"}
_CLOSERS = frozenset(_PAIRS.values())
_SCHEME = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:")


class _Height:
    """The height of the tree that a recursive parser builds, from brackets and chains.

    height(group) = 1 + links of its own chain + the greatest height among its inner groups.
    """

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limit = limits.height
        self._own = [0]
        self._inner = [0]
        self._brackets = [""]
        self._sum = 0  # depth plus the chains of all open groups
        self._last: Token | None = None
        self._data_depth: int | None = None  # inside INSERT DATA and DELETE DATA, which are flat

    def take(self, token: Token) -> None:
        kind, text = token.kind, token.text
        if kind is Kind.PUNCT:
            if text in _PAIRS:
                self._open(text)
            elif text in _CLOSERS:
                self._close()
            elif self._data_depth is None and (text in _CHAINS or self._separates_patterns(text)):
                self._link()
        elif self._data_depth is None and self._lengthens(token):
            self._link()
        if self._sum + self._inner[-1] > self._limit:
            line, column = line_and_column(self._text, token.start)
            raise LimitError(
                f"the text nests deeper than {self._limit:,} levels at line {line}, column {column}",
                hint="split the query, or write long lists of alternatives as VALUES",
                line=line,
                column=column,
                excerpt=excerpt_at(self._text, line, column),
            )
        self._last = token

    def measured(self) -> int:
        while len(self._own) > 1:  # a text that leaves brackets open nests all the same
            self._close()
        return self._own[0] + self._inner[0]

    def _separates_patterns(self, text: str) -> bool:
        # The triple patterns of a group are joined to one side; arguments and IN lists are flat.
        return text in (".", ";") or (text == "," and self._brackets[-1] in ("{", "["))

    def _lengthens(self, token: Token) -> bool:
        if token.word in _CHAIN_WORDS:
            return True
        # Members of a collection become triples; in ?a-1 the sign of the subtraction is part of the number.
        last = self._last
        return (
            self._brackets[-1] == "("
            and token.kind in _OPERANDS
            and last is not None
            and last.kind in _OPERANDS
        )

    def _open(self, bracket: str) -> None:
        # Groups side by side join to one side, and so they nest; other brackets side by side do not.
        if bracket == "{" and self._data_depth is None:
            if self._last is not None and self._last.word == "DATA":
                self._data_depth = len(self._own)
            else:
                self._link()
        self._own.append(0)
        self._inner.append(0)
        self._brackets.append(bracket)
        self._sum += 1

    def _close(self) -> None:
        if len(self._own) == 1:
            return
        own, inner = self._own.pop(), self._inner.pop()
        self._brackets.pop()
        self._sum -= own + 1
        self._inner[-1] = max(self._inner[-1], own + inner + 1)
        if self._data_depth == len(self._own):
            self._data_depth = None

    def _link(self) -> None:
        self._own[-1] += 1
        self._sum += 1


def text_error(
    text: str, message: str, *, base_iri: str | None = None, prefixes: Iterable[str] = ()
) -> QueryTextError:
    """Oxigraph's syntax error as ours: line, column, excerpt and, for the usual slips, a hint.

    Its parser backtracks, so its place may lie behind the slip; an undeclared prefix or a relative IRI
    without a base is found here by its token and told at its own place.

    Args:
        text: the text that the user sent.
        message: the parser's message, ``error at line:column: expected ...``.
        base_iri: the base given beside the text.
        prefixes: the prefixes given beside the text.
    """
    line, column, expected = _place(message)
    slip = _slip(text, base_iri is not None, prefixes)
    if slip is not None:
        token, what, hint = slip
        line, column = line_and_column(text, token.start)
    elif line is None or column is None:
        return QueryTextError(message)
    else:
        what, hint = _shorten(expected), None
    return QueryTextError(
        f"syntax error at line {line}, column {column}: {what}",
        line=line,
        column=column,
        excerpt=excerpt_at(text, line, column),
        hint=hint,
    )


def _place(message: str) -> tuple[int | None, int | None, str]:
    head, _, rest = message.partition(": ")
    place = head.removeprefix("error at ").split(":")
    if head.startswith("error at ") and len(place) == 2 and all(part.isdigit() for part in place):
        return int(place[0]), int(place[1]), rest
    return None, None, message


def _shorten(expected: str) -> str:
    for plain in (
        "Prefix not found",
        "IRI parsing failed",
        "Variables and blank nodes are not allowed in DELETE DATA",
        "Blank nodes are not allowed in DELETE WHERE",
        "The SELECT contains a variable that is unbound",
    ):
        if plain in expected:
            return plain[0].lower() + plain[1:]
    # The parser's character classes say nothing to a person.
    names = [name.strip() for name in expected.removeprefix("expected ").removeprefix("one of ").split(", ")]
    shown = [name for name in names if name and not name.startswith("[") and "|" not in name]
    return f"expected {' or '.join(shown)}" if shown else "unexpected text"


def _slip(text: str, base: bool, prefixes: Iterable[str]) -> tuple[Token, str, str] | None:
    """The first token that is wrong whatever stands around it, what it is, and how to mend it."""
    declared = set(prefixes)
    previous: Token | None = None
    for token in tokens(text):
        before = previous.word if previous is not None else ""
        previous = token
        if token.kind is Kind.PNAME:
            prefix = token.text.partition(":")[0]
            if before == "PREFIX":
                declared.add(prefix)
            elif prefix not in declared:
                return (
                    token,
                    f"the prefix {prefix}: is not declared",
                    f"add PREFIX {prefix}: <...> at the beginning",
                )
        elif token.kind is Kind.IRI and before == "BASE":
            base = True
        elif token.kind is Kind.IRI and not base and not _SCHEME.match(token.text):
            return token, f"the relative IRI {token.text} has no base", "write the full IRI, or declare BASE"
    return None
