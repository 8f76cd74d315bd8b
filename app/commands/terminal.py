"""Tables that fit the width of a terminal, with colours unless NO_COLOR is set, by the library rich."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Wrapped = Literal["all", "last", "none"]
"""Columns of a table in which a long cell is wrapped; in other columns a long cell is truncated."""

STATES = {
    "running": "green",
    "done": "green",
    "starting": "cyan",
    "queued": "cyan",
    "waiting": "yellow",
    "paused": "yellow",
    "stopped": "yellow",
    "cancelled": "yellow",
    "failed": "bold red",
}
"""Colour of a table cell that contains the state of a query, job, source or sink."""
_MOST_WIDTH, _LEAST_WIDTH = 40, 10
"""Maximum characters of a table's column before the last one, and minimum characters of the last one."""
_BETWEEN = 2
"""Number of characters between two columns of a table."""
_NUMBER = re.compile(r"-?[\d,.]+ ?(?:[a-zA-Z%]{1,3}|/s)?\Z")


def show_table(names: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Wrapped) -> None:
    """Print a table on standard output, fitted to the width of the terminal."""
    console = Console(highlight=False)
    console.print(table_of(names, rows, wrapped, console.width))


def table_of(names: Sequence[str], rows: Sequence[Sequence[str]], wrapped: Wrapped, width: int) -> Table:
    """Return a rich table of text cells that fits a terminal of the given width.

    Columns of numbers are aligned to the right. Unless all columns of a table are wrapped, the last column
    gets the width that the other columns leave.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    columns = [[row[place] for row in rows if row[place]] for place in range(len(names))]
    widths = [_width(name, cells) for name, cells in zip(names, columns, strict=True)]
    if wrapped != "all":
        widths = [min(each, _MOST_WIDTH) for each in widths[:-1]] + widths[-1:]
        widths[-1] = min(
            widths[-1], max(_LEAST_WIDTH, width - sum(widths[:-1]) - _BETWEEN * (len(names) - 1))
        )
    for place, name in enumerate(names):
        numbers = bool(columns[place]) and all(_NUMBER.match(cell) for cell in columns[place])
        wraps = not numbers and (wrapped == "all" or (wrapped == "last" and place == len(names) - 1))
        table.add_column(
            Text(name),
            justify="right" if numbers else "left",
            overflow="fold" if wraps else "ellipsis",
            no_wrap=not wraps,
            max_width=None if wrapped == "all" else widths[place],
        )
    for row in rows:
        table.add_row(*(Text(cell, STATES.get(cell, "")) for cell in row))
    return table


def _width(name: str, cells: Sequence[str]) -> int:
    return max(len(name), *map(len, cells)) if cells else len(name)
