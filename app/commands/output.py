"""What commands print: answers on standard output, what was done on standard error; JSON with --json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from quadrill.store.documents.times import format_instant, units_of

from . import tables

PREFERRED = {"Prefer": "return=representation"}
"""Header that requests the effect of a write in its response: version, quads added and removed."""


def print_json(document: Any) -> None:
    """Print one JSON value on one line."""
    print(json.dumps(document, ensure_ascii=False), flush=True)


def tell(options: argparse.Namespace, sentence: str, document: Any) -> None:
    """What was done: a sentence for people, or the document for programs."""
    if options.json:
        print_json(document)
    else:
        print(sentence, file=sys.stderr)


def warn(sentences: Iterable[str]) -> None:
    """Warnings, which do not mix with what is piped elsewhere."""
    for each in sentences:
        print(f"warning: {each}", file=sys.stderr)


def listing(
    options: argparse.Namespace,
    names: Sequence[str],
    documents: Iterable[dict[str, Any]],
    row: Callable[[dict[str, Any]], Sequence[str]],
) -> None:
    """A list: a table with a row for each document, or the documents, one a line."""
    if options.json:
        for each in documents:
            print_json(each)
    else:
        tables.print_table(names, [row(each) for each in documents])


def describe(options: argparse.Namespace, document: Mapping[str, Any], times: Collection[str] = ()) -> None:
    """A description: a line for each member that has a value, or the document; ``times`` are instants."""
    if options.json:
        print_json(document)
        return
    rows = []
    for name, value in document.items():
        if isinstance(value, Mapping | list):
            cell = json.dumps(value, ensure_ascii=False) if value else ""
        else:
            cell = instant(value) if name in times else shown(value)
        if cell and not name.endswith("_ms"):
            rows.append((name.replace("_", " "), cell))
    tables.print_members(rows)


def instant(value: int | None) -> str:
    """Format an instant for a table cell in UTC; None becomes an empty cell."""
    return "" if value is None else format_instant(value)


def duration(ms: int | None) -> str:
    """Format a duration for a table cell, in its two largest units."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    parts = [f"{count}{unit}" for unit, count in units_of(ms - ms % 1000).items()]
    return " ".join(parts[:2])


def change_text(change: Mapping[str, int]) -> str:
    """What a write to the store did, as a sentence; it was asked for by `PREFERRED`."""
    if not change["added"] and not change["removed"]:
        return f"nothing changed, version {change['version']}"
    added = counted(change["added"], "quad")
    return f"{added} added, {change['removed']:,} removed, version {change['version']}"


def counted(number: int, what: str) -> str:
    """``1 quad``, ``2,000 quads``."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what.removesuffix('y')}ies" if what.endswith("y") else f"{number:,} {what}s"


def shown(value: Any) -> str:
    """A member of an answer as a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
