"""Texts that differ in rows of inline data alone, as the program writes them: judged once, not each time.

    SELECT ... WHERE { VALUES (?x) { (<a>) (<b>) } ?x <p> ?y }        judged:  SELECT ... { (<a>) } ...
    SELECT ... WHERE { VALUES (?x) { (<c>) ("d"@en) } ?x <p> ?y }     known

A row whose every term is one token by the strict forms below opens nothing, closes nothing and calls nothing,
and rows stand side by side, so the height of a text and the calls in it do not depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .guard import TextFacts, TextLimits, inspect_text

_IRI = r'<[^\x00-\x20<>"{}|^`\\]*>'
_LITERAL = rf'"(?:[^"\\\r\n]|\\[^\r\n])*"(?:@[A-Za-z0-9-]+|\^\^{_IRI})?'
_TERM = rf"(?:{_IRI}|{_LITERAL})"
_ROW = re.compile(rf"\({_TERM}(?: {_TERM})*\)")
_TERMS = re.compile(_TERM)
_MOST = 500
_HOLE = "()"


class AlikeTexts:
    """What was judged of at most so many texts without their rows. Not thread-safe."""

    def __init__(self, limits: TextLimits, most: int = _MOST) -> None:
        self._limits = limits
        self._most = most
        self._known: dict[str, TextFacts] = {}

    def judged(self, text: str, rows: Sequence[str]) -> TextFacts | None:
        """What `guard.inspect_text` tells of a text; None when it must be asked for this very text.

        Args:
            text: a query.
            rows: rows of inline data, as they stand in it one behind the other with a space between.

        Raises:
            LimitError, UnsupportedError, NetworkRefusedError: as `guard.inspect_text`.
        """
        if not rows or len(text) > self._limits.characters or not all(map(_ROW.fullmatch, rows)):
            return None
        block = " ".join(rows)
        frame = text.replace(block, _HOLE)
        facts = self._known.get(frame)
        if facts is None:
            if len(self._known) >= self._most:
                self._known.clear()
            # No term makes a row higher than an IRI does.
            highest = "(" + " ".join(["<x:x>"] * len(_TERMS.findall(rows[0]))) + ")"
            facts = self._known[frame] = inspect_text(text.replace(block, highest), self._limits)
        return facts
