"""Answers as aligned tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_WIDTH = 80


def print_results(document: Mapping[str, Any]) -> None:
    """A SPARQL Results JSON document."""
    if "boolean" in document:
        print("true" if document["boolean"] else "false")
        return
    names = list(document["head"]["vars"])
    rows = [
        [term_text(row[name]) if name in row else "" for name in names]
        for row in document["results"]["bindings"]
    ]
    print_table(names, rows)


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under their names, columns as wide as their longest entry up to ``MAX_WIDTH``."""
    shown = [[_clip(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[place]) for row in shown)]) for place, name in enumerate(names)]
    for row in [list(names), ["-" * width for width in widths], *shown]:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


def term_text(term: Mapping[str, Any]) -> str:
    """A term of SPARQL Results JSON as text in the manner of Turtle."""
    value = term["value"]
    match term["type"]:
        case "uri":
            return f"<{value}>"
        case "bnode":
            return f"_:{value}"
        case "triple":
            parts = (term_text(value[place]) for place in ("subject", "predicate", "object"))
            return f"<<( {' '.join(parts)} )>>"
    if "xml:lang" in term:
        return f'"{value}"@{term["xml:lang"]}'
    return str(value)


def _clip(text: str) -> str:
    # Control characters would let data steer the terminal.
    line = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"
