"""Reads checkpoints of format 6, which releases up to November 2026 wrote: pickled objects of these releases.

Plain stand-ins take the place of their classes, whatever modules they stood in, and become the snapshots of
now. Nothing else knows this format.
"""

from __future__ import annotations

import io
import pickle
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from pyoxigraph import Quad

from quadrill.continuous.algebra.reports import Evaluation, Interval
from quadrill.continuous.inputs import Element, StreamTime
from quadrill.continuous.output.emission import EmissionCounts
from quadrill.continuous.queries.snapshot import AnswerSnapshot, CountsSnapshot, QuerySnapshot
from quadrill.continuous.recovery.state import EngineSnapshot, EntrySnapshot, StreamSnapshot
from quadrill.continuous.streams.dead_letters import DeadLetter
from quadrill.continuous.windows.counting import BatchState, ElementsState, Triples, TriplesState
from quadrill.continuous.windows.grid import GridState
from quadrill.continuous.windows.live import ContentSnapshot, TimesSnapshot
from quadrill.continuous.windows.operator import RangeState, WindowState
from quadrill.continuous.windows.query_streams import TimelineSnapshot, View
from quadrill.store.logs.packing import QuadNumbers, elements_of, numbers_of, tabled

FORMAT = 6


def read(pickled: memoryview, quads: list[Quad]) -> EngineSnapshot:
    """The state of a checkpoint.

    Raises:
        Exception: it has something that no release wrote.
    """
    state: Mapping[str, Any] = _Reader(io.BytesIO(pickled), quads).load()
    streams = {
        iri: StreamSnapshot(each["created"], each["figures"], each["dead_letters"])
        for iri, each in state["streams"].items()
    }
    queries = [
        EntrySnapshot(
            {name: each[name] for name in ("name", "text", "dialect", "options", "created", "sources")},
            each["state"],
            each["error"],
            each["feed"],
            None if each["query"] is None else _query(each["query"]),
        )
        for each in state["queries"]
    ]
    return EngineSnapshot(
        state["processed"], state["last"], state["version"], state["keys"], streams, state["sources"], queries
    )


class _Object:
    """Stands for an object of an operator or view: what was pickled of it."""

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        # Objects with slots have theirs behind the dictionary.
        if isinstance(state, tuple) and len(state) == 2 and state[0] is None:
            state = state[1]
        self.state = state


class _RangeWindow(_Object): ...


class _AllWindow(_Object): ...


class _GridWindow(_Object): ...


class _TriplesWindow(_Object): ...


class _BatchWindow(_Object): ...


class _ElementsWindow(_Object): ...


class _SharedWindow(_Object): ...


class _SharedView(_Object): ...


def _live(quads: list[Quad], numbers: bytes, counts: bytes, latest: bytes, _: object) -> ContentSnapshot:
    counted = numbers_of(quads, numbers, counts)
    newest = numbers_of(quads, numbers, latest)
    return ContentSnapshot(counted, QuadNumbers(), sum(counted.values()), newest)


def _stored(
    quads: list[Quad],
    numbers: bytes,
    counts: bytes,
    changes: Mapping[Quad, int],
    occurrences: int,
    times: TimesSnapshot | None = None,
) -> ContentSnapshot:
    counted = numbers_of(quads, numbers, counts)
    return ContentSnapshot(counted, QuadNumbers(changes), occurrences, times=times)


def _timed(
    quads: list[Quad],
    numbers: bytes,
    counts: bytes,
    changes: Mapping[Quad, int],
    occurrences: int,
    triples: bytes,
    occurring: bytes,
    latest: bytes,
    touched: Mapping[Quad, int | None],
) -> ContentSnapshot:
    times = TimesSnapshot(numbers_of(quads, triples, occurring), numbers_of(quads, triples, latest), touched)
    return _stored(quads, numbers, counts, changes, occurrences, times)


