"""Queries that a replay does not evaluate, or not to the end.

    dropped, or paused by the setting    not evaluated
    ends the replay paused or failed     evaluated as long as the replay is short
    paused or dropped during the replay  evaluated until then

Their feeds keep what had been published. Elements of the streams that they make come from the journal.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from quadrill.store.errors import ReportedError
from quadrill.store.feeds.replayed import keep_written
from quadrill.store.registry.records import QueryRecord

from ..errors import BudgetError
from ..inputs import Arrival, Idle, StreamInput
from ..lifecycle.parts import EngineParts
from ..queries.catalogue import QueryEntry
from ..queries.prepare import PreparedQuery

log = logging.getLogger("quadrill.continuous")

REPLAY_BUDGET_S = 5.0
"""Seconds of CPU time of a replay after which queries that end it paused or failed are not evaluated any
more: nobody waits for their answers, and an evaluation of theirs may be what makes the start long. What other
processes of a busy machine take does not count."""
_PAUSED_AT_START = "it was paused; its windows were not kept over the restart"


class ReplayFilter:
    """Decides which queries are not evaluated in a replay. Everything is called where the replay runs."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._records: dict[str, QueryRecord] = {}
        # Names of queries that clients have paused or dropped during the replay.
        self._stopped: set[str] = set()
        # The streams that queries make which are not evaluated.
        self._streams: set[str] = set()
        self._is_over_budget = False
        self._began = time.thread_time()

    def read_registry(self) -> None:
        """Take note of what is registered, and of what is paused and failed."""
        self._records = {record.name: record for record in self._parts.catalogue.stored()}

    def is_dropped(self, name: str) -> bool:
        """True when no query of this name is registered any more."""
        return name not in self._records

    def skips(self, entry: QueryEntry) -> bool:
        """True when a query that begins is not evaluated; its entry says why then."""
        if self.is_dropped(entry.name) or self._parts.catalogue.pause_at_start(entry):
            return True
        if (self._is_over_budget or entry.name in self._stopped) and self._ends_stopped(entry):
            self._set_state(entry)
            return True
        return False

    def skip(self, entry: QueryEntry | None, prepared: PreparedQuery | None) -> None:
        """A query is not evaluated from here on: its feed, unless it was dropped, stays as published."""
        if entry is not None:
            keep_written(entry.feed)
        if prepared is not None and prepared.made_stream is not None:
            self._streams.add(prepared.made_stream)

    def restore_limit_ms(self, entry: QueryEntry) -> int:
        """How long the windows of a query may take to be restored; 0 for as long as it takes."""
        return int(REPLAY_BUDGET_S * 1000) if self._ends_stopped(entry) else 0

    def skips_after(self, entry: QueryEntry, error: Exception) -> bool:
        """True when a query is left out because its windows took too long to be restored."""
        ends = isinstance(error, BudgetError) and self._ends_stopped(entry)
        if ends:
            log.warning("the query %s is not evaluated in the replay", entry.name)
            self._end(entry)
        return ends

    def end_stopped(self) -> None:
        """Between two records: end the replay of queries that clients have paused or dropped.

        Raises:
            EngineStoppedError: the server is to stop.
        """
        starting, catalogue = self._parts.starting, self._parts.catalogue
        starting.require_not_cancelled()
        if starting.stopped:
            self.read_registry()
        while starting.stopped:
            name, state = starting.stopped.popleft()
            self._stopped.add(name)
            if (entry := catalogue.find(name)) is not None:
                self._end(entry)
                if state is not None:
                    # An evaluation that was called off has left the query as failed.
                    catalogue.set_state(entry, state, _PAUSED_AT_START)
        if not self._is_over_budget and time.thread_time() - self._began > REPLAY_BUDGET_S:
            self._is_over_budget = True
            for entry in catalogue.entries():
                if self._ends_stopped(entry):
                    log.warning("the query %s is not evaluated in the replay", entry.name)
                    self._end(entry)

    def take_derived(self, stream: str, event: StreamInput, *, counted: bool, number: int) -> bool:
        """Take an element of a stream that a query makes from the journal; False where it is computed again.

        ``counted``: the figures of the stream hold it already.
        """
        if stream not in self._streams:
            return False
        state = self._parts.streams.find(stream)
        if state is None or counted:
            return state is not None
        if isinstance(event, Arrival):
            for element in event.elements:
                state.counts.derived += 1
                state.take([element], [element.event_time], state.watermark)
                state.next_seq = max(state.next_seq, element.seq + 1)
        elif (mark := event.after.watermark()) is not None:
            state.guarantee(mark)
        state.idle = isinstance(event, Idle)
        state.retained.add(number, event)
        return True

    def _ends_stopped(self, entry: QueryEntry) -> bool:
        """True when a query will be dropped, paused or failed at the end of the replay."""
        record = self._records.get(entry.name)
        if record is None or record.created_ms != entry.created_ms:
            return True
        return record.state in ("paused", "failed")

    def _end(self, entry: QueryEntry) -> None:
        """End the replay of a query, wherever it is."""
        running, prepared = entry.running, entry.prepared
        entry.running = entry.pending = None
        self._parts.attachments.detach(entry, running, dropped=False)
        self.skip(entry, prepared)
        if running is not None:
            with suppress(ReportedError):
                running.evaluator.close()
        self._set_state(entry)

    def _set_state(self, entry: QueryEntry) -> None:
        """The state that the registry has; one that is registered anew behind this has another query's."""
        record = self._records.get(entry.name)
        if record is not None and record.created_ms == entry.created_ms:
            reason = record.error or (_PAUSED_AT_START if record.state == "paused" else None)
            self._parts.catalogue.set_state(entry, record.state, reason)
