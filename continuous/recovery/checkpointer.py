"""When checkpoints are written, and how the logs are trimmed afterwards; recovery reads the checkpoints.

A small state is written between two tasks. A large state is written by a forked copy of the process
(store/logs/process_copy.py) while the engine continues, so queries stop only during the fork:

    engine's thread   flush | fork |  tasks continue  ...                             | logs are trimmed
    forked copy                    |  serialise, write and sync the draft
    waiting thread                 |  .........................  sync logs, rename draft to checkpoint
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs.checkpoint_file import publish
from quadrill.store.logs.journal import Journal, held_files
from quadrill.store.logs.pinned_files import PinnedFiles
from quadrill.store.logs.process_copy import COPIES, ForkedTask

from ..errors import EngineStoppedError
from ..lifecycle.lifecycle import members_of
from ..lifecycle.parts import EngineParts
from ..queries.catalogue import QueryEntry
from ..queries.snapshot import snapshot_of
from ..remote.source_registry import SourceMoment
from ..scheduler.task_kinds import CallTask
from ..streams.accept import StreamState
from ..windows.query_streams import TimelineSnapshot
from ..windows.timeline import QueryTimeline
from .checkpoint import write_state
from .state import EngineSnapshot, EntrySnapshot, StreamSnapshot

log = logging.getLogger("quadrill.continuous")

_PAUSE_FACTOR = 20
"""Minimum interval between checkpoints, as a multiple of the time for which the last checkpoint stopped
the queries."""
_COPY_FACTOR = 4
"""Minimum interval between checkpoints, as a multiple of the time that a forked copy took to write the
last one."""
_LONGEST_S = 900.0
_CATCH_UP_S = 0.4
"""Seconds for which only lagging queries run when the journal has grown too long without a checkpoint."""


@dataclass(frozen=True, slots=True)
class _CheckpointCut:
    """The data of a checkpoint that is read under locks, and the oldest journal record to keep."""

    processed: int
    appended: int
    needed: int
    sources: SourceMoment
    pinned: Sequence[str]
    entries: Sequence[QueryEntry]
    streams: Sequence[StreamState]


class Checkpointer:
    """Writes the checkpoints of one engine.

    The public methods of the checkpointer run in the engine's thread, before it starts or after it has ended;
    any thread may read its attributes and `age_s`.

    Attributes:
        stopped_s: the seconds for which the last checkpoint stopped the queries.
        took_s: the seconds until the last checkpoint was on disk.
        size: the bytes of the last checkpoint.
        made: the number of checkpoints since the start.
        written_at: the monotonic time at which the last checkpoint was on disk; None before the first.
    """

    def __init__(self, parts: EngineParts, journal: Journal) -> None:
        self._parts = parts
        self._journal = journal
        self.path = journal.folder / "checkpoint"
        self.stopped_s = 0.0
        self.took_s = 0.0
        self.size = 0
        self.made = 0
        self.written_at: float | None = None
        self._next_s = 0.0
        self._processed = -1
        # The number of bytes that had been appended to the journal when the last checkpoint was made.
        self._appended = 0
        self._copy: ForkedTask | None = None
        self._copy_thread: threading.Thread | None = None
        self._stopping = False
        for draft in journal.folder.glob("checkpoint.*.new"):
            draft.unlink(missing_ok=True)

    @property
    def age_s(self) -> float:
        """Seconds since the last checkpoint was on disk; 0 before the first, or if no task ran since."""
        if self.written_at is None or self._parts.tasks.processed == self._processed:
            return 0.0
        return time.monotonic() - self.written_at

    def mark_current(self) -> None:
        """Mark the checkpoint on disk as the present state, which therefore need not be written again."""
        self._processed = self._parts.tasks.processed
        self._next_s = time.monotonic() + self._parts.settings.checkpoint_ms / 1000

    def write_if_changed(self) -> None:
        """Write a checkpoint if tasks were executed since the last one and no checkpoint is being written."""
        if self._parts.tasks.processed != self._processed and self._copy_thread is None:
            self._write(in_copy=True)

    def after_start(self) -> None:
        """After a server start, write a checkpoint if the state has changed; else write only caches.

        The caches written at a server start are tables of static parts and analyses of query texts.
        """
        if self._parts.tasks.processed != self._processed:
            self.write_if_changed()
        else:
            self._write_tables()

    def write_if_due(self) -> None:
        """Write a checkpoint if one is due and the state has changed.

        If the journal has grown too long without a checkpoint because of lagging queries, these queries run
        alone for a moment; then the one that has lagged longest fails.
        """
        tasks, shares, most = self._parts.tasks, self._parts.router.shares, self._parts.settings.backlog_log
        unsaved = self._journal.log.appended_bytes - self._appended
        if shares.backlogs and unsaved > most and tasks.write_error is None:
            self._parts.sequencer.catch_up_or_fail(
                _CATCH_UP_S,
                f"and no checkpoint could be made for {unsaved:,} bytes of input log, the limit "
                f"(max_backlog_log) is {most:,}",
                most,
            )
        due = time.monotonic() >= self._next_s and not shares.backlogs
        if due and tasks.write_error is None and self._journal.log.failure is None:
            self.write_if_changed()

    def checkpoint(self, *, at_end: bool = False) -> None:
        """Write a checkpoint of the present state in this thread, and trim the logs.

        With ``at_end`` no task follows the checkpoint, and the tables of static parts are on disk, too, when
        the method returns.
        """
        self.stop()
        self._write(in_copy=False)
        if at_end:
            self._write_tables(at_end=True)

    def pin_files(self) -> PinnedFiles:
        """Open the engine's files as they are between two tasks; a recovery can start from a copy of them.

        Raises:
            StoreUnwritableError: buffered results cannot be written because the disk is full.
        """
        self._parts.sequencer.flush(wait_for_space=False)
        with self._parts.tasks.lock:
            self._journal.log.sync()
            return held_files(self._journal.folder)

    def stop(self) -> None:
        """Cancel the checkpoint that is being written, if there is such a checkpoint."""
        copy, waiting = self._copy, self._copy_thread
        self._stopping = True
        if copy is not None:
            copy.stop()
        if waiting is not None:
            waiting.join()
        self._stopping = False

    # --- the content ----------------------------------------------------------------------------

    def _cut(self) -> _CheckpointCut:
        parts = self._parts
        retained = [each.retained.inputs[0].order for each in parts.streams if each.retained.inputs]
        return _CheckpointCut(
            parts.tasks.processed,
            self._journal.log.appended_bytes,
            min([parts.tasks.processed + 1, *retained]),
            parts.sources.moment(),
            [
                digest
                for each in parts.running()
                if each.prepared.sources is not None
                for _, _, digest in each.prepared.sources.pins().values()
            ],
            parts.catalogue.entries(),
            list(parts.streams),
        )

    def _state(self, cut: _CheckpointCut) -> EngineSnapshot:
        """Return the engine's state at a cut, without locks, for a forked copy of the process, too."""
        timelines: dict[QueryTimeline, TimelineSnapshot] = {}
        return EngineSnapshot(
            cut.processed,
            self._journal.log.last,
            self._parts.tasks.version,
            self._parts.acceptor.receipts.checkpoint_rows(),
            {
                each.iri: StreamSnapshot(each.record.created_ms, each.figures(), list(each.dead_letters))
                for each in cut.streams
            },
            cut.sources.state,
            [_entry_snapshot(entry, timelines) for entry in cut.entries],
            self._parts.tasks.epoch,
        )

    # --- writing --------------------------------------------------------------------------------

    def _write(self, *, in_copy: bool) -> None:
        """Write the state after the last task; with ``in_copy``, a forked copy writes a large state.

        No checkpoint is written while tables are being reloaded, inputs are being collected for waiting
        queries, or queries lag, because a checkpoint does not contain this state; the journal does.
        """
        parts = self._parts
        if parts.statics.is_behind or parts.router.pending:
            log.info("No checkpoint is written while static parts are being read")
            return
        if parts.router.shares.backlogs or parts.router.shares.abandoned:
            log.info("No checkpoint is written while queries lag")
            return
        large = parts.catalogue.state_size() >= self._journal.copy_from
        in_copy = in_copy and large and COPIES and parts.threads.threaded
        draft = self.path.with_name(f"checkpoint.{os.getpid()}.new")
        began = time.monotonic()
        try:
            parts.sequencer.flush()
            # A concurrent push changes the figures of streams, so the cut is made under the lock.
            with parts.tasks.lock:
                cut = self._cut()
                self._copy = self._start_copy(cut, draft) if in_copy else None
                state = self._state(cut) if self._copy is None else None
            if state is not None:
                self.size = write_state(draft, state)
                self._publish(cut, draft, began)
                self._trim_logs(cut)
            elif self._copy is not None:
                self._copy_thread = threading.Thread(
                    target=self._finish_copy,
                    args=(self._copy, cut, draft, began),
                    name="quadrill-checkpoint",
                    daemon=True,
                )
                self._copy_thread.start()
            self._write_tables()
        except (OSError, StoreUnwritableError) as error:
            draft.unlink(missing_ok=True)
            log.warning("The checkpoint could not be written: %s", _reason(error))
        self.stopped_s = time.monotonic() - began
        self._not_before(max(parts.settings.checkpoint_ms / 1000, _PAUSE_FACTOR * self.stopped_s))

    def _start_copy(self, cut: _CheckpointCut, draft: Path) -> ForkedTask | None:
        try:
            return ForkedTask(lambda: write_state(draft, self._state(cut)))
        except OSError as error:
            log.warning("The process cannot be forked for a checkpoint: %s", error.strerror)
            return None

    def _finish_copy(self, copy: ForkedTask, cut: _CheckpointCut, draft: Path, began: float) -> None:
        """In a separate thread, wait for the forked copy, then publish the checkpoint that it wrote."""
        try:
            self._journal.reached("during-checkpoint")
            self.size = copy.wait(_LONGEST_S)
            self._publish(cut, draft, began)
            self._parts.tasks.put(CallTask(lambda: self._trim_logs(cut)))
        except (OSError, StoreUnwritableError) as error:
            if not self._stopping:
                log.warning("The checkpoint could not be written: %s", _reason(error))
        except EngineStoppedError:
            pass  # The engine is stopping, and the last checkpoint of the stop trims the logs.
        finally:
            draft.unlink(missing_ok=True)
            self._not_before(_COPY_FACTOR * (time.monotonic() - began))
            self._copy = None
            self._copy_thread = None

    def _publish(self, cut: _CheckpointCut, draft: Path, began: float) -> None:
        """Sync the logs that the checkpoint depends on, then rename the draft to the checkpoint."""
        journal = self._journal
        journal.log.sync()
        journal.results.sync()
        journal.reached("before-checkpoint")
        publish(draft, self.path)
        journal.reached("after-checkpoint")
        self._processed = cut.processed
        self._appended = cut.appended
        self.made += 1
        self.written_at = time.monotonic()
        self.took_s = self.written_at - began

    def _trim_logs(self, cut: _CheckpointCut) -> None:
        """Delete the records of the journal that neither recovery nor the retention of streams needs."""
        journal = self._journal
        self._parts.sources.forget(cut.sources, cut.pinned)
        journal.log.trim(cut.needed)
        if self._parts.attachments.last_retained_read <= cut.processed:
            # If a task read retained elements after the checkpoint, trimming would let a replay repeat it
            # without these elements.
            journal.log.trim_to_size(journal.keep_bytes, cut.processed + 1)
        with self._parts.tasks.lock:
            # Streams evict the retained elements that the journal has deleted, so that a replay finds the
            # same elements before and after a crash.
            for each in self._parts.streams:
                each.retained.forget_before(journal.log.earliest)
        journal.reached("after-trim")

    def _write_tables(self, *, at_end: bool = False) -> None:
        evaluated = {each.name: each.static.evaluated_version for each in self._parts.running()}
        self._parts.statics.keep(evaluated, at_end=at_end)
        self._parts.texts.write()

    def _not_before(self, seconds: float) -> None:
        self._next_s = max(self._next_s, time.monotonic() + seconds)


def _reason(error: OSError | StoreUnwritableError) -> str | None:
    return error.message if isinstance(error, StoreUnwritableError) else error.strerror


def _entry_snapshot(entry: QueryEntry, timelines: dict[QueryTimeline, TimelineSnapshot]) -> EntrySnapshot:
    running = entry.running
    return EntrySnapshot(
        members_of(entry, None if running is None else running.prepared),
        entry.state,
        entry.error,
        entry.feed.figures(),
        None if running is None else snapshot_of(running, timelines),
    )
