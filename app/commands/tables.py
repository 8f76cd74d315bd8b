"""Answers as aligned tables, and events of feeds as lines, for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quadrill.store.documents.times import format_instant

if TYPE_CHECKING:
    from .terminal import Wrapped

MAX_WIDTH = 80
MOST_FITTED = 2_000
"""Rows of a table that is fitted to a terminal; more would take seconds, and nobody looks at them."""
SIGNS = {"insert": "+", "delete": "-", "answer": "="}


def print_results(document: Mapping[str, Any]) -> None:
    """A SPARQL Results JSON document."""
    if "boolean" in document:
        print("true" if document["boolean"] else "false")
        return
    print_table(document["head"]["vars"], _rows(document), "all")


def event_lines(kind: str, document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of a feed's event, one a line: sign, time, terms; an event without rows is one line."""
    if kind not in SIGNS:
        yield "  ".join([kind, *(f"{name} {value}" for name, value in document.items())])
        return
    if "quads" in document:
        rows = [[line] for line in document["quads"].splitlines()]
    elif "boolean" in document:
        rows = [["true" if document["boolean"] else "false"]]
    else:
        rows = _rows(document)
    for row in rows or [[]]:
        yield "  ".join([SIGNS[kind], format_instant(document["at"]), *map(_printable, row)])


def event_text(kind: str, data: str, form: str) -> str:
    """An event of a feed: its rows, one a line, or its kind and its data as they came."""
    return f"{kind} {data}" if form == "events" else "\n".join(event_lines(kind, json.loads(data)))


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Wrapped = "last") -> None:
    """Rows under their names: as wide as their longest entry up to ``MAX_WIDTH``; on a terminal as fits."""
    if sys.stdout.isatty() and len(rows) <= MOST_FITTED:
        # Begun only where somebody looks.
        from .terminal import show_table

        show_table(names, [[_printable(cell) for cell in row] for row in rows], wrapped)
        return
    shown = [[_clip(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[place]) for row in shown)]) for place, name in enumerate(names)]
    for row in [list(names), ["-" * width for width in widths], *shown]:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


def print_members(rows: Sequence[tuple[str, str]]) -> None:
    """Names and their values, a line each."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"{name:{width}}  {_printable(value)}")


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


def _rows(document: Mapping[str, Any]) -> list[list[str]]:
    names = document["head"]["vars"]
    return [
        [term_text(row[name]) if name in row else "" for name in names]
        for row in document["results"]["bindings"]
    ]


def _printable(text: str) -> str:
    # Control characters would let data steer the terminal.
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _clip(text: str) -> str:
    line = _printable(text)
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"
