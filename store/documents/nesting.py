"""Check of the nesting depth of documents, in linear time, before a recursive parser reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, repeat
from operator import itemgetter
from typing import Any

_SHORT = r"{0}[^{0}\\\r\n]*+(?>\\.[^{0}\\\r\n]*+)*+{0}?+"
_LONG = r"{0}{0}{0}(?>[^{0}\\]++|\\.|{0}(?!{0}{0}))*+(?>{0}{0}{0})?+"
# An unterminated string extends to its last possible end, because the text after it cannot be valid. A
# backslash outside of strings escapes the next character, as in the name ``ex:it\'s``.
_NOT_BRACKETS = "|".join(
    [*(form.format(quote) for form in (_LONG, _SHORT) for quote in "\"'"), r"\\.|#[^\r\n]*+|<(?!<)[^<>\s]*+>"]
)
_JSON = r'"[^"\\]*+(?>\\.[^"\\]*+)*+"?+|[\[{]|[\]}]'
_TURTLE = rf"{_NOT_BRACKETS}|<<|>>|[\[{{(]|[\]}})]"
_TRIPLE_TERMS = rf"{_NOT_BRACKETS}|<<|>>"
_OF_TEXT = {source: re.compile(source, re.DOTALL) for source in (_JSON, _TURTLE)}
_OF_BYTES = {source: re.compile(source.encode(), re.DOTALL) for source in (_JSON, _TURTLE, _TRIPLE_TERMS)}
_AS_BRACES = bytes.maketrans(b"[]", b"{}")
_NOT_SIGNS = bytes(set(range(256)) - set(b'[]{}"'))
_LISTED = 1 << 20
_STEPS: dict[str | bytes, int] = {"<<": 1, "[": 1, "{": 1, "(": 1, ">>": -1, "]": -1, "}": -1, ")": -1}
_STEPS |= {sign.encode(): step for sign, step in _STEPS.items() if isinstance(sign, str)}


def deep_line_of_json(document: str | bytes, limit: int) -> int | None:
    """Return the line at which a JSON text nests deeper than ``limit``; None if it does not."""
    if _is_flat(document, limit):
        return None
    return _deep_line(document, _JSON, limit)


def _is_flat(document: str | bytes, limit: int) -> bool:
    """Return True if removing innermost pairs of brackets ``limit`` times leaves no bracket.

    The result can be False for flat texts with brackets in strings, and for texts that are not JSON.
    """
    left = document if isinstance(document, bytes) else document.encode(errors="surrogatepass")
    if b"\\" in left:
        left = left.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = left.translate(_AS_BRACES, _NOT_SIGNS).replace(b'""', b"")
    for _ in range(limit):
        before, left = left, left.replace(b"{}", b"")
        if len(left) == len(before):
            break
    return not left


def deep_line_of_turtle(text: str | bytes, limit: int) -> int | None:
    """Return the line at which brackets and triple terms of Turtle or TriG nest deeper than ``limit``."""
    return _deep_line(text, _TURTLE, limit)


def deep_line_of_triple_terms(document: bytes, limit: int) -> int | None:
    """Return the line at which triple terms nest deeper than ``limit``; None if they do not."""
    return _deep_line(document, _TRIPLE_TERMS, limit)


def _deep_line(document: str | bytes, source: str, limit: int) -> int | None:
    depths = accumulate(map(_STEPS.get, _signs(document, source), repeat(0)))
    if max(depths, default=0) <= limit:
        return None
    depth = 0
    for match in _matches(document, source):
        depth += _STEPS.get(match[0], 0)
        if depth > limit:
            before = document[: match.start()]
            return (before.count("\n") if isinstance(before, str) else before.count(b"\n")) + 1
    return None


def _signs(document: str | bytes, source: str) -> Iterable[Any]:
    """Return an RDF text's brackets, and the strings and other tokens in which brackets do not count.

    The tokens are a list for short documents, where a list is faster.
    """
    if len(document) > _LISTED:
        return map(itemgetter(0), _matches(document, source))
    if isinstance(document, str):
        return _OF_TEXT[source].findall(document)
    return _OF_BYTES[source].findall(document)


def _matches(document: str | bytes, source: str) -> Iterator[re.Match[Any]]:
    if isinstance(document, str):
        return _OF_TEXT[source].finditer(document)
    return _OF_BYTES[source].finditer(document)
