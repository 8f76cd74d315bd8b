"""Texts whose expressions could make long values of short ones, found by their tokens, and limits for them.

    BIND(CONCAT(?a, ?a) AS ?b) BIND(CONCAT(?b, ?b) AS ?c) ...      each doubles: 25 make 32 MB of a letter

Such a query goes to a worker, whose memory is limited. In an update, and where no worker is, the calls are
written as functions of ours that count (docs/decisions/0031-fixed-choices.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.scalar_functions import OUTSIDE
from quadrill.continuous.expressions.choices import MUCH, LimitedCalls
from quadrill.continuous.expressions.growing import concat, corrected_replace, encode_for_uri, written_replace
from quadrill.continuous.expressions.values import Maybe
from quadrill.continuous.rows import Budget, Limits
from quadrill.store.errors import LimitError
from quadrill.store.sparql.tokens import Kind, Token, checked, is_doubtful, tokens

_WORDS = ("concat", "replace", "encode_for_uri")
# Comments may stand before the bracket. They are not read here: a line of many names and signs of comments
# would be read once for each of them.
_CALL_NAME = re.compile(rf"(?:{'|'.join(_WORDS)})(?=\s*+[#(])", re.IGNORECASE)
_FUNCTIONS: dict[str, Callable[..., Maybe]] = {
    "CONCAT": concat,
    "REPLACE": written_replace,
    "ENCODE_FOR_URI": encode_for_uri,
}
_ENDS = tuple(_FUNCTIONS)
_NAMES = {name: NamedNode(f"urn:quadrill:limited:{name.lower()}") for name in _FUNCTIONS}
_THIRD = 2
_SHORT = 4_096
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_MOST_TOKENS = 100_000
_AS_LONG_AS_A_TOKEN = 64
"""Characters, comments among them, that take as long to read as a token."""


@dataclass(frozen=True, slots=True)
class Limited:
    """A text that calls our functions in place of SPARQL's; ``check`` raises when one was over a limit."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]]
    check: Callable[[], None]


def grows(text: str) -> bool:
    """True when a value could become many times as long as what is read, in bytes of UTF-8."""
    return _growing(text, _no_check) is not None


def _no_check() -> None:
    """Let everything be read."""


def _growing(text: str, check: Callable[[], None]) -> _Reading | None:
    """What the tokens of a text tell that `grows`; None for others."""
    small = text.lower()
    if not any([word in small for word in _WORDS]) or not _CALL_NAME.search(text):
        return None
    return _judged(text) if len(text) <= _SHORT else _read(text, check)


@lru_cache(maxsize=512)
def _judged(text: str) -> _Reading | None:
    return _read(text, _no_check)


def limited(
    text: str,
    longest: int,
    together: int,
    check: Callable[[], None] = _no_check,
    *,
    corrected: bool = False,
) -> Limited | None:
    """The text with its calls limited where it `grows`; else None.

    Args:
        text: a query or an update.
        longest: characters of one value at most; 0 for no limit.
        together: of all values at most; 0 for no limit.
        check: called now and then while the text is read, ends that by an error.
        corrected: replacements of REPLACE are already written as Oxigraph reads them.

    Raises:
        LimitError: it grows, and may hide a call: a '<' in it can be read in two ways.
    """
    reading = _growing(text, check)
    if reading is None:
        return None
    if reading.doubtful:
        raise LimitError(
            "the text may hide calls that make long values",
            hint="write spaces around every '<' that compares",
        )
    pieces, end = [], 0
    for token in reading.calls:
        name = _function(token)
        pieces += [text[end : token.end - len(name)], str(_NAMES[name])]
        end = token.end
    calls = LimitedCalls(Budget(Limits(text=longest, bytes=together)))
    functions = {_NAMES[name]: calls.of(function) for name, function in _FUNCTIONS.items()}
    if corrected:
        functions[_NAMES["REPLACE"]] = calls.of(corrected_replace)
    return Limited("".join([*pieces, text[end:]]), functions, calls.begun())


def limited_results(
    functions: Mapping[NamedNode, Callable[..., Any]] | None, longest: int, together: int
) -> Limited | None:
    """The functions with the results of those of extensions limited; None where there are none.

    Args:
        functions: what a text calls.
        longest: characters of one value at most; 0 for no limit.
        together: of all values at most; 0 for no limit.
    """
    if not functions or not OUTSIDE:
        return None
    calls = LimitedCalls(Budget(Limits(text=longest, bytes=together)))
    return Limited("", calls.results(functions), calls.begun())


