"""The command ``quadrill top``, which shows rates and counts of a server's queries, streams and memory."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import output, tables
from .arguments import UsageError, add_client_command
from .connection import ServerConnection, UnreachableError, connect
from .hints import with_commands
from .overview import Overview, ShownQuery, StreamFigures, overview, take_sample
from .top_view import TopView, key_presses

if TYPE_CHECKING:
    from rich.console import RenderableType

_ONCE_SECONDS = 1.0
"""Maximum seconds between the two samples of ``quadrill top --once``."""
_QUERY = ("query", "state", "in/s", "rows/s", "lag", "window", "static", "note")
_STREAM = ("stream", "in/s", "watermark", "elements", "late", "queries")
_LINES_AROUND = 12
"""Number of screen lines that are not rows of queries or streams, such as the head and column names."""


def add_commands(commands: Any) -> None:
    """Add the command ``top`` to the command line parser."""
    top = add_client_command(
        commands,
        "top",
        _top,
        "show live figures of a server: queries, streams, memory",
        "top",
        "top --once",
        "top --interval 5 --json",
        further="On a terminal, the key q ends it, s sorts the rows by the next column, r reverses their "
        "order, and / filters them by name; elsewhere, Ctrl-C ends it. Each query has its elements and rows "
        "per second, the distance of its event time from the newest element (lag), the quads in its windows, "
        "the rows of its static tables, and the reason why it has no results. Failed queries are listed "
        "first, then the busiest",
    )
    top.add_argument("--once", action="store_true", help="print the figures once, measured over one second")
    top.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="time between two updates (default: %(default)g)",
    )


def _top(options: argparse.Namespace) -> int:
    if not 0.1 <= options.interval <= 3600:
        raise UsageError(f"--interval {options.interval:g} is not from 0.1 to 3600 seconds")
    with connect(options) as server:
        if options.once:
            _print(options, next(_overviews(server, min(options.interval, _ONCE_SECONDS))))
        elif options.json or not sys.stdout.isatty():
            for each in _overviews(server, options.interval):
                _print(options, each)
        else:
            _live(server, options.interval)
    return 0


def _overviews(server: ServerConnection, interval: float) -> Iterator[Overview]:
    before = take_sample(server)
    while True:
        time.sleep(interval)
        now = take_sample(server)
        yield overview(server.url, before, now)
        before = now


def _print(options: argparse.Namespace, shown: Overview) -> None:
    if options.json:
        output.print_json(shown.to_json())
        return
    print(_head(shown))
    print()
    tables.print_table(_QUERY, [_query_row(each) for each in TopView().queries(shown.queries)])
    print()
    tables.print_table(_STREAM, [_stream_row(each) for each in shown.streams])
    sys.stdout.flush()


def _live(server: ServerConnection, interval: float) -> None:
    """Show the overview on the whole screen until the key ``q``; retry after a lost connection."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    view = TopView()
    before = take_sample(server)
    shown, problem = overview(server.url, before, before), ""
    due = time.monotonic() + interval
    with key_presses() as key_within, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            screen = _screen(shown, view, *console.size)
            lost = Text(f"{problem}. Retrying.", "bold red")
            live.update(Group(lost, screen) if problem else screen, refresh=True)
            key = key_within(due - time.monotonic())
            if key is not None:
                if not all(view.press(each) for each in key):
                    return
                continue
            try:
                now = take_sample(server)
                shown, problem, before = overview(server.url, before, now), "", now
            except UnreachableError as error:
                problem = error.message
            due = time.monotonic() + interval


def _screen(shown: Overview, view: TopView, width: int, height: int) -> RenderableType:
    """Return the overview for a screen of the given size; rows that do not fit are only counted."""
    from rich.console import Group
    from rich.text import Text

    from .terminal import table_of

    room = max(2, height - _LINES_AROUND)
    all_streams, all_queries = view.streams(shown.streams), view.queries(shown.queries)
    streams = all_streams[: max(1, room // 3)]
    queries = all_queries[: max(1, room - len(streams))]
    below = [
        f"{len(everything) - len(part):,} more {what}"
        for what, part, everything in (("queries", queries, all_queries), ("streams", streams, all_streams))
        if len(part) < len(everything)
    ]
    return Group(
        Text(_head(shown), "bold", no_wrap=True, overflow="ellipsis"),
        Text(),
        table_of(_QUERY, [_query_row(each) for each in queries], "none", width),
        Text(),
        table_of(_STREAM, [_stream_row(each) for each in streams], "none", width),
        Text(", ".join(below), "dim"),
        Text(view.help_line(), "reverse", no_wrap=True, overflow="ellipsis"),
    )


def _head(shown: Overview) -> str:
    found = shown.figures
    failed = sum(each.state == "failed" for each in shown.queries)
    parts = [
        output.counted(len(shown.queries), "query") + (f" ({failed} failed)" if failed else ""),
        output.counted(len(shown.streams), "stream"),
        output.counted(found.get("quads", 0), "quad"),
    ]
    if found.get("inferred_quads"):
        parts[-1] += f" ({found['inferred_quads']:,} inferred)"
    if "memory_bytes" in found:
        parts.append(f"{found['memory_bytes'] / (1 << 20):,.0f} MiB of memory")
    if found.get("waiting_elements"):
        parts.append(f"{found['waiting_elements']:,} elements wait")
    return f"{shown.server}  {', '.join(parts)}"


def _query_row(each: ShownQuery) -> list[str]:
    return [
        each.name,
        each.state,
        f"{each.elements_per_second:,.1f}",
        f"{each.rows_per_second:,.1f}",
        output.duration(each.lag_ms),
        f"{each.window_quads:,}",
        f"{each.static_rows:,}",
        with_commands(each.note),
    ]


def _stream_row(each: StreamFigures) -> list[str]:
    return [
        each.name,
        f"{each.elements_per_second:,.1f}",
        output.instant(each.watermark) + (" (idle)" if each.idle else ""),
        f"{each.elements:,}",
        f"{each.late:,}",
        f"{each.readers:,}",
    ]
