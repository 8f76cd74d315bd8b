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

from quadrill.continuous.expressions.choices import MUCH, LimitedCalls
from quadrill.continuous.expressions.growing import concat, encode_for_uri, plain_replace
from quadrill.continuous.expressions.values import Maybe
from quadrill.continuous.rows import Budget, Limits
from quadrill.store.errors import LimitError
from quadrill.store.sparql.tokens import Kind, Token, is_doubtful, tokens

_WORDS = ("concat", "replace", "encode_for_uri")
_CALL = re.compile(rf"(?:{'|'.join(_WORDS)})(?:\s++|#[^\r\n]*+)*+\(", re.IGNORECASE)
_FUNCTIONS: dict[str, Callable[..., Maybe]] = {
    "CONCAT": concat,
    "REPLACE": plain_replace,
    "ENCODE_FOR_URI": encode_for_uri,
}
_NAMES = {name: NamedNode(f"urn:quadrill:limited:{name.lower()}") for name in _FUNCTIONS}
_THIRD = 2
_SHORT = 4_096


@dataclass(frozen=True, slots=True)
class Limited:
    """A text that calls our functions in place of SPARQL's; ``check`` raises when one was over a limit."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]]
    check: Callable[[], None]


def grows(text: str) -> bool:
    """True when a value could become many times as long as what is read."""
    small = text.lower()
    if not any([word in small for word in _WORDS]) or not _CALL.search(text):
        return False
    return (_judged if len(text) <= _SHORT else _judged.__wrapped__)(text)


@lru_cache(maxsize=512)
def _judged(text: str) -> bool:
    return _calls(text)[1] > MUCH


def limited(text: str, longest: int, together: int) -> Limited | None:
    """The text with its calls limited where it `grows`; else None.

    Args:
        text: a query or an update.
        longest: characters of one value at most; 0 for no limit.
        together: of all values at most; 0 for no limit.

    Raises:
        LimitError: it grows, and may hide a call.
    """
    if not grows(text):
        return None
    found, _, doubtful = _calls(text)
    if doubtful:
        raise LimitError(
            "the text may hide calls that make long values",
            hint="write spaces around every '<' that compares",
        )
    pieces, end = [], 0
    for token in found:
        pieces += [text[end : token.start], str(_NAMES[token.word])]
        end = token.end
    calls = LimitedCalls(Budget(Limits(text=longest, bytes=together)))
    functions = {_NAMES[name]: calls.of(function) for name, function in _FUNCTIONS.items()}
    return Limited("".join([*pieces, text[end:]]), functions, calls.begun())


@dataclass(slots=True)
class _Bracket:
    """An open bracket: the function before it, the place of the argument, and the tokens of that."""

    name: str
    argument: int = 0
    tokens: list[Token] = field(default_factory=list)
    factor: float = 1.0

    def next_argument(self) -> None:
        """An argument has ended."""
        if self.name == "REPLACE" and self.argument == _THIRD:
            # What is no string in the text may be of any length.
            one = len(self.tokens) == 1 and self.tokens[0].kind is Kind.STRING
            self.factor = len(self.tokens[0].text) if one else float("inf")
        self.argument += 1
        self.tokens.clear()


def _calls(text: str) -> tuple[list[Token], float, bool]:
    """The calls, how many times as long they could make a value one behind the other, and if in doubt."""
    found: list[Token] = []
    factor, doubtful = 1.0, False
    brackets: list[_Bracket] = []
    previous: Token | None = None
    for token in tokens(text):
        doubtful = doubtful or is_doubtful(text, token, previous)
        if token.text == "(":
            name = previous.word if previous is not None and previous.word in _FUNCTIONS else ""
            if previous is not None and name:
                found.append(previous)
            brackets.append(_Bracket(name))
        elif brackets and token.text == ",":
            brackets[-1].next_argument()
        elif brackets and token.text == ")":
            closed = brackets.pop()
            closed.next_argument()
            factor *= {"CONCAT": closed.argument, "REPLACE": closed.factor, "ENCODE_FOR_URI": 3}.get(
                closed.name, 1
            )
            if brackets:
                brackets[-1].tokens.append(token)
        elif brackets and len(brackets[-1].tokens) <= 1:
            brackets[-1].tokens.append(token)
        previous = token
    return found, float("inf") if doubtful else factor, doubtful