_MADE: dict[str, Callable[..., Any]] = {
    "AllWindow": _AllWindow,
    "BatchWindow": _BatchWindow,
    "DeadLetter": DeadLetter,
    "Element": Element.of,
    "ElementsWindow": _ElementsWindow,
    "Evaluation": Evaluation,
    "GridWindow": _GridWindow,
    "Interval": Interval,
    "RangeWindow": _RangeWindow,
    "SharedView": _SharedView,
    "SharedWindow": _SharedWindow,
    "StreamTime": StreamTime,
    "TriplesWindow": _TriplesWindow,
    "_View": _Object,
    "_elements": partial(elements_of, Element),
    "_live": _live,
    "_stored": _stored,
    "_timed": _timed,
    "deque": deque,
}
"""What is made for the classes and functions of that format, by their names."""


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, quads: list[Quad]) -> None:
        super().__init__(file)
        self._quads = quads

    def persistent_load(self, number: int) -> Any:
        return tabled(self._quads, number)

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith("quadrill.continuous.") and (module, name) != ("collections", "deque"):
            raise pickle.UnpicklingError(f"{module}.{name} does not belong into a checkpoint")
        return _MADE[name]


def _query(state: Mapping[str, Any]) -> QuerySnapshot:
    kept = state["running"]
    answer = AnswerSnapshot(
        list(kept["_previous"]),
        list(kept["_previous_quads"]),
        kept["_boolean"],
        kept["_last_answer_id"],
    )
    emitted = EmissionCounts(kept["rows_inserted"], kept["rows_deleted"], kept["answers"])
    return QuerySnapshot(
        kept["state"],
        kept["error"],
        _timeline(state["timeline"]),
        answer,
        CountsSnapshot(kept["evaluations"], emitted, kept["refreshes"], *state["totals"]),
        kept["last_step"],
        kept["last_version"],
        kept["last_result"],
        kept["last_refresh"],
        kept["_seen_version"],
        kept["_stale"],
        state["static_version"],
        state["pins"],
        {place: left[-1] if left else None for place, left in state["looked_up"].items()},
    )


def _timeline(state: Mapping[str, Any]) -> TimelineSnapshot:
    views = {iri: view.state for iri, view in state["_views"].items()}
    waiting = sorted(state["_pending"])
    return TimelineSnapshot(
        {
            iri: View(view["lateness"], view["time"], view["active"], view["idle"])
            for iri, view in sorted(views.items(), key=lambda item: int(item[1]["order"]))
        },
        [(key, _window(operator)) for key, operator in state["_operators"].items()],
        deque(entry[4] for entry in waiting),
        [entry[1] for entry in waiting],
        [entry[3] for entry in waiting],
        state["_next_report"],
        state["_last_at"],
        state["_last_window"],
        state["instant"],
        None,
        state["late"],
        state["behind"],
        state["taken"],
    )


def _window(operator: _Object) -> Any:
    """The snapshot of a window; each query that shared one gets it with what it had not taken yet."""
    if isinstance(operator, _SharedView):
        shared, _, pending = operator.state
        own = _window(shared.state)
        return replace(own, content=own.content._replace(changes=QuadNumbers(pending)))
    state: Mapping[str, Any] = operator.state
    content = state["live"]
    match operator:
        case _RangeWindow():
            return RangeState(content, state["_elements"])
        case _AllWindow():
            return WindowState(content)
        case _GridWindow():
            closes = state["_next_close"], state["closed"]
            return GridState(content, state["_shown"], state["_waiting"], *closes)
        case _TriplesWindow():
            return TriplesState(content, _occurrences(state["_occurrences"]))
        case _BatchWindow():
            return BatchState(content, _occurrences(state["_filling"]), _occurrences(state["_shown"]))
        case _ElementsWindow():
            counted = state["_since_close"], state["_due"]
            return ElementsState(content, state["_newest"], state["_shown"], *counted)
    raise ValueError(f"{type(operator).__name__} is no window of format {FORMAT}")


def _occurrences(held: Any) -> Triples:
    elements = deque(element for element, _ in groupby(element for element, _ in held))
    return Triples(elements, held[0][1] if held else 0, len(held))


__all__ = ["FORMAT", "read"]
