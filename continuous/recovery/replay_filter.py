"""The queries that a replay does not evaluate, or only for some time.

    dropped, or paused by the setting            not evaluated
    paused or failed at the end of the replay    evaluated while the replay is short
    paused or dropped during the replay          evaluated until then

The feeds of queries that a replay does not evaluate keep the published events. The derived elements of
queries that a replay does not evaluate come from the journal.
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
"""CPU seconds of a replay after which queries that are paused or failed at its end are not evaluated any
more. No client waits for the results of queries that are paused or failed, and one of their evaluations may
be the reason for a long start.
The replay's time budget is CPU time, because other processes do not affect it."""
_PAUSED_AT_START = "it was paused; its windows were not kept over the restart"


class ReplayFilter:
    """Decides which queries a replay does not evaluate.

    Only the thread of the replay calls the methods of the filter.
    """

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._records: dict[str, QueryRecord] = {}
        # The names of queries that clients have paused or dropped during the replay.
        self._stopped: set[str] = set()
        # The derived streams of queries that the replay does not evaluate.
        self._streams: set[str] = set()
        self._is_over_budget = False
        self._began = time.thread_time()

    def read_registry(self) -> None:
        """Read the registered queries and their states from the registry."""
        self._records = {record.name: record for record in self._parts.catalogue.stored()}

    def is_dropped(self, name: str) -> bool:
        """Return True if no query with this name is registered."""
        return name not in self._records

    def skips(self, entry: QueryEntry) -> bool:
        """Return True if the replay skips a query that would begin now, and set its state accordingly."""
        if self.is_dropped(entry.name) or self._parts.catalogue.pause_at_start(entry):
            return True
        if (self._is_over_budget or entry.name in self._stopped) and self._ends_stopped(entry):
            self._set_state(entry)
            return True
        return False

    def skip(self, entry: QueryEntry | None, prepared: PreparedQuery | None) -> None:
        """Stop evaluating a query in the replay; its feed keeps the published events."""
        if entry is not None:
            keep_written(entry.feed)
        if prepared is not None and prepared.made_stream is not None:
            self._streams.add(prepared.made_stream)

    def restore_limit_ms(self, entry: QueryEntry) -> int:
        """Return the milliseconds that restoring a query's windows may take; 0 means no limit."""
        return int(REPLAY_BUDGET_S * 1000) if self._ends_stopped(entry) else 0

    def skips_after(self, entry: QueryEntry, error: Exception) -> bool:
        """Return True if a query is skipped because restoring its windows took too long."""
        ends = isinstance(error, BudgetError) and self._ends_stopped(entry)
        if ends:
            log.warning("The query %s is not evaluated in the replay", entry.name)
            self._end(entry)
        return ends

    def end_stopped(self) -> None:
        """Between two journal records, end the replay of queries that clients have paused or dropped.

        Once the replay has used `REPLAY_BUDGET_S`, also end the replay of queries that are paused or failed
        at its end.

        Raises:
            EngineStoppedError: the server has to stop during the replay.
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
                    # A cancelled evaluation has marked the query as failed, so its state is set again.
                    catalogue.set_state(entry, state, _PAUSED_AT_START)
        if not self._is_over_budget and time.thread_time() - self._began > REPLAY_BUDGET_S:
            self._is_over_budget = True
            for entry in catalogue.entries():
                if self._ends_stopped(entry):
                    log.warning("The query %s is not evaluated in the replay", entry.name)
                    self._end(entry)

    def take_derived(self, stream: str, event: StreamInput, *, counted: bool, number: int) -> bool:
        """Apply an input of a derived stream from the journal; return False if its query derives it again.

        ``counted`` is True if the figures of the derived stream include the input.
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
        """Return True if a query is dropped, paused or failed at the end of the replay."""
        record = self._records.get(entry.name)
        if record is None or record.created_ms != entry.created_ms:
            return True
        return record.state in ("paused", "failed")

    def _end(self, entry: QueryEntry) -> None:
        """End the replay of a query that runs or waits."""
        running, prepared = entry.running, entry.prepared
        entry.running = entry.pending = None
        self._parts.attachments.detach(entry, running, dropped=False)
        self.skip(entry, prepared)
        if running is not None:
            with suppress(ReportedError):
                running.evaluator.close()
        self._set_state(entry)

    def _set_state(self, entry: QueryEntry) -> None:
        """Set the query's state from the registry, unless the name belongs to a later registration there."""
        record = self._records.get(entry.name)
        if record is not None and record.created_ms == entry.created_ms:
            reason = record.error or (_PAUSED_AT_START if record.state == "paused" else None)
            self._parts.catalogue.set_state(entry, record.state, reason)