@dataclass(slots=True)
class _Bracket:
    """An open bracket: its sign, the function before it, the place of the argument and its tokens."""

    sign: str
    name: str
    argument: int = 0
    tokens: list[Token] = field(default_factory=list)
    third: float = 1.0

    def next_argument(self) -> None:
        """An argument has ended."""
        if self.name == "REPLACE" and self.argument == _THIRD:
            # What is no string in the text may be of any length. A pattern that matches nothing puts the
            # string between all letters, so a string of one letter doubles.
            one = len(self.tokens) == 1 and self.tokens[0].kind is Kind.STRING
            self.third = len(self.tokens[0].text.encode()) - 1 if one else float("inf")
        self.argument += 1
        self.tokens.clear()

    def factor(self) -> float:
        """How many times as long as its longest argument the value of the call could be, in bytes.

        ENCODE_FOR_URI writes each byte of a letter by three.
        """
        return {"CONCAT": self.argument, "REPLACE": self.third, "ENCODE_FOR_URI": 3}.get(self.name, 1)


class _Reading:
    """What the tokens of a text tell, read one by one.

    Attributes:
        calls: the names of functions that are called.
        factor: how many times as long the calls could make a value, one behind the other.
        doubtful: a ``<`` may have been misread, which may hide calls and arguments.
        cut: such a ``<`` was read as a comparison, by which what follows may be lost in a comment or string.
        brackets: those that are open.
    """

    __slots__ = ("_previous", "_text", "brackets", "calls", "cut", "doubtful", "factor")

    def __init__(self, text: str) -> None:
        self.calls: list[Token] = []
        self.factor = 1.0
        self.doubtful = self.cut = False
        self.brackets: list[_Bracket] = []
        self._text = text
        self._previous: Token | None = None

    def take(self, token: Token) -> None:
        """Read the next token."""
        brackets, previous = self.brackets, self._previous
        if token.text[:1] == "<" and self._in_doubt(token):
            self.doubtful = True
            self.cut = self.cut or token.kind is Kind.PUNCT
        if token.kind is Kind.PUNCT and token.text in _CLOSING:
            name = "" if previous is None or token.text != "(" else _function(previous)
            if previous is not None and name:
                self.calls.append(previous)
            brackets.append(_Bracket(token.text, name))
        elif brackets and token.text == ",":
            brackets[-1].next_argument()
        elif brackets and token.kind is Kind.PUNCT and token.text in _OPENING:
            closed = brackets.pop()
            closed.next_argument()
            self.factor *= closed.factor()
            if brackets:
                brackets[-1].tokens.append(token)
        elif brackets and len(brackets[-1].tokens) <= 1:
            brackets[-1].tokens.append(token)
        self._previous = token

    def _in_doubt(self, token: Token) -> bool:
        """True for a sign that may be misread; outside parentheses nothing compares, so an IRI is one."""
        within = bool(self.brackets) and self.brackets[-1].sign == "("
        if token.kind is Kind.IRI and not within:
            return False
        return is_doubtful(self._text, token, self._previous, "'#(),")


def _read(text: str, check: Callable[[], None]) -> _Reading | None:
    """A text as its tokens tell it; None when nothing grows in it."""
    reading = _Reading(text)
    for token in checked(tokens(text), check):
        reading.take(token)
    much = reading.factor > MUCH or (reading.doubtful and _worst(text, reading) > MUCH)
    return reading if much else None


def _worst(text: str, reading: _Reading) -> float:
    """The most that a doubtful text could make of a value: whatever looks like a call is one.

    From the name of a call on only one reading is left until the next doubtful sign, so each is read alone.
    """
    seen = {token.end for token in reading.calls}
    factor, left = 1.0, _MOST_TOKENS
    for match in _CALL_NAME.finditer(text):
        alone, end = _Reading(text), match.end()
        for token in tokens(text, match.start()):
            left -= 1 + (token.end - end) // _AS_LONG_AS_A_TOKEN
            if left < 0:
                return float("inf")
            if end == match.end() < token.end:
                if token.text != "(":
                    break  # a name, no call
                if reading.cut and end not in seen:
                    return float("inf")
            end = token.end
            opened = alone.brackets[-1] if alone.brackets else None
            if opened is not None and _OPENING.get(token.text, opened.sign) != opened.sign:
                break  # no call: its brackets do not match
            alone.take(token)
            if alone.doubtful:
                return float("inf")
            if opened is not None and not alone.brackets:
                factor *= opened.factor()
                break
    return factor


def _function(token: Token) -> str:
    """The function of ours that a word ends with, or nothing; keywords before it need no border."""
    word = token.word
    if not word.endswith(_ENDS) or word.endswith("GROUP_CONCAT"):
        return ""
    return next(name for name in _FUNCTIONS if word.endswith(name))
