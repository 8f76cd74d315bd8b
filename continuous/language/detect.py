"""Which dialect a text is written in."""

from __future__ import annotations

import re

from ..algebra.query import Dialect

# Comments, strings and IRIs hold words that are none; they are blanked before the words are looked for.
NOISE = re.compile(
    r'"""(?:"{0,2}(?:[^"\\]|\\[\s\S]))*"""|\'\'\'(?:\'{0,2}(?:[^\'\\]|\\[\s\S]))*\'\'\''
    r'|"(?:[^"\n\r\\]|\\.)*"|\'(?:[^\'\n\r\\]|\\.)*\'|<[^\x00-\x20<>"{}|^`]*>|#[^\n\r]*'
)
_WORD = r"(?:<>|[^\s<>\[\]{}()?$:]*:[^\s\[\]{}()]*)"
_RULES: tuple[tuple[Dialect, str], ...] = (
    ("rspql", r"\bFROM\s+NAMED\s+WINDOW\b"),
    ("csparql", r"\bFROM\s+STREAM\b"),
    ("cqels", rf"(?<![\w?$:])STREAM\s*(?:{_WORD}|[?$]\w+)\s*\["),
    ("cqels", r"(?<![\w?$:])STREAM\s*\["),
    ("cqels", rf"\bFROM\s+NAMED\s*{_WORD}\s*\["),
    ("rspql", r"\bREGISTER\s+[RID]STREAM\b"),
    ("csparql", r"\bREGISTER\s+QUERY\b"),
    ("rspql", rf"(?<![\w?$:])WINDOW\s*(?:{_WORD}|[?$]\w+)\s*\{{"),
    ("rspql", rf"\bREGISTER\s+STREAM\s*{_WORD}"),
    ("csparql", r"\bREGISTER\s+STREAM\b"),
    ("rspql", r"\bREGISTER\b"),
    # Its window is missing, which is told better than a word that SPARQL does not have.
    ("cqels", rf"(?<![\w?$:])STREAM\s*(?:{_WORD}|[?$]\w+)\s*\{{"),
)


def detect_dialect(text: str) -> Dialect:
    """The dialect of a query text by its words; ``sparql`` when it has no window and no REGISTER."""
    words = NOISE.sub(_blank, text)
    for dialect, pattern in _RULES:
        if re.search(pattern, words, re.IGNORECASE):
            return dialect
    return "sparql"


def _blank(found: re.Match[str]) -> str:
    return "<>" if found.group().startswith("<") else " "
