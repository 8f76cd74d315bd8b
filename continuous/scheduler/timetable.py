"""What is due by the clock: streams that have to move and static parts that are refreshed every so often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..durable.turns import TurnQueue
from ..groups.group import Group
from ..queries.running import RunningQuery
from ..streams.accept import Acceptor
from ..streams.registry import StreamRegistry
from .turns import RefreshTurn


class Timetable:
    """When streams and refreshes are due. Everything is called in the loop."""

    def __init__(
        self,
        turns: TurnQueue,
        acceptor: Acceptor,
        streams: StreamRegistry,
        readers: Mapping[str, Iterable[RunningQuery | Group]],
    ) -> None:
        """Make one with nothing due.

        Args:
            turns: where refreshes by timer get their place.
            acceptor: moves streams.
            streams: the streams.
            readers: who takes the inputs of a stream.
        """
        self._turns = turns
        self._clock = turns.clock
        self._acceptor = acceptor
        self._streams = streams
        self._readers = readers
        # Queries whose static parts are refreshed by timer: when next, and how often.
        self._timers: dict[str, tuple[int, int]] = {}
        # When something is due for a stream, as of the last look.
        self._due: dict[str, int] = {}

    def set(self, running: RunningQuery) -> None:
        """Begin to wait for a query's next refresh, where its static parts are refreshed every so often."""
        refresh = running.prepared.refresh
        if isinstance(refresh, int) and running.state != "failed":
            self._timers[running.name] = self._clock.steady_ms() + refresh, refresh
        else:
            self.cancel(running.name)

    def cancel(self, name: str) -> None:
        """Refresh the query of this name no more."""
        self._timers.pop(name, None)

    def look(self, every_ms: int = 0) -> None:
        """Move arrival-stamped streams, mark silent ones idle, refresh what is due.

        A stream is moved when something is due for one of its readers, and every ``every_ms`` in any case:
        each movement is a record of the journal and a turn.
        """
        now, steady = self._clock.now_ms(), self._clock.steady_ms()
        for state in self._streams:
            due, looked = self._due.get(state.iri), state.looked_steady
            if (due is not None and due <= now) or looked is None or steady - looked >= every_ms:
                state.looked_steady = steady
                self._acceptor.tick(state, now)
        for name, (at, every) in list(self._timers.items()):
            if at <= steady:
                self._timers[name] = self._clock.steady_ms() + every, every
                self._turns.submit(RefreshTurn(name, "timer"), "refresh", name=name, cause="timer")

    def wait_ms(self, at_most: int) -> int:
        """Milliseconds until something is due."""
        now = self._clock.now_ms()
        steady = self._clock.steady_ms()
        due = [now + at_most, *(now + at - steady for at, _ in self._timers.values())]
        self._due.clear()
        for state in self._streams:
            if state.record.stamping == "arrival":
                instants = [reader.timeline.next_due() for reader in self._readers.get(state.iri, ())]
                found = [instant + state.lateness_ms for instant in instants if instant is not None]
                if found:
                    self._due[state.iri] = min(found)
            elif (left := state.idle_in(self._clock)) is not None:
                self._due[state.iri] = now + left
        return max(1, min([*due, *self._due.values()]) - now)
