"""A query whose static parts are still being read: it is registered, and what arrives for it is kept.

    register ── a moment ──► attached, running
        └─ longer ─► "reserve" takes its turn: state `materialising`, inputs are collected
                         └─ tables there ─► "attach" takes its turn: the collected inputs come first

The reading is done by a thread of its own, so neither other queries nor other registrations wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import LimitError
from quadrill.store.sparql.big_stack import start_with_big_stack

from ..evaluate.evaluator import Evaluator
from ..inputs import Arrival, StreamInput
from ..static.progress import Progress, entered
from ..streams.stream import LogRecord
from .prepare import PreparedQuery, streams_read
from .running import RunningQuery


class Making:
    """Makes the evaluator of a query in a thread of its own."""

    def __init__(
        self, make: Callable[[], Evaluator], *, threaded: bool = True, limited: bool = False
    ) -> None:
        """Begin to wait for the tables of a query.

        Args:
            make: makes it; what it raises is raised by `result`.
            threaded: False makes it here and now.
            limited: its tables must keep to the limits, see `Progress`.
        """
        self.progress = Progress(limited=limited)
        self._make = make
        self._evaluator: Evaluator | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._then: Callable[[], None] | None = None
        if threaded:
            start_with_big_stack(self._run, "quadrill-materialise")
        else:
            self._run()

    def wait(self, seconds: float | None) -> bool:
        """True when it is made, or has failed, within some seconds; None for as long as it takes."""
        return self._done.wait(seconds)

    def result(self) -> Evaluator:
        """The evaluator; raises what the making raised. Only when `wait` was true."""
        if self._error is not None:
            raise self._error
        assert self._evaluator is not None, "still being made"
        return self._evaluator

    def then(self, work: Callable[[], None]) -> None:
        """Have some work done when it is made: by the thread that made it, or at once."""
        with self._lock:
            if not self._done.is_set():
                self._then = work
                return
        work()

    def _run(self) -> None:
        try:
            with entered(self.progress):
                self._evaluator = self._make()
        except BaseException as error:
            self._error = error
        with self._lock:
            self._done.set()
            then = self._then
        if then is not None:
            then()


@dataclass(eq=False)
class Pending:
    """A query that waits for its static parts.

    Attributes:
        name: the query's.
        prepared: the query.
        most: elements that it keeps at most.
        collects: inputs are kept; False for ``start: when-ready``.
        kept: with ``start: {"from": ...}``, what its streams retained when it was registered.
        making: what makes its tables; None until somebody does, as in a replay.
        inputs: what arrived since its registration.
        elements: how many elements these have.
        problem: why it cannot begin.
        running: the query itself, where it only waits for a table that is read anew.
        start: the event time from which retained elements come first.
        repeats: they were evaluated before.
    """

    name: str
    prepared: PreparedQuery
    most: int
    collects: bool = True
    kept: dict[str, list[LogRecord]] = field(default_factory=dict)
    making: Making | None = None
    inputs: list[StreamInput] = field(default_factory=list)
    elements: int = 0
    problem: LimitError | None = None
    running: RunningQuery | None = None
    start: int | None = None
    repeats: bool = False
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        fixed = all(isinstance(window.stream, NamedNode) for window in self.prepared.windows)
        self._streams = frozenset(streams_read(self.prepared.query)) if fixed else None

    def reads(self, stream: str) -> bool:
        """True when the query reads a stream, or may: a stream variable is bound by what is being read."""
        return self._streams is None or stream in self._streams

    def take(self, event: StreamInput) -> None:
        """Keep an input, in its turn."""
        if not self.collects or self.problem is not None or not self.reads(event.stream):
            return
        self.inputs.append(event)
        if isinstance(event, Arrival):
            self.elements += len(event.elements)
        if self.elements > self.most:
            self.problem = LimitError(
                f"more than {self.most} elements arrived while the static parts of {self.name} were read",
                limit=self.most,
                hint='Raise the setting max_waiting_elements, or register with "start": "when-ready"',
            )
            self.inputs.clear()
            self.call_off()

    def call_off(self) -> None:
        """Its tables are not wanted any more."""
        if self.making is not None:
            self.making.progress.call_off()

    def progress(self) -> dict[str, Any]:
        """How far it is, for people."""
        made = Progress() if self.making is None else self.making.progress
        return {
            "parts": made.parts,
            "ready": made.ready,
            "rows": made.rows,
            "elapsed_ms": round((time.monotonic() - self.since) * 1000),
            "waiting_elements": self.elements,
        }


def is_awaited(stream: str, pending: Mapping[str, Pending]) -> bool:
    """True while inputs of a stream are kept for a query that cannot begin yet. In any thread."""
    return any(each.collects and each.reads(stream) for each in list(pending.values()))


def describe_pending(pending: Pending, document: Mapping[str, Any], created_ms: int) -> dict[str, Any]:
    """The description of a query that waits, from that of the prepared query."""
    progress = pending.progress()
    return {
        **document,
        "name": pending.name,
        "engine": None,
        "state": "materialising",
        "error": None,
        "created": created_ms,
        "progress": progress,
        "version": None,
        "instant": None,
        "watermark": None,
        "streams": [],
        "windows": [],
        "static_parts": [],
        "static_age_ms": None,
        "last_refresh": None,
        "state_size": 0,
        "counters": {"waiting": pending.elements},
        "rates": {},
        "last_result": None,
        "waiting_for": [
            f"its static parts are being read: {progress['ready']} of {progress['parts']} are ready, "
            f"{progress['rows']} rows read so far"
        ],
    }
