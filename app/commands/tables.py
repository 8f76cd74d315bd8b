"""Functions that format query answers as aligned tables, and terms as texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .terminal import Wrapped

MOST_PADDED = 80
"""Maximum width in characters to which cells are padded in output that does not go to a terminal."""
MOST_FITTED = 2_000
"""Maximum rows of a table that is fitted to the terminal's width, which is slow for large tables."""
_LOCAL_NAME = re.compile(r"(?:[\w-]+(?:\.[\w-]+)*)?\Z")
"""Expression of the local names with which an IRI is shortened."""


def print_results(document: Mapping[str, Any]) -> None:
    """Print a SPARQL Results JSON document as a table, or as true or false."""
    if "boolean" in document:
        print("true" if document["boolean"] else "false")
        return
    print_table(document["head"]["vars"], _rows(document), "all")


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Wrapped = "last") -> None:
    """Print a table with column names; on a terminal, the table is fitted to the terminal's width.

    If standard output is no terminal, every cell is printed whole. A column is then as wide as its longest
    cell, at most ``MOST_PADDED`` characters, so one very long cell does not pad all other rows to its length.
    """
    shown = [[printable(value) for value in row] for row in rows]
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
        print(f"{name:{width}}  {printable(value)}")


def term_text(term: Mapping[str, Any], prefixes: Mapping[str, str] | None = None) -> str:
    """Format a term of SPARQL Results JSON similar to Turtle; literals have no quotes or datatype.

    An IRI in one of the namespaces of ``prefixes`` is shortened by the prefix of the longest such namespace.
    """
    value = term["value"]
    match term["type"]:
        case "uri":
            return _shortened(value, prefixes) if prefixes else f"<{value}>"
        case "bnode":
            return f"_:{value}"
        case "triple":
            parts = (term_text(value[place], prefixes) for place in ("subject", "predicate", "object"))
            return f"<<( {' '.join(parts)} )>>"
    if "xml:lang" in term:
        return f'"{value}"@{term["xml:lang"]}'
    return str(value)


def _shortened(iri: str, prefixes: Mapping[str, str]) -> str:
    spaces = sorted((space for space in prefixes.values() if iri.startswith(space)), key=len, reverse=True)
    for space in spaces:
        if _LOCAL_NAME.match(iri, len(space)):
            prefix = next(name for name, each in prefixes.items() if each == space)
            return f"{prefix}:{iri[len(space) :]}"
    return f"<{iri}>"


def _rows(document: Mapping[str, Any]) -> list[list[str]]:
    names = document["head"]["vars"]
    return [
        [term_text(row[name]) if name in row else "" for name in names]
        for row in document["results"]["bindings"]
    ]


def printable(text: str) -> str:
    """Replace control characters, because those in data could send commands to the terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
