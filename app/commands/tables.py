"""Functions that format query answers as aligned tables, and events of feeds as lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quadrill.store.documents.times import format_instant

if TYPE_CHECKING:
    from .terminal import Wrapped

MOST_PADDED = 80
"""Maximum width in characters to which cells are padded in output that does not go to a terminal."""
MOST_FITTED = 2_000
"""Maximum rows of a table that is fitted to the terminal's width, which is slow for large tables."""
SIGNS = {"insert": "+", "delete": "-", "answer": "=", "resolved": "~"}
"""Sign at the start of a printed row, by the kind of the row's event."""


def print_results(document: Mapping[str, Any]) -> None:
    """Print a SPARQL Results JSON document as a table, or as true or false."""
    if "boolean" in document:
        print("true" if document["boolean"] else "false")
        return
    print_table(document["head"]["vars"], _rows(document), "all")


def event_lines(kind: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield one text line per row of a feed's event: sign, time and terms; an empty event is one line."""
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
    """Format a feed's event as one line per row, or for the form ``events`` as kind and unchanged data."""
    return f"{kind} {data}" if form == "events" else "\n".join(event_lines(kind, json.loads(data)))


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Wrapped = "last") -> None:
    """Print a table with column names; on a terminal, the table is fitted to the terminal's width.

    If standard output is no terminal, every cell is printed whole. A column is then as wide as its longest
    cell, at most ``MOST_PADDED`` characters, so one very long cell does not pad all other rows to its length.
    """
    shown = [[_printable(value) for value in row] for row in rows]
    if sys.stdout.isatty() and len(rows) <= MOST_FITTED:
        # The library rich is imported here, because its import is slow and only a terminal needs the library.
        from .terminal import show_table

        show_table(names, shown, wrapped)
        return
    longest = [max([len(name), *(len(row[place]) for row in shown)]) for place, name in enumerate(names)]
    widths = [min(each, MOST_PADDED) for each in longest]
    for row in [list(names), ["-" * width for width in widths], *shown]:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


def print_members(rows: Sequence[tuple[str, str]]) -> None:
    """Print pairs of name and value in aligned columns, one pair per line."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"{name:{width}}  {_printable(value)}")


def term_text(term: Mapping[str, Any]) -> str:
    """Format a term of SPARQL Results JSON similar to Turtle; literals have no quotes or datatype."""
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
    # Control characters in the data could send commands to the terminal.
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
