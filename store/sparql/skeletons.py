r"""A SPARQL text as a skeleton and the constants that stand in its holes.

    SELECT ?o { <http://e/a> ex:p ?o, "c", 12 }  ->  SELECT ?o { <> ex: ?o, "", 0 }  <http://e/a> :p "c" 12

Texts that differ in constants alone have one skeleton, and what does not depend on constants is worked out
once for it. A skeleton is SPARQL as well: the emptied constants are tokens of the same kinds. The prologue,
functions, datatypes and languages stay in it. Where a comment, an escape or a quotation mark of another kind
makes it doubtful where constants begin and end, the text is its own skeleton.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_CHARACTERS = 40_000
"""Longer texts are their own skeletons, and nothing parses them before Oxigraph does."""

_IN_IRI = r"[^<>\"{}|^`\\\x00-\x20]"
_ANY_IRI = rf"<{_IN_IRI}*+>"
_PROLOGUE = re.compile(
    rf"(?:\s*+(?:PREFIX\s++[\w\-.]*+:\s*+|BASE\s*+){_ANY_IRI})*+\s*+", re.IGNORECASE | re.ASCII
)
_MAY_BEGIN = "PpBb \t\r\n\f\v"
_DECLARES = re.compile(r"(?<![\w?$:])(?:prefix|base)(?!\w)", re.IGNORECASE)
# All alternatives begin with one set of characters, by which the search goes from one to the next.
# An IRI without // holds none of the signs that two comparisons would need between them: ?a<b:c&&?d>e:f.
_CONSTANT = re.compile(
    rf"""([<":0-9](?:
    (?<=<)(?:(?:[A-Za-z][A-Za-z0-9+.\-]*+:(?://{_IN_IRI}*+|[^<>"{{}}|^`\\\x00-\x20(),&=!?$]*+))?+>(?:\s*+\()?+
        |{_IN_IRI}*+>\s*+\()
    |(?<=")[^"\\\r\n]*+"(?:@[A-Za-z0-9\-]*+|\s*+\^\^\s*+(?:{_ANY_IRI}|[\w\-.]*+:[\w\-.]*+)?+)?+
    |(?<=:)(?<!_:)\w*+(?:-\w++)*+(?=[\s,;)}}])(?!\s*+\()
    |(?<=\s[0-9])[0-9]{{0,17}}+(?=[\s),;}}]|\Z)
    ))""",
    re.ASCII | re.VERBOSE,
)


class SplitText(NamedTuple):
    """A text in parts.

    Attributes:
        prologue: its declarations.
        body: what stands behind, with holes.
        constants: of the body: an IRI, a string, a name with the colon before it, or a number.
    """

    prologue: str
    body: str
    constants: tuple[str, ...]

    @property
    def skeleton(self) -> tuple[str, str]:
        """What texts that are alike have in common."""
        return self[:2]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the constants stand in the text that was cut."""
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
    """Cut a text.

    >>> split_constants('BASE <http://e/> ASK { <http://e/a> ex:p "c"@en }')
    Cut(prologue='BASE <http://e/> ', body='ASK { <> ex: ""@en }', constants=('<http://e/a>', ':p', '"c"'))
    """
    return SplitText("", text, ()) if len(text) > MOST_CHARACTERS else _split_constants(text)


# A request asks several questions about one text, and clients repeat texts.
@lru_cache(maxsize=64)
def _split_constants(text: str) -> SplitText:
    if "\\" in text:
        return SplitText("", text, ())
    # The pattern takes any text; most have no prologue.
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
    """A token without its constant, and that; empty where all of it stays."""
    first, last = part[0], part[-1]
    if first == "<":  # with its bracket, it is a function
        return ("<>", part) if last == ">" else (part, "")
    if first == '"':
        end = part.rindex('"') + 1
        return f'""{part[end:]}', part[:end]
    return (":" if first == ":" else "0"), part
