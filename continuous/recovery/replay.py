"""The replay of a journal: the tasks of its records run again on the state of a checkpoint.

Events that were published before the crash are in the result log, so the replay only compares them. Events of
a replay after the published ones are new, and are written to the result log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import GoneError, ReportedError
from quadrill.store.logs.journal import Journal, JournalRecord

from ..durable.records import input_of
from ..durable.tasks import InputTask, Task
from ..errors import BudgetError, reason_of
from ..evaluate.evaluator import Evaluator
from ..inputs import StreamInput
from ..language.registration import Registration
from ..lifecycle.lifecycle import QueryLifecycle, begun_of
from ..lifecycle.parts import EngineParts
from ..lifecycle.rule_queries import redefine
from ..queries.catalogue import QueryEntry
from ..queries.prepare import PreparedQuery
from ..remote.spec import SourceSpec
from ..rules.definition import RuleSetDefinition, read_definition
from ..scheduler import task_kinds as kinds
from ..static.rule_graphs import NamedRules
from ..streams.dead_letters import DeadLetter, early, misshapen, unreadable
from ..streams.movements import forget_time
from .replay_filter import ReplayFilter

log = logging.getLogger("quadrill.continuous")


class Replay:
    """One replay.

    Attributes:
        lagging_tables: pairs of a table and the version from which on its rows were unknown (`TableReplay`).
        reloads: pairs of a table and the version of a reload (`TableReplay`).
        definitions: the rule sets that commits have replaced (`TableReplay`).
    """

    def __init__(
        self, parts: EngineParts, lifecycle: QueryLifecycle, journal: Journal, replay_filter: ReplayFilter
    ) -> None:
        self._parts = parts
        self._filter = replay_filter
        self._lifecycle = lifecycle
        self._journal = journal
        self.lagging_tables: set[tuple[str, int]] = set()
        self.reloads: set[tuple[str, int]] = set()
        self.definitions: dict[tuple[str, int], RuleSetDefinition | None] = {}
        # The versions of the store at which queries' refreshes read static parts in the running inputs; see
        # `TaskQueue.replayed_versions`.
        self.read_versions: dict[str, int] = {}
        self._versions_of_task: dict[int, dict[str, int]] = {}
        # For each task, the journal records of queries whose failure in it a replay would not repeat.
        self._failures_of_task: dict[int, list[dict[str, Any]]] = {}

    def read(self, processed: int, last: int, *, usable: bool) -> list[JournalRecord]:
        """Restore the retained elements of streams; return the records whose tasks have to run again.

        Args:
            processed: the record up to which the checkpoint contains the state of queries.
            last: the record up to which the checkpoint contains the figures of streams.
            usable: False if records between the checkpoint and the journal are missing, so that no task can
                run again.
        """
        rest = []
        for record in self._journal.read():
            members = record.members
            match record.kind:
                case "seen":
                    self._versions_of_task.setdefault(members["turn"], {})[members["query"]] = members[
                        "version"
                    ]
                case "rules":
                    at = members["set"], members["version"]
                    self.definitions[at] = _definition(members["definition"])
                case "failed":
                    self._failures_of_task.setdefault(members["turn"], []).append(members)
                case "behind":
                    if record.number > processed:
                        self.lagging_tables.update(_tables_of(members))
                case "derived":
                    if record.number <= last:
                        self._input(record, counted=True)
                    if record.number > processed:
                        rest.append(record)
                case "input" if record.number <= processed or not usable:
                    self._input(record, counted=record.number <= last)
                case "unstream" if record.number <= processed or not usable:
                    self._drop_stream(members, counted=record.number <= last)
                case _ if record.number > processed:
                    if record.kind == "swap":
                        self.reloads.update(_tables_of(members))
                    rest.append(record)
        return rest

    def replay_record(self, record: JournalRecord, *, counted: bool) -> None:
        """Run a journal record's task again; if ``counted``, the checkpoint's stream figures include it."""
        members = record.members
        self._journal.reached("in-replay")
        try:
            task = self._task_of(record, members, counted=counted)
            for fate in self._failures_of_task.get(record.number, ()):
                self._expect_failure(fate)
            if task is not None:
                self._run(task, record.number, members.get("now", 0))
        except ReportedError as error:
            log.error(
                "The replay of record %d of the journal (%s) failed: %s",
                record.number,
                record.kind,
                error.message,
            )

    def begin_epoch(self) -> None:
        """If the data folder is a copy, begin an epoch with ids that the original folder will not assign."""
        tasks, epoch = self._parts.tasks, self._parts.store.epoch
        if tasks.epoch < epoch:
            self._run(self._epoch_task(epoch), tasks.note("epoch", epoch=epoch), self._parts.clock.now_ms())

    def _epoch_task(self, epoch: int) -> Task:
        return kinds.CallTask(lambda: self._parts.begin_epoch(epoch))

    def _expect_failure(self, fate: Mapping[str, Any]) -> None:
        """Have a query fail in the next task as it did before the crash, without an evaluation."""
        entry = self._parts.catalogue.find(fate["query"])
        if entry is not None and entry.running is not None:
            self._parts.router.leave_shared_plan(entry.running)
            entry.running.failure.expected = (fate["after"], BudgetError(fate["error"], code=fate["code"]))

    def replay_commits(self) -> None:
        """Run tasks for the commits that were durable before the crash, but have no record in the journal."""
        parts, store = self._parts, self._parts.store
        while parts.tasks.version < store.log.version:
            version = store.committer.next_version(parts.tasks.version)
            store.committer.forward(version)
            try:
                at = next(store.commits_after(version - 1, 1)).at_ms
            except (GoneError, StopIteration):
                at = parts.clock.now_ms()
            number = parts.tasks.note("commit", now=at, version=version, at=at)
            self._run(kinds.CommitTask(Commit(version, at)), number, at)

    def evaluator(
        self, members: Mapping[str, Any], looked_up: Mapping[Any, str | None], pins: Mapping[str, list[Any]]
    ) -> tuple[PreparedQuery, Evaluator]:
        """Prepare a query of a journal record or checkpoint, and create its evaluator.

        ``looked_up`` are the static parts that were looked up, with the reason; ``pins`` are the contents of
        remote sources that the query's static rows came from.
        """
        prepared = self._prepared(members)
        prepared = replace(prepared, looked_up={int(at): why for at, why in looked_up.items()})
        with self._parts.sources.pinned(pins):
            return prepared, self._lifecycle.evaluator_maker(prepared)()

    def _prepared(self, members: Mapping[str, Any]) -> PreparedQuery:
        specs = tuple(map(SourceSpec.from_json, members["sources"]))
        graph, rules = members.get("entailed"), members.get("rules")  # missing in folders of earlier versions
        entailed = None if graph is None else NamedRules("", NamedNode(graph), _definition(rules))
        return self._lifecycle.prepare(registration_of(members), members["name"], specs, entailed)

    # --- records --------------------------------------------------------------------------------

    def _run(self, task: Task, number: int, at: int) -> None:
        if not isinstance(task, InputTask):
            self.read_versions.clear()
        # Records about inputs of one batch have the number of the first input, and no other task came between
        # them.
        self.read_versions.update(self._versions_of_task.get(number, {}))
        task.number, task.at = number, at
        self._parts.sequencer.execute(task)
        starting = self._parts.starting
        self._parts.sequencer.catch_up_readers(lambda: [name for name, _ in list(starting.stopped)])
        if task.error is not None:
            raise task.error

    def _task_of(self, record: JournalRecord, members: dict[str, Any], *, counted: bool) -> Task | None:
        """Return the task of a journal record; None if no work of the record has to be repeated."""
        parts = self._parts
        entry = parts.catalogue.find(members.get("name", ""))
        running = None if entry is None else entry.running
        match record.kind:
            case "input":
                event = self._input(record, counted=counted, taken=True)
                return None if event is None else InputTask(event)
            case "derived":
                return self._derived_task(record, counted=counted)
            case "commit":
                parts.store.committer.forward(members["version"])
                return kinds.CommitTask(Commit(members["version"], members["at"]))
            case "stream" | "redefine":
                return kinds.CallTask(self._work_of(record))
            case "unstream":
                self._drop_stream(members, counted=counted)
            case "epoch":
                return self._epoch_task(members["epoch"])
            case "source":
                return parts.sources.replay(members)
            case "swap":
                names = [name for name, _ in _tables_of(members)]
                return parts.statics.swap_again(names, members["version"])
            case "reserve" | "attach" if self._filter.is_dropped(members["name"]):
                self.skip_query(None, members)
                return None
            case "reserve":
                return self._reserve(record)
            case "attach":
                return self._attach(record)
            case "detach" if entry is not None:
                entry.running = None
                if members["dropped"]:
                    parts.catalogue.discard(entry)
                detach = partial(parts.attachments.detach, entry, running, members["dropped"])
                return kinds.CallTask(detach)
            case "unready" if entry is not None:
                fail_pending = partial(
                    parts.attachments.fail_pending, entry, members["error"], members["code"]
                )
                return kinds.CallTask(fail_pending)
            case "refresh" if entry is not None:
                return kinds.RefreshTask(entry.name, members["cause"])
            case "state" if entry is not None and running is not None:
                entry.state = members["state"]
                if running.state == "failed":
                    entry.running = None
                return kinds.PauseTask(running, members["state"])
            case "refused" if running is not None:
                return kinds.FailTask(running, ReportedError(members["error"], code=members["code"]))
            case "registration" if entry is not None and running is not None:
                before = entry.registration
                entry.registration = Registration.restored(
                    entry.name, before.query, before.dialect, members["options"]
                )
                return kinds.SettingsTask(running, entry.registration)
        return None

    def _work_of(self, record: JournalRecord) -> Callable[[], None]:
        parts, members = self._parts, record.members
        if record.kind == "stream":
            return parts.router.new_stream
        return partial(
            redefine, parts, members["set"], members["version"], _definition(members["definition"])
        )

    def _derived_task(self, record: JournalRecord, *, counted: bool) -> InputTask | None:
        """Return the task for an input of a derived stream whose query is not replayed; else None."""
        event, stream = input_of(record)[0], record.members["stream"]
        if event is None:
            return None
        takes = self._filter.take_derived(stream, event, counted=counted, number=record.number)
        return InputTask(event) if takes else None

    def _input(self, record: JournalRecord, *, counted: bool, taken: bool = False) -> StreamInput | None:
        """Apply a journal record to its stream, if this still exists; return the input for the readers."""
        members, (event, elements) = record.members, input_of(record)
        stream = self._parts.streams.find(members["stream"])
        self._parts.tasks.order = record.number
        if stream is None:
            return event
        if event is not None:
            stream.retained.add(record.number, event)
        if members.get("time_reset"):
            figures = stream.figures()
            forget_time(stream)
            if counted:
                # The stream's figures come from a checkpoint after the reset of its time, so they stay.
                stream.restore_figures(figures)
        if taken or not counted:
            stream.dead_letters.remove_named(members.get("forgotten", ()))
        if not counted:
            missed = stream.counts.missed
            stream.restore_figures(members["figures"])
            # The replayed tasks count the late elements that no reader could process, so the count in the
            # record is not used.
            stream.counts.missed = missed
            letters = stream.dead_letters
            for place in members.get("late", ()):
                letters.add(
                    DeadLetter(elements[place], "late", entered=place not in members.get("dropped", ()))
                )
            for each in members.get("unreadable", ()):
                letters.add(unreadable(*each))
            for each in members.get("early", ()):
                letters.add(early(*each))
            for each in members.get("misshapen", ()):
                letters.add(misshapen(*each))
            letters.remove_named([members.get("retried", "")])
            if "key" in members:
                self._parts.acceptor.receipts.restore(stream.iri, *members["key"])
            if "position" in members:
                self._parts.acceptor.receipts.restore(stream.iri, *members["position"])
        return event

    def _entry_of(self, record: JournalRecord) -> QueryEntry:
        """Return the entry of a query that a journal record begins or reserves, with an old or new feed."""
        parts, members = self._parts, record.members
        existing = parts.catalogue.find(members["name"])
        if existing is not None and existing.pending is not None and record.kind == "attach":
            return existing
        if existing is not None and members["reset"]:
            feed = existing.feed
        else:
            feed = self._lifecycle.new_feed(members["name"])
            parts.outbox.name(feed, record.number)
            feed.restore([record.number, *feed.figures()[1:]], self._journal.results.events(record.number))
        entry = QueryEntry(members["name"], registration_of(members), feed, members["created"])
        if existing is not None:
            entry.restarts = existing.restarts
        parts.catalogue.add(entry)
        return entry

    def _reserve(self, record: JournalRecord) -> Task | None:
        parts, members = self._parts, record.members
        entry = self._entry_of(record)
        if self._filter.skips(entry):
            self.skip_query(entry, members)
            return None
        entry.pending = pending = parts.attachments.new_pending(entry.name, self._prepared(members))
        pending.begun = record.number
        parts.attachments.keep_retained(pending)
        return kinds.CallTask(partial(parts.attachments.begin_waiting, entry, pending))

    def _attach(self, record: JournalRecord) -> kinds.AttachTask | None:
        parts, members = self._parts, record.members
        entry = self._entry_of(record)
        if self._filter.skips(entry):
            parts.attachments.end_waiting(entry.name)
            self.skip_query(entry, members)
            return None
        try:
            made = self.evaluator(members, members["looked_up"], {})
        except Exception as error:
            parts.router.forget_name(entry.name)
            parts.attachments.end_waiting(entry.name)
            parts.catalogue.set_state(entry, "failed", reason_of(error)[0])
            return None
        running = self._lifecycle.make_running(entry, *made, paused=members["paused"])
        running.dropped_before = members.get("dropped_before")
        start = members.get("from", made[0].registration.start_from)
        running.begun = begun_of(entry.pending, start, record.number)
        return kinds.AttachTask(running, members["reset"], members.get("from"))

    def skip_query(self, entry: QueryEntry | None, members: Mapping[str, Any]) -> None:
        """Skip a query in the replay; the elements that it had derived come from the journal."""
        self._parts.router.forget_name(members["name"])
        try:
            prepared = self._prepared(members)
        except ReportedError:
            prepared = None
        self._filter.skip(entry, prepared)

    def _drop_stream(self, members: Mapping[str, Any], *, counted: bool) -> None:
        """Clear a stream that was dropped; a stream with the same IRI may have been declared later.

        ``counted`` is True if the stream's figures and receipts come from a checkpoint after the drop.
        """
        stream = self._parts.streams.find(members["stream"])
        if not counted:
            self._parts.acceptor.receipts.forget(members["stream"])
        if stream is not None:
            stream.reset(counted=counted)


def registration_of(members: Mapping[str, Any]) -> Registration:
    """Return the registration in the members of a journal record or checkpoint."""
    return Registration.restored(members["name"], members["text"], members["dialect"], members["options"])


def _tables_of(members: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the tables that a journal record names, each with the record's version of the store."""
    return [(name, members["version"]) for name in members["tables"]]


def _definition(members: Mapping[str, Any] | None) -> RuleSetDefinition | None:
    """Return the rule set in the members of a journal record or checkpoint; None if it derived nothing."""
    return None if members is None else read_definition(members)
