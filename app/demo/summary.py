"""Live summary of the demo, with row counts and the newest row of each of the five feeds."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

import httpx

from .data.rdf import instant

RECONNECT_SECONDS = 0.2
"""Seconds before a reader of a feed opens a lost connection again."""
CELL_WIDTH = 34
"""Maximum characters of a value in the demo's summary."""


@dataclass(slots=True)
class FeedTally:
    """Tally of one feed: number of inserted rows, number of deleted rows, and the newest row."""

    name: str
    added: int = 0
    removed: int = 0
    last_id: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    error: str | None = None

    def take(self, kind: str, event_id: int | None, document: dict[str, Any]) -> None:
        """Add the rows of one feed event to the tally."""
        if event_id is not None:
            self.last_id = event_id
        rows = document.get("results", {}).get("bindings", [])
        if kind == "delete":
            self.removed += len(rows)
        elif kind in ("insert", "answer"):
            self.added += len(rows)
            if rows:
                self.variables = tuple(document["head"]["vars"])
                self.last = rows[0]
        elif kind == "error":
            self.error = str(document.get("detail") or document)

    def to_json(self) -> dict[str, Any]:
        """Return the query's name, the row counts, and the newest row in the form of SPARQL Results JSON."""
        found = {"name": self.name, "added": self.added, "removed": self.removed, "newest": self.last}
        return found if self.error is None else {**found, "error": self.error}

    def line(self) -> str:
        """Return one text line with the query's name, the row counts and the newest row or error."""
        counts = f"{self.added:5} rows" if not self.removed else f"{self.added:5} in, {self.removed} out"
        newest = "  ".join(_cell(self.last.get(name)) for name in self.variables) or "nothing yet"
        return f"  {self.name:22}{counts:18}  {self.error or newest}"


class FeedFollower(threading.Thread):
    """Reader of one feed from its first event, reconnecting after the last event until `stop` is called."""

    def __init__(self, url: str, name: str, headers: Mapping[str, str]) -> None:
        super().__init__(name=f"demo-feed-{name}", daemon=True)
        self.tally = FeedTally(name)
        self._headers = {"Accept": "text/event-stream", **headers}
        self._address = f"{url}queries/{name}/results"
        self._stopping = threading.Event()

    def run(self) -> None:
        """Read the query's feed over consecutive connections, on the thread of this reader."""
        with httpx.Client(timeout=httpx.Timeout(10.0, read=60.0), trust_env=False) as http:
            while not self._stopping.is_set():
                try:
                    self._follow(http)
                except (httpx.HTTPError, httpx.StreamError):
                    self._stopping.wait(RECONNECT_SECONDS)

    def stop(self) -> None:
        """Ask this reader's thread to end at the feed's next event, or when the connection closes."""
        self._stopping.set()

    def _follow(self, http: httpx.Client) -> None:
        address = f"{self._address}?from={self.tally.last_id}"
        with http.stream("GET", address, headers=self._headers) as response:
            response.raise_for_status()
            if response.status_code == 204:
                self._stopping.set()
                return
            for kind, event_id, data in events(response.iter_lines()):
                if self._stopping.is_set():
                    return
                self.tally.take(kind, event_id, json.loads(data))


def events(lines: Iterable[str]) -> Iterator[tuple[str, int | None, str]]:
    """Parse the lines of a Server-Sent Events stream into tuples (kind, id, data); comments are ignored."""
    kind, event_id, data = "message", None, list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield kind, event_id, "\n".join(data)
            kind, event_id, data = "message", None, []
        elif name == "event":
            kind = value
        elif name == "id":
            event_id = int(value)
        elif name == "data":
            data.append(value)


class TallyPrinter:
    """Printer of the tallies of all feeds, in place on a terminal, elsewhere as lines every five seconds.

    With ``as_json``, each output is one JSON object on one line, with the member ``event``.
    """

    def __init__(self, output: TextIO = sys.stdout, *, every_s: float = 5.0, as_json: bool = False) -> None:
        self._output = output
        self._as_json = as_json
        self._in_place = output.isatty() and not as_json
        self._every_s = every_s
        self._lines_shown = 0
        self._shown_at_s = float("-inf")

    def show(self, at_ms: int, tallies: Iterable[FeedTally], now_s: float, *, final: bool = False) -> None:
        """Print the reached event time and all tallies; skip calls that follow the last output too soon."""
        if not final and not self._in_place and now_s - self._shown_at_s < self._every_s:
            return
        if self._as_json:
            queries = [tally.to_json() for tally in tallies]
            self.say("counts", "", at=instant(at_ms), queries=queries)
            self._shown_at_s = now_s
            return
        lines = [instant(at_ms), *(tally.line() for tally in tallies)]
        if self._in_place:
            width = shutil.get_terminal_size().columns
            back = f"\x1b[{self._lines_shown}F\x1b[J" if self._lines_shown else ""
            self._output.write(back + "".join(line[: width - 1] + "\n" for line in lines))
            self._lines_shown = len(lines)
        else:
            self._output.write("\n".join(lines) + "\n")
        self._output.flush()
        self._shown_at_s = now_s

    def say(self, event: str, sentence: str, **members: Any) -> None:
        """Print a sentence that later tallies on a terminal do not overwrite, or an event with members."""
        line = json.dumps({"event": event, **members}, ensure_ascii=False) if self._as_json else sentence
        self._output.write(line + "\n")
        self._output.flush()
        self._lines_shown = 0


def _cell(term: dict[str, str] | None) -> str:
    if term is None:
        return "-"
    value = term["value"]
    if term.get("datatype", "").endswith("#decimal"):
        value = f"{float(value):.1f}"
    return value if len(value) <= CELL_WIDTH else value[: CELL_WIDTH - 1] + "…"
