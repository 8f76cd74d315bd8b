"""The recovery of an engine after a restart or a crash: a checkpoint, and the replay of the journal after it.

    start:  checkpoint -> windows, feeds and streams as they were after record n
            the store is rewound to its version at that time; the tasks of records n+1 ... run again
            commits without a record get their tasks now; then the registry decides which queries exist

Results of the replay become visible only after the replay.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from quadrill.store.errors import (
    GoneError,
    OlderFormatError,
    StoreFormatError,
    StoreUnwritableError,
    UnsupportedError,
)
from quadrill.store.feeds.replayed import end_of_replay
from quadrill.store.logs.journal import Journal, JournalRecord

from ..errors import reason_of
from ..language.registration import Registration
from ..lifecycle.lifecycle import QueryLifecycle
from ..lifecycle.parts import EngineParts
from ..queries.catalogue import QueryEntry
from ..queries.running import RunningQuery
from ..queries.snapshot import QuerySnapshot, restore
from ..scheduler.task_kinds import PauseTask
from ..streams.movements import begin_again
from .checkpoint import read_state
from .checkpointer import Checkpointer
from .replay import Replay, registration_of
from .replay_filter import ReplayFilter
from .state import EngineSnapshot, EntrySnapshot

log = logging.getLogger("quadrill.continuous")

_SWITCHED = {"running", "paused"}
_MAX_REWIND = 10_000
"""Maximum number of versions by which a recovery rewinds the store to restore static parts; older static
parts are read again."""


class Recovery:
    """Recovers one engine from its checkpoint, its journal and the registry.

    The method `recover` runs before the engine's thread starts. The thread that starts the engine then calls
    `reconcile` and `follow_registry` under the lock of registrations.

    Attributes:
        checkpoints: writes the checkpoints.
        report: duration, number of records and problems of the last recovery, for the server's log and its
            API.
    """

    def __init__(self, parts: EngineParts, lifecycle: QueryLifecycle, journal: Journal) -> None:
        self._parts = parts
        self._lifecycle = lifecycle
        self._journal = journal
        self._filter = ReplayFilter(parts)
        self._replay = Replay(parts, lifecycle, journal, self._filter)
        self.checkpoints = Checkpointer(parts, journal)
        self.report: dict[str, Any] = {}
        self._closed = False
        self._problems: list[str] = []

    def close(self) -> None:
        """Write the last checkpoint of a stop and close the journal."""
        if self._closed:
            return
        self._closed = True
        try:
            # If the recovery did not complete, the engine's state in memory is incomplete, so the checkpoint
            # on disk stays.
            self.checkpoints.stop()
            if self.report:
                self.checkpoints.checkpoint(at_end=True)
        finally:
            try:
                self._journal.close()
            except StoreUnwritableError as error:
                log.error("Inputs that were not answered are lost: %s", error.message)

    def recover(self) -> None:
        """Restore the state from the checkpoint and the journal, once, before the engine's thread runs.

        Raises:
            OlderFormatError: the checkpoint has an older format.
            StoreFormatError: the journal is damaged before its end, or journal or store lack data that the
                checkpoint needs.
            EngineStoppedError: the start was cancelled.
        """
        began = time.monotonic()
        parts, journal, replay = self._parts, self._journal, self._replay
        self._filter.read_registry()
        parts.streams.restore()
        journal.silent = True
        state: EngineSnapshot | None = None
        try:
            state = read_state(self.checkpoints.path)
        except OlderFormatError:
            # An older release can still read the windows in this checkpoint, so the recovery fails instead of
            # replacing the windows by empty ones.
            raise
        except StoreFormatError as error:
            self._problems.append(error.message)
        usable = state is not None or journal.log.earliest == 1
        if not usable:
            self._problems.append(
                "without a checkpoint, windows begin empty and feeds begin with a reset event"
            )
        processed, last = (0, 0) if state is None else (state.processed, state.last)
        if state is not None:
            state.require_followed(journal.log.earliest, journal.log.last, parts.store.log.version)
            self._restore_streams(state)
        records = replay.read(processed, last, usable=usable)
        parts.statics.begin_replay(replay.lagging_tables, replay.reloads, replay.definitions)
        if usable:
            parts.starting.records = len(records)
            self._restore_queries(state, records)
            for record in records:
                self._filter.end_stopped()
                replay.replay_record(record, counted=record.number <= last)
                parts.starting.done += 1
            self._filter.end_stopped()
        else:
            parts.begin_at(parts.store.log.version)
        parts.tasks.order = journal.log.last
        journal.silent = False
        replay.begin_epoch()
        replay.replay_commits()
        self._finish()
        if state is not None and not records and journal.log.last == last:
            # The checkpoint that was read is the present state of the engine, so it need not be written
            # again.
            self.checkpoints.mark_current()
        self.report = {
            "seconds": round(time.monotonic() - began, 3),
            "records": len(records),
            "cut_bytes": journal.log.cut_bytes,
            "problem": "; ".join(self._problems) or None,
        }
        for problem in self._problems:
            log.error(problem)
        log.info("Recovered in %(seconds)s s, %(records)s records replayed", self.report)

    # --- the state of the engine in the checkpoint ----------------------------------------------

    def _restore_streams(self, state: EngineSnapshot) -> None:
        for iri, kept in state.streams.items():
            stream = self._parts.streams.find(iri)
            if stream is not None and stream.record.created_ms == kept.created_ms:
                stream.restore_figures(kept.figures)
                stream.dead_letters.restore(kept.dead_letters)
        for each in state.keys:
            self._parts.acceptor.receipts.restore(*each)

    def _restore_queries(self, state: EngineSnapshot | None, records: list[JournalRecord]) -> None:
        """Create the queries of the checkpoint, each over the store version of its static parts."""
        parts, tasks = self._parts, self._parts.tasks
        if state is None:
            # Each start writes a checkpoint, so without one this is the first start, or the checkpoint is
            # damaged and the journal complete. Without a checkpoint, no query existed before the first record
            # of the journal.
            commits = [record.members["version"] for record in records if record.kind == "commit"]
            parts.begin_at(commits[0] - 1 if commits else parts.store.log.version)
            self._rewind_to(tasks.version)
            tasks.replayed_versions = self._replay.read_versions
            return
        parts.sources.restore(state.sources)
        tasks.version, tasks.epoch = state.version, state.epoch
        snapshots = [(each, each.query) for each in state.queries if each.query is not None]
        versions = [query.static_version for _, query in snapshots]
        close_versions = [version for version in versions if state.version - version <= _MAX_REWIND]
        self._rewind_to(min([state.version, *close_versions]))
        parts.statics.begin_at(parts.store.reader.version)
        entries = {each.name: self._restore_entry(each) for each in state.queries}
        restored: dict[str, RunningQuery] = {}
        for each, query in sorted(snapshots, key=lambda pair: pair[1].static_version):
            self._filter.end_stopped()
            entry = entries[each.name]
            if self._filter.skips(entry):
                self._replay.skip_query(entry, each.members)
                continue
            self._forward_to(query.static_version, restored.values())
            running = self._restore_query(entries[each.name], each, query)
            if running is not None:
                restored[each.name] = running
        self._forward_to(state.version, restored.values())
        tasks.replayed_versions = self._replay.read_versions
        # Clients may have paused or dropped some queries while the queries were restored.
        adopted = [entry.running for name, entry in entries.items() if name in restored]
        parts.router.adopt(running for running in adopted if running is not None)

    def _rewind_to(self, version: int) -> None:
        try:
            self._parts.store.committer.rewind(version)
        except (GoneError, UnsupportedError) as error:
            log.warning("The replay reads the newest version of the store: %s", error.message)

    def _forward_to(self, version: int, restored: Iterable[RunningQuery]) -> None:
        """Forward the store to a version; apply its changes to static parts of ``restored`` queries."""
        store, statics = self._parts.store, self._parts.statics
        before = store.reader.version
        store.committer.forward(version)
        if store.reader.version == before:
            return
        for step in range(before + 1, store.reader.version + 1):
            statics.advance(step)
        statics.take_moved()
        for running in restored:
            if running.prepared.refresh == "trigger":
                running.static.catch_up(on_request=False)

    def _restore_entry(self, kept: EntrySnapshot) -> QueryEntry:
        """Add the catalogue entry of a query in the checkpoint, with its feed."""
        feed = self._lifecycle.new_feed(kept.name)
        feed.restore(kept.feed, self._journal.results.events(kept.feed[0]))
        registration, created = registration_of(kept.members), kept.members["created"]
        entry = QueryEntry(kept.name, registration, feed, created, state=kept.state, error=kept.error)
        self._parts.catalogue.add(entry)
        return entry

    def _restore_query(
        self, entry: QueryEntry, kept: EntrySnapshot, query: QuerySnapshot
    ) -> RunningQuery | None:
        """Restore a query of the checkpoint; mark a query that cannot be restored as failed."""
        try:
            query_and_evaluator = self._replay.evaluator(kept.members, query.looked_up, query.pins)
            running = self._lifecycle.make_running(entry, *query_and_evaluator, paused=kept.state == "paused")
            running.dropped_before = kept.members.get("dropped_before")
            running.begun = kept.members.get("begun")
            restore(running, query, self._filter.restore_limit_ms(entry))
            self._parts.views.adopt(entry.name, running.view)
            return running
        except Exception as error:
            entry.running = None
            if self._filter.skips_after(entry, error):
                return None
            log.warning("The query %s cannot be restored: %s", entry.name, error)
            self._parts.catalogue.set_state(entry, "failed", reason_of(error)[0])
            return None

    # --- steps after the replay of the journal --------------------------------------------------

    def _finish(self) -> None:
        """Bring the store to its newest version, end the replay of each feed and flush the results.

        If the journal lost its end, the replay cannot produce all published events of a feed again. A feed
        whose published events cannot all be produced again gets a reset event, and its ids continue after the
        last published id.
        """
        parts, journal = self._parts, self._journal
        parts.tasks.replayed_versions = None
        parts.store.committer.forward(parts.store.log.version)
        for entry in parts.catalogue.entries():
            if entry.running is not None:
                entry.running.evaluator.budget.grace = 1.0
            if not end_of_replay(entry.feed):
                self._problems.append(
                    f"the end of the journal is lost, so the feed {entry.name} gets a reset event"
                )
            if entry.feed.history.incomplete:
                self._problems.append(
                    f"events of the feed {entry.name} are lost; clients that resume there get a reset event"
                )
        parts.sequencer.flush()
        for stream in parts.streams:
            # The downtime of the server does not count for the idle time-outs of streams.
            begin_again(stream, parts.clock)
        parts.tasks.processed = journal.log.last

    def reconcile(self) -> None:
        """Begin the queries that only the registry has, and end those that the registry does not have."""
        parts, lifecycle, results = self._parts, self._lifecycle, self._journal.results
        parts.statics.end_replay()
        self.follow_registry([entry.name for entry in parts.catalogue.entries()])
        stored = {record.name: record for record in parts.catalogue.stored()}
        for name, record in stored.items():
            existing = parts.catalogue.find(name)
            if existing is None:
                lifecycle.restore(record, results.newest(name))
            elif existing.created_ms != record.created_ms:
                lifecycle.detach(existing)
                lifecycle.restore(record, None, existing.feed)
            elif existing.registration.options() != dict(record.options):
                existing.registration = Registration.restored(
                    name, record.text, record.dialect, record.options
                )
                if existing.running is not None:
                    parts.attachments.change(existing.running, existing.registration)
        for entry in parts.catalogue.entries():
            if entry.pending is not None and entry.pending.running is None:
                lifecycle.resume_build(entry, entry.pending)
        numbers = [entry.feed.number for entry in parts.catalogue.entries()]
        parts.sequencer.call(lambda: results.keep_only(numbers))

    def follow_registry(self, names: Iterable[str]) -> None:
        """Drop named queries that the registry does not have; pause or resume those whose state differs."""
        catalogue, lifecycle = self._parts.catalogue, self._lifecycle
        stored = {record.name: record for record in catalogue.stored()}
        for name in names:
            entry, record = catalogue.find(name), stored.get(name)
            if entry is None:
                continue
            if record is None:
                catalogue.discard(entry)
                lifecycle.detach(entry, dropped=True)
                entry.feed.close()
            elif (running := entry.running) is not None and {record.state, running.state} == _SWITCHED:
                entry.state = record.state
                task = PauseTask(running, record.state)
                self._parts.sequencer.perform(task, "state", name=name, state=record.state)
