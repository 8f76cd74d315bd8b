"""Functions that print the results of commands, as text or with ``--json`` as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from quadrill.store.documents.times import format_instant, units_of

from . import tables

_MOST_LETTERS = 100
"""Maximum number of dead letters that a command lists without ``--limit``."""
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
"""Units of durations, longest first, each with its milliseconds."""
PREFERRED = {"Prefer": "return=representation"}
"""Header that requests the effect of a write in its response: version, quads added and removed."""


def print_json(document: Any) -> None:
    """Print one JSON value on one line."""
    print(json.dumps(document, ensure_ascii=False), flush=True)


def report(options: argparse.Namespace, sentence: str, document: Any) -> None:
    """Print a sentence about a completed action on standard error, or with ``--json`` print the document."""
    if options.json:
        print_json(document)
    else:
        print(sentence, file=sys.stderr)


def warn(sentences: Iterable[str]) -> None:
    """Print warnings on standard error, so that piped standard output contains only results."""
    for each in sentences:
        print(f"warning: {each}", file=sys.stderr)


def listing(
    options: argparse.Namespace,
    names: Sequence[str],
    documents: Iterable[dict[str, Any]],
    row: Callable[[dict[str, Any]], Sequence[str]],
) -> None:
    """Print a table with one row per document, or with ``--json`` one JSON document per line."""
    if options.json:
        for each in documents:
            print_json(each)
    else:
        tables.print_table(names, [row(each) for each in documents])


def describe(options: argparse.Namespace, document: Mapping[str, Any], times: Collection[str] = ()) -> None:
    """Print one line per member that has a value, or with ``--json`` the whole document as JSON.

    ``times`` names the members of the document that are instants in milliseconds. Members whose names end in
    ``_ms`` are left out of the lines.
    """
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


def durations(given: Sequence[int | None]) -> tuple[str, list[str]]:
    """Return one unit for a column of durations in ms, that of the longest, and the cells of the column."""
    longest = max((each for each in given if each is not None), default=0)
    unit, ms = next(((name, size) for name, size in _UNITS if longest >= size), _UNITS[-1])
    form = "{:,.0f}" if ms == 1 else "{:,.1f}"
    return unit, ["" if each is None else form.format(each / ms) for each in given]


def change_text(change: Mapping[str, int]) -> str:
    """Format the effect of a write to the store, which the header `PREFERRED` requests, as a sentence."""
    if not change["added"] and not change["removed"]:
        return f"nothing changed, version {change['version']}"
    added = counted(change["added"], "quad")
    text = f"{added} added, {change['removed']:,} removed, version {change['version']}"
    return f"{text}, {violations_text(change)}" if change.get("violations") else text


def violations_text(change: Mapping[str, Any]) -> str:
    """Format the number of violations that a write adds to shapes with mode warn."""
    return f"{counted(change['violations'], 'violation')} of shapes added"


def add_letters_limit(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--limit`` of commands that list dead letters."""
    parser.add_argument(
        "--limit",
        type=int,
        default=_MOST_LETTERS,
        metavar="N",
        help="list only the newest N dead letters, 0 for all (default: %(default)s)",
    )


def newest_letters(options: argparse.Namespace, letters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the newest dead letters of a list up to ``--limit``; warn of those that are left out."""
    left_out = max(0, len(letters) - options.limit) if options.limit > 0 else 0
    if left_out:
        warn([f"{counted(left_out, 'older dead letter')} left out; --limit 0 lists all"])
    return letters[left_out:]


def counted(number: int, what: str) -> str:
    """Format a number with a noun in singular or plural, such as ``1 quad`` or ``2,000 quads``."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what.removesuffix('y')}ies" if what.endswith("y") else f"{number:,} {what}s"


def shown(value: Any) -> str:
    """Format a member of a JSON response for a table cell; None becomes an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
