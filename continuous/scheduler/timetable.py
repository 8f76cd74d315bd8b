"""The times at which streams and refreshes are due by the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..durable.tasks import TaskQueue
from ..groups.group import QueryGroup
from ..inputs import NEVER
from ..queries.running import RunningQuery
from ..streams.accept import Acceptor
from ..streams.movements import idle_in, tick, ticks_at
from ..streams.registry import StreamRegistry
from .task_kinds import RefreshTask


@dataclass(slots=True, eq=False)
class Timetable:
    """Ticks streams and refreshes static parts when these are due by the clock.

    Only the engine's thread uses the timetable.

    Attributes:
        _readers: the readers of each stream, by stream IRI.
        _timers: by query name, when its static parts are refreshed next, and the interval in milliseconds.
        _due: by stream IRI, when a stream is due, as computed by the last `wait_ms`.
    """

    _tasks: TaskQueue
    _acceptor: Acceptor
    _streams: StreamRegistry
    _readers: Mapping[str, Iterable[RunningQuery | QueryGroup]]
    _timers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _due: dict[str, int] = field(default_factory=dict)

    def set(self, running: RunningQuery) -> None:
        """Start the refresh timer of a query, or cancel it if the query is not refreshed at an interval."""
        refresh = running.prepared.refresh
        if isinstance(refresh, int) and running.state != "failed":
            self._timers[running.name] = self._tasks.clock.steady_ms() + refresh, refresh
        else:
            self.cancel(running.name)

    def cancel(self, name: str) -> None:
        """Cancel the refresh timer of the query with this name."""
        self._timers.pop(name, None)

    def run_due(self, every_ms: int = 0) -> None:
        """Tick arrival-stamped streams, mark silent streams idle, and enqueue refreshes that are due.

        A stream gets a tick when one of its readers is due, and at least every ``every_ms``. Ticks are rare
        because each one is a journal record and a task.
        """
        now, steady = self._tasks.clock.now_ms(), self._tasks.clock.steady_ms()
        for state in self._streams:
            due, last = self._due.get(state.iri), state.looked_steady
            if (due is not None and due <= now) or last is None or steady - last >= every_ms:
                state.looked_steady = steady
                tick(self._acceptor, self._tasks, state, now)
        for name, (at, every) in list(self._timers.items()):
            if at <= steady:
                self._timers[name] = self._tasks.clock.steady_ms() + every, every
                self._tasks.submit(RefreshTask(name, "timer"), "refresh", name=name, cause="timer")

    def wait_ms(self, at_most: int) -> int:
        """Return the milliseconds until a stream or a refresh is due, at most ``at_most``."""
        now = self._tasks.clock.now_ms()
        steady = self._tasks.clock.steady_ms()
        due = [now + at_most, *(now + at - steady for at, _ in self._timers.values())]
        self._due.clear()
        for state in self._streams:
            if ticks_at(state, NEVER) is not None:
                instants = [reader.timeline.next_due() for reader in self._readers.get(state.iri, ())]
                ticks = [ticks_at(state, instant) for instant in instants if instant is not None]
                if due_at := [at for at in ticks if at is not None]:
                    self._due[state.iri] = min(due_at)
            elif (idle_after := idle_in(state, self._tasks.clock)) is not None:
                self._due[state.iri] = now + idle_after
        return max(1, min([*due, *self._due.values()]) - now)
