"""Positions in rule texts of words that a rule must not use, for error messages."""

from __future__ import annotations

import re
from typing import Any

from ..language.context import NOISE
from ..language.diagnostics import place_of

_HEAD = re.compile(r"\bCONSTRUCT\b", re.IGNORECASE)


def place_of_word(text: str, pattern: str, *, in_head: bool = False) -> dict[str, Any]:
    """Return the line, the column and the excerpt of the first match of a regular expression.

    Comments, strings and IRIs are not searched. Without a match, the position is that of the first character.

    Args:
        text: the text of a rule.
        pattern: a regular expression; upper and lower case are equal.
        in_head: True to search only after the word CONSTRUCT.
    """
    words = NOISE.sub(lambda found: " " * len(found.group()), text)
    head = _HEAD.search(words) if in_head else None
    found = re.compile(pattern, re.IGNORECASE).search(words, head.end() if head else 0)
    return place_of(text, found.start() if found else 0)
