"""When a checkpoint is made and what becomes of the logs then; recovery reads it.

A small state is written between two turns. A large one is written by a copy of the process
(store/logs/process_copy.py) while the engine goes on, so that queries stand still only for as long as the
copy takes to be made:

    engine's thread   settle | copy |  turns go on  ...                              | logs forget
    copy                            |  serialise, write, sync the draft
    a thread that waits             |  .........................  logs synced, draft becomes the checkpoint
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
"""A checkpoint that stops the queries for a second is made every 20 seconds at most,"""
_COPY_FACTOR = 4
"""and one that is written beside them in a second every 4 seconds."""
_LONGEST_S = 900.0
_CATCH_UP_S = 0.4
"""So long all others wait for queries that are behind when the log grows too long without a checkpoint."""


@dataclass(frozen=True, slots=True)
class _CheckpointCut:
    """What a checkpoint has to know that locks guard, and from which record on the journal is needed."""

    processed: int
    appended: int
    needed: int
    sources: SourceMoment
    pinned: Sequence[str]
    entries: Sequence[QueryEntry]
    streams: Sequence[StreamState]


class Checkpointer:
    """Checkpoints of one engine. `checkpoint` and `write_if_due` are called in the loop or before it runs.

    Attributes:
        stopped_s: how long the last checkpoint stopped the queries, in seconds.
        took_s: how long it took until it was on disk.
        size: its bytes.
        made: how many there were since the start.
        written_at: when the last one was on disk, by the monotonic clock; None before the first.
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
        # Bytes that had been appended to the log when the last checkpoint was made.
        self._appended = 0
        self._copy: ForkedTask | None = None
        self._copy_thread: threading.Thread | None = None
        self._stopping = False
        for left in journal.folder.glob("checkpoint.*.new"):
            left.unlink(missing_ok=True)

    @property
    def age_s(self) -> float:
        """How long ago the last one was on disk; 0 when nothing happened since."""
        if self.written_at is None or self._parts.tasks.processed == self._processed:
            return 0.0
        return time.monotonic() - self.written_at

    def mark_current(self) -> None:
        """What the file holds is the state of now: it need not be written again."""
        self._processed = self._parts.tasks.processed
        self._next_s = time.monotonic() + self._parts.settings.checkpoint_ms / 1000

    def write_if_changed(self) -> None:
        """Write the state if something happened since the last checkpoint and none is being written."""
        if self._parts.tasks.processed != self._processed and self._copy_thread is None:
            self._write(in_copy=True)

    def after_start(self) -> None:
        """Write what the start made: the state, or the tables and texts alone where nothing happened."""
        if self._parts.tasks.processed != self._processed:
            self.write_if_changed()
        else:
            self._write_tables()

    def write_if_due(self) -> None:
        """Write the state when it is time and something happened; see to it that this can be."""
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
        """Write the state after the last turn here and now, and let the logs forget what is needless then.

        ``at_end``: nothing comes behind it: the static parts are on disk, too, when this returns.
        """
        self.stop()
        self._write(in_copy=False)
        if at_end:
            self._write_tables(at_end=True)

    def pin_files(self) -> PinnedFiles:
        """The engine's files, open, as they are between two turns: recovery goes on from a copy of them.

        Raises:
            StoreUnwritableError: there is no space for what they would have to hold.
        """
        self._parts.sequencer.flush(wait_for_space=False)
        with self._parts.tasks.lock:
            self._journal.log.sync()
            return held_files(self._journal.folder)

    def stop(self) -> None:
        """Give up the one that is being written, if any."""
        copy, waiting = self._copy, self._copy_thread
        self._stopping = True
        if copy is not None:
            copy.stop()
        if waiting is not None:
            waiting.join()
        self._stopping = False

    # --- what is written ------------------------------------------------------------------------

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
        """The state of a moment; also called in a copy of the process, where no lock may be waited for."""
        timelines: dict[QueryTimeline, TimelineSnapshot] = {}
        return EngineSnapshot(
            cut.processed,
            self._journal.log.last,
            self._parts.tasks.version,
            self._parts.acceptor.receipts.figures(),
            {
                each.iri: StreamSnapshot(each.record.created_ms, each.figures(), list(each.dead_letters))
                for each in cut.streams
            },
            cut.sources.state,
            [_entry_snapshot(entry, timelines) for entry in cut.entries],
            self._parts.tasks.epoch,
        )

    # --- writing it -----------------------------------------------------------------------------

    def _write(self, *, in_copy: bool) -> None:
        """Write the state after the last turn; ``beside``: by a copy of the process where that is worth it.

        Not while rows of static parts are read anew, or inputs are kept for queries that wait for them, or
        queries are behind: the journal has what leads there.
        """
        parts = self._parts
        if parts.statics.is_behind or parts.router.pending:
            log.info("no checkpoint while rows of static parts are read")
            return
        if parts.router.shares.backlogs or parts.router.shares.abandoned:
            log.info("no checkpoint while queries are behind")
            return
        large = parts.catalogue.state_size() >= self._journal.copy_from
        in_copy = in_copy and large and COPIES and parts.threads.beside
        draft = self.path.with_name(f"checkpoint.{os.getpid()}.new")
        began = time.monotonic()
        try:
            parts.sequencer.flush()
            # Whoever pushes meanwhile changes the figures of streams: they are read under the lock.
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
            log.warning("no checkpoint: %s", _reason(error))
        self.stopped_s = time.monotonic() - began
        self._not_before(max(parts.settings.checkpoint_ms / 1000, _PAUSE_FACTOR * self.stopped_s))

    def _start_copy(self, cut: _CheckpointCut, draft: Path) -> ForkedTask | None:
        try:
            return ForkedTask(lambda: write_state(draft, self._state(cut)))
        except OSError as error:
            log.warning("the process cannot be copied for a checkpoint: %s", error.strerror)
            return None

    def _finish_copy(self, copy: ForkedTask, cut: _CheckpointCut, draft: Path, began: float) -> None:
        """In a thread of its own: wait for the copy, then publish what it wrote."""
        try:
            self._journal.reached("during-checkpoint")
            self.size = copy.wait(_LONGEST_S)
            self._publish(cut, draft, began)
            self._parts.tasks.put(CallTask(lambda: self._trim_logs(cut)))
        except (OSError, StoreUnwritableError) as error:
            if not self._stopping:
                log.warning("no checkpoint: %s", _reason(error))
        except EngineStoppedError:
            pass  # the last checkpoint lets the logs forget
        finally:
            draft.unlink(missing_ok=True)
            self._not_before(_COPY_FACTOR * (time.monotonic() - began))
            self._copy = None
            self._copy_thread = None

    def _publish(self, cut: _CheckpointCut, draft: Path, began: float) -> None:
        """Sync the logs that the checkpoint relies on, then let it take its place."""
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
        """Let the input log forget what neither recovery nor a stream's retention needs."""
        journal = self._journal
        self._parts.sources.forget(cut.sources, cut.pinned)
        journal.log.trim(cut.needed)
        if self._parts.attachments.last_retained_read <= cut.processed:
            # Else a crash now would repeat that turn, which read what would be gone.
            journal.log.trim_to_size(journal.keep_bytes, cut.processed + 1)
        with self._parts.tasks.lock:
            # A replay must find the same elements before and after a crash.
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
