r"""SPARQL texts split into a skeleton and the constants that stand in the skeleton's holes.

    SELECT ?o { <http://e/a> ex:p ?o, "c", 12 }  ->  SELECT ?o { <> ex: ?o, "", 0 }  <http://e/a> :p "c" 12

Texts that differ only in constants have equal skeletons and share one analysis. A skeleton is SPARQL as well:
a constant without its content is a token of the same kind. The prologue, functions, datatypes and language
tags of a text stay in its skeleton. If a comment, an escape or a single quotation mark makes the ends of
constants doubtful, the whole text is its own skeleton.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_CHARACTERS = 40_000
"""Maximum length in characters of a text that is split; a longer text is its own skeleton."""

_IN_IRI = r"[^<>\"{}|^`\\\x00-\x20]"
_ANY_IRI = rf"<{_IN_IRI}*+>"
_PROLOGUE = re.compile(
    rf"(?>\s*+(?:PREFIX\s++[\w\-.]*+:\s*+|BASE\s*+){_ANY_IRI})*+\s*+", re.IGNORECASE | re.ASCII
)
_MAY_BEGIN = "PpBb \t\r\n\f\v"
_DECLARES = re.compile(r"(?<![\w?$:])(?:prefix|base)(?!\w)", re.IGNORECASE)
# All alternatives of the expression begin with one set of characters, so that its search skips other text
# fast. An IRI constant without // may hold no operator sign: ?a<b:c&&?d>e:f is two comparisons and no IRI.
_CONSTANT = re.compile(
    rf"""([<":0-9](?:
    (?<=<)(?:(?>[A-Za-z][A-Za-z0-9+.\-]*+:(?://{_IN_IRI}*+|[^<>"{{}}|^`\\\x00-\x20(),&=!?$]*+))?+>(?>\s*+\()?+
        |{_IN_IRI}*+>\s*+\()
    |(?<=")[^"\\\r\n]*+"(?>@[A-Za-z0-9\-]*+|\s*+\^\^\s*+(?>{_ANY_IRI}|[\w\-.]*+:[\w\-.]*+)?+)?+
    |(?<=:)(?<!_:)\w*+(?>-\w++)*+(?=[\s,;)}}])(?!\s*+\()
    |(?<=\s[0-9])[0-9]{{0,17}}+(?=[\s),;}}]|\Z)
    ))""",
    re.ASCII | re.VERBOSE,
)


class SplitText(NamedTuple):
    """A SPARQL text split into prologue, body and constants.

    Attributes:
        prologue: the PREFIX and BASE declarations of the text.
        body: the text after the prologue, with emptied constants.
        constants: the constants of the body in order: IRIs, strings, local names with their colon, integers.
    """

    prologue: str
    body: str
    constants: tuple[str, ...]

    @property
    def skeleton(self) -> tuple[str, str]:
        """The skeleton: prologue and body, which are equal for all texts that differ only in constants."""
        return self[:2]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each constant in ``text``, the text that was split."""
        if not self.constants:
            return []
        places, at = [], len(self.prologue)
        for number, part in enumerate(_CONSTANT.split(text[at:])):
            constant = _without_constant(part)[1] if number % 2 else ""
            if constant:
                places.append((at, at + len(constant)))
            at += len(part)
        return places


def split_constants(text: str) -> SplitText:
    """Split a SPARQL text into its skeleton and its constants.

    >>> split_constants('BASE <http://e/> ASK { <urn:a> e:p "c"@en }')
    SplitText(prologue='BASE <http://e/> ', body='ASK { <> e: ""@en }', constants=('<urn:a>', ':p', '"c"'))
    """
    return SplitText("", text, ()) if len(text) > MOST_CHARACTERS else _split_constants(text)


# One request splits the same text several times, and clients repeat texts: hence this cache.
@lru_cache(maxsize=64)
def _split_constants(text: str) -> SplitText:
    if "\\" in text:
        return SplitText("", text, ())
    # Most texts have no prologue, and the first character shows this without a regular expression.
    prologue = _PROLOGUE.match(text)[0] if text[:1] in _MAY_BEGIN else ""  # type: ignore[index]
    parts = _CONSTANT.split(text[len(prologue) :] if prologue else text)
    constants = []
    for at in range(1, len(parts), 2):
        constant = parts[at]
        if constant[-1] == ">" and constant[0] == "<":
            parts[at] = "<>"
            constants.append(constant)
        else:
            parts[at], constant = _without_constant(constant)
            if constant:
                constants.append(constant)
    body = "".join(parts)
    if "#" in body or "'" in body or '"""' in body:
        return SplitText("", text, ())
    small = body.lower()
    if ("prefix" in small or "base" in small) and _DECLARES.search(body):
        return SplitText("", text, ())
    return SplitText(prologue, body, tuple(constants))


def _without_constant(part: str) -> tuple[str, str]:
    """Return a SPARQL token without its constant, and the constant, which is empty if the token stays."""
    first, last = part[0], part[-1]
    if first == "<":  # an IRI followed by a bracket is a function call
        return ("<>", part) if last == ">" else (part, "")
    if first == '"':
        end = part.rindex('"') + 1
        return f'""{part[end:]}', part[:end]
    return (":" if first == ":" else "0"), part
