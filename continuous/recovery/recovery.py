"""Keeping an engine over restarts and crashes: a checkpoint, and the replay of the journal behind it.

    start:  checkpoint -> windows, feeds, streams as they were after record n
            the store is rewound to the version of then; records n+1 ... take their turns again, commits too
            commits that no record speaks of take theirs; the registry decides what else there is

A replay publishes what it published before the crash: those events are in the result log and only compared;
later ones are new and written. Nothing is shown to anybody before the replay is over.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import (
    GoneError,
    QuadrillError,
    StoreFormatError,
    StoreUnwritableError,
    UnsupportedError,
)

from ..durable.journal import Journal, JournalRecord
from ..durable.turns import CallTurn, InputTurn, NewStreamTurn, Turn
from ..evaluate.evaluator import Evaluator
from ..lifecycle.lifecycle import QueryLifecycle, sentence_of
from ..lifecycle.parts import EngineParts
from ..queries.catalogue import Entry
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..queries.snapshot import QuerySnapshot, restore
from ..scheduler.turns import (
    AttachTurn,
    CommitTurn,
    DetachTurn,
    RefreshTurn,
    RegistrationTurn,
    ReserveTurn,
    StateTurn,
    SwapAgainTurn,
    UnreadyTurn,
)
from ..static.replay import Past
from ..streams.accept import replay_derived
from ..streams.stream import MemoryLog
from .checkpointer import Checkpointer
from .records import parts_looked_up, registration_of, tables_of
from .state import EngineSnapshot, EntrySnapshot, read_state

log = logging.getLogger("quadrill.continuous")

_MANY = 100_000
"""Quads in windows from which what a recovery made is kept out of garbage collection."""
_FAR = 10_000
"""Static parts that reflect a version further back than this are read anew rather than rewound to."""


class Recovery:
    """Recovery of one engine. Everything is called in the loop or before it runs."""

    def __init__(self, parts: EngineParts, life: QueryLifecycle, journal: Journal) -> None:
        self._parts = parts
        self._lifecycle = life
        self.journal = journal
        self.checkpoints = Checkpointer(parts, journal)
        self._closed = False
        self._seen: dict[tuple[int, str], int] = {}
        self._past = Past()
        # What the log of the server and its description say about the last start.
        self.report: dict[str, Any] = {}

    def close(self) -> None:
        """Write the last checkpoint and close the journal."""
        if self._closed:
            return
        self._closed = True
        try:
            # Without a recovery there is nothing in memory that is worth more than the checkpoint on disk.
            self.checkpoints.stop()
            if self.report:
                self.checkpoints.at_end()
        finally:
            try:
                self.journal.close()
            except StoreUnwritableError as error:
                log.error("what was not answered is lost: %s", error.message)

    # --- recovery -------------------------------------------------------------------------------

    def recover(self) -> None:
        """Bring the engine to where it was. Called once, before the loop runs.

        Raises:
            StoreFormatError: the journal is damaged before its end.
        """
        # Millions of objects that stay are made: looking for cycles among them doubles the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._recover()
            if self._parts.catalogue.state_size() > _MANY:
                # What was read stays for long: it need not be looked through at every full collection.
                gc.freeze()
        finally:
            if collecting:
                gc.enable()

    def _recover(self) -> None:
        began = time.monotonic()
        parts, journal = self._parts, self.journal
        parts.streams.restore()
        journal.silent = True
        state: EngineSnapshot | None = None
        problem: str | None = None
        try:
            state = read_state(self.checkpoints.path)
        except StoreFormatError as error:
            problem = error.message
        if state is None and journal.log.earliest > 1 and problem is None:
            problem = "the checkpoint is gone"
        usable = problem is None or journal.log.earliest == 1
        if not usable:
            log.error("windows begin empty and feeds with a reset: %s", problem)
        processed = 0 if state is None else state.processed
        last = 0 if state is None else state.last
        if journal.last < last:
            log.error("the journal ends at record %d, the checkpoint was made after %d", journal.last, last)
            journal.log.restart(last)
        rest = self._read_past(processed, last, state, usable=usable)
        parts.statics.begin_replay(self._past)
        if usable:
            self._begin(state, rest)
            for record in rest:
                journal.reached("in-replay")
                self._replay(record, counted=record.number <= last)
            parts.turns.order = journal.last
            journal.silent = False
            self._take_commits()
        else:
            parts.begin_at(parts.store.logged_version)
        self._finish()
        for stream in parts.streams:
            # The time that the server was away is no silence of the stream.
            if stream.last_input_ms is not None:
                stream.heard(parts.clock)
        parts.turns.order = journal.last
        parts.turns.processed = journal.last
        journal.silent = False
        if state is not None and not rest and journal.last == last:
            # What was read is the state: it need not be written again.
            self.checkpoints.is_current()
        self.report = {
            "seconds": round(time.monotonic() - began, 3),
            "records": len(rest),
            "cut_bytes": journal.log.cut_bytes,
            "problem": problem,
        }
        log.info("recovered in %(seconds)s s, %(records)s records replayed", self.report)

    def _read_past(
        self, processed: int, last: int, state: EngineSnapshot | None, *, usable: bool
    ) -> list[JournalRecord]:
        """Restore streams and what they retain; the records that have to take their turns again."""
        parts = self._parts
        acceptor, book = parts.acceptor, parts.streams
        for iri, kept in ({} if state is None else state.streams).items():
            stream = book.find(iri)
            if stream is not None and stream.record.created_ms == kept.created_ms:
                stream.restore_figures(kept.figures)
                stream.dead_letters.restore(kept.dead_letters)
        acceptor.receipts.restore([] if state is None else state.keys)
        rest = []
        for record in self.journal.read():
            stream = book.find(record.members["stream"]) if "stream" in record.members else None
            match record.kind:
                case "seen":
                    self._seen[record.members["turn"], record.members["query"]] = record.members["version"]
                case "behind":
                    if record.number > processed:
                        self._past.behind.update(tables_of(record.members))
                case "moved" | "static":
                    # Earlier releases moved static parts in and out of memory, which changes no answer.
                    pass
                case "derived":
                    if record.number <= last:
                        replay_derived(record, stream)
                case "input" if record.number <= processed or not usable:
                    acceptor.replay(record, stream, counted=record.number <= last)
                case "unstream" if record.number <= processed or not usable:
                    self._drop_stream(record)
                case _ if record.number > processed:
                    if record.kind == "swap":
                        self._past.swaps.update(tables_of(record.members))
                    rest.append(record)
        return rest

    def _begin(self, state: EngineSnapshot | None, rest: list[JournalRecord]) -> None:
        """Make the queries of the checkpoint, each over the version that its static parts reflected."""
        parts = self._parts
        store, turns = parts.store, parts.turns
        if state is None:
            # The first start writes a checkpoint, so this is the start, or the checkpoint is damaged and
            # the journal whole: before its first record there was no query.
            commits = [record.members["version"] for record in rest if record.kind == "commit"]
            parts.begin_at(commits[0] - 1 if commits else store.logged_version)
            self._rewind_to(turns.version)
            turns.replaying = self._forward
            return
        parts.sources.restore(state.sources)
        turns.version = state.version
        kept = [(each, each.query) for each in state.queries if each.query is not None]
        versions = [query.static_version for _, query in kept]
        near = [version for version in versions if state.version - version <= _FAR]
        self._rewind_to(min([state.version, *near]))
        parts.statics.begin_at(store.version)
        entries = {each.name: self._entry(each) for each in state.queries}
        restored: dict[str, RunningQuery] = {}
        for each, query in sorted(kept, key=lambda pair: pair[1].static_version):
            self._forward_to(query.static_version, restored.values())
            running = self._restore(entries[each.name], each, query)
            if running is not None:
                restored[each.name] = running
        self._forward_to(state.version, restored.values())
        turns.replaying = self._forward
        for name in entries:
            if name in restored:
                parts.router.adopt(restored[name])

    def _forward_to(self, version: int, restored: Iterable[RunningQuery]) -> None:
        """Forward the store; queries that were restored by then take what the commits change."""
        store, statics = self._parts.store, self._parts.statics
        before = store.version
        store.forward(min(version, store.logged_version))
        for each in range(before + 1, store.version + 1):
            statics.advance(each)
        statics.take_moved()
        for running in restored:
            running.absorb_steps()

    def _evaluator_of(
        self, members: dict[str, Any], looked_up: Any, pins: Mapping[str, list[Any]]
    ) -> tuple[PreparedQuery, Evaluator]:
        prepared = self._lifecycle.prepare(registration_of(members)).under_name(members["name"])
        prepared = self._lifecycle.with_sources(prepared, members["sources"])
        prepared = replace(prepared, looked_up=parts_looked_up(looked_up))
        with self._parts.sources.pinned(pins):
            return prepared, self._lifecycle.evaluator(prepared)

    def _entry(self, kept: EntrySnapshot) -> Entry:
        """One query of the checkpoint, with its feed."""
        feed = self._lifecycle.new_feed(kept.name)
        feed.restore(kept.feed, self.journal.results.events(kept.feed[0]))
        registration, created = registration_of(kept.members), kept.members["created"]
        entry = Entry(kept.name, registration, feed, created, state=kept.state, error=kept.error)
        self._parts.catalogue.add(entry)
        return entry

    def _restore(self, entry: Entry, kept: EntrySnapshot, query: QuerySnapshot) -> RunningQuery | None:
        """A query as it was; one that cannot run any more is shown as failed with the reason."""
        try:
            made = self._evaluator_of(kept.members, query.looked_up, query.pins)
            running = self._lifecycle.make_running(entry, *made, paused=kept.state == "paused")
            restore(running, query)
            self._parts.views.adopt(entry.name, running.view)
            return running
        except Exception as error:
            entry.running = None
            log.warning("the query %s cannot be restored: %s", entry.name, error)
            self._parts.catalogue.set_state(entry, "failed", sentence_of(error))
            return None

    def _rewind_to(self, version: int) -> None:
        try:
            self._parts.store.rewind(version)
        except (GoneError, UnsupportedError) as error:
            log.warning("the replay reads the newest version of the dataset: %s", error.message)

    def _forward(self, name: str) -> None:
        """A query of the replay is about to refresh its static parts."""
        turns, store = self._parts.turns, self._parts.store
        version = self._seen.get((turns.number, name), turns.version)
        store.forward(min(version, store.logged_version))

    # --- the replay -----------------------------------------------------------------------------

    def _replay(self, record: JournalRecord, *, counted: bool) -> None:
        """Let one record take its turn again."""
        try:
            turn = self._turn_of(record, counted=counted)
            if turn is not None:
                self._take(turn, record.number, record.members.get("now", 0))
        except QuadrillError as error:
            log.error("record %d of the journal (%s) failed: %s", record.number, record.kind, error.message)

    def _take(self, turn: Turn, number: int, at: int) -> None:
        turn.number, turn.at = number, at
        self._parts.sequencer.run(turn)
        if turn.error is not None:
            raise turn.error

    def _turn_of(self, record: JournalRecord, *, counted: bool) -> Turn | None:
        """The turn of a record; None where nothing has to be done again."""
        parts, members = self._parts, record.members
        match record.kind:
            case "input":
                event = parts.acceptor.replay(record, parts.streams.find(members["stream"]), counted=counted)
                return None if event is None else InputTurn(event)
            case "commit":
                self._forward_store(members["version"])
                return CommitTurn(Commit(members["version"], members["at"]))
            case "stream":
                return NewStreamTurn(members["stream"])
            case "unstream":
                self._drop_stream(record)
                return None
            case "reserve":
                return self._reserve(record)
            case "attach":
                return self._attach(record)
            case "source":
                key, changed = parts.sources.replay(members)
                if not changed:
                    return None
                return CallTurn(lambda: parts.router.sources_changed(key, members.get("now", 0)))
            case "swap":
                return SwapAgainTurn([name for name, _ in tables_of(members)], members["version"])
        entry = parts.catalogue.find(members["name"])
        if entry is None:
            return None
        running = entry.running
        match record.kind:
            case "detach":
                entry.running = None
                if members["dropped"]:
                    parts.catalogue.discard(entry)
                return DetachTurn(entry, running, members["dropped"])
            case "unready":
                return UnreadyTurn(entry, members["error"], members["code"])
            case "state" if running is not None:
                entry.state = members["state"]
                return StateTurn(running, members["state"])
            case "registration" if running is not None:
                entry.registration = registration_of({**_named(entry), "options": members["options"]})
                return RegistrationTurn(running, entry.registration)
            case "refresh":
                return RefreshTurn(entry.name, members["cause"])
        return None

    def _forward_store(self, version: int) -> None:
        store = self._parts.store
        store.forward(min(version, store.logged_version))

    def _take_commits(self) -> None:
        """Commits that were durable before anybody noted their turn take it now, one by one."""
        parts = self._parts
        store = parts.store
        for version in range(parts.turns.version + 1, store.logged_version + 1):
            store.forward(version)
            try:
                at = next(store.commits_after(version - 1, 1)).at_ms
            except (GoneError, StopIteration):
                at = parts.clock.now_ms()
            number = parts.turns.note("commit", now=at, version=version, at=at)
            self._take(CommitTurn(Commit(version, at)), number, at)

    def _entry_of(self, record: JournalRecord) -> Entry:
        """A query that begins, or has its place kept, in the replay."""
        parts, members = self._parts, record.members
        existing = parts.catalogue.find(members["name"])
        if existing is not None and existing.pending is not None and record.kind == "attach":
            return existing
        if existing is not None and members["reset"]:
            feed = existing.feed
        else:
            feed = self._lifecycle.new_feed(members["name"])
            feed.restore([record.number, 0, 0, 0, 0], self.journal.results.events(record.number))
            if parts.outbox is not None:
                parts.outbox.keep_name(feed)
        entry = Entry(members["name"], registration_of(members), feed, members["created"])
        if existing is not None:
            entry.restarts = existing.restarts
        parts.catalogue.add(entry)
        return entry

    def _reserve(self, record: JournalRecord) -> ReserveTurn:
        members = record.members
        entry = self._entry_of(record)
        prepared = self._lifecycle.prepare(entry.registration).under_name(entry.name)
        prepared = self._lifecycle.with_sources(prepared, members["sources"])
        entry.pending = pending = self._parts.attachments.pending(entry.name, prepared)
        return ReserveTurn(entry, pending)

    def _attach(self, record: JournalRecord) -> AttachTurn | None:
        parts, members = self._parts, record.members
        entry = self._entry_of(record)
        try:
            made = self._evaluator_of(members, members.get("looked_up"), {})
        except Exception as error:
            parts.router.forget_name(entry.name)
            parts.attachments.end_waiting(entry.name)
            parts.catalogue.set_state(entry, "failed", sentence_of(error))
            return None
        running = self._lifecycle.make_running(entry, *made, paused=members["paused"])
        return AttachTurn(running, members["reset"], members.get("from"))

    def _drop_stream(self, record: JournalRecord) -> None:
        """A stream was dropped; the one of that IRI now, if any, was declared later."""
        self._parts.acceptor.receipts.forget(record.members["stream"])
        stream = self._parts.streams.find(record.members["stream"])
        if stream is None:
            return
        stream.forget_figures()
        stream.dead_letters.clear()
        if isinstance(stream.log, MemoryLog):
            stream.log.clear()

    def _finish(self) -> None:
        """The store is at its newest version again, and nothing that was published is missing."""
        parts = self._parts
        parts.turns.replaying = None
        parts.store.forward(parts.store.logged_version)
        self._seen.clear()
        for entry in parts.catalogue.entries():
            if not entry.feed.end_of_replay():
                log.error("the end of the journal is lost: the feed %s begins anew", entry.name)
        parts.sequencer.settle()


def _named(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "text": entry.registration.query, "dialect": entry.registration.dialect}
