"""Worker processes that evaluate heavy queries on copies of the store, and are killed to stop a query.

docs/decisions/0052-queries-that-can-be-stopped.md explains why processes evaluate heavy queries. The pool
keeps at most ``size`` idle worker processes. A copy of the store is made only when a query needs the newest
version, so that queries between two commits share one copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from pyoxigraph import NamedNode, RdfFormat

from quadrill.store.changes.commit import Commit, NetChange
from quadrill.store.errors import LimitError, ReportedError, StoreError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.extensions import loaded, worker_environment
from quadrill.store.sparql.query_worker import (
    DUMP_FILE,
    GRAPHS_FILE,
    WorkerRequest,
    error_from,
    read_frame,
    send_frame,
)
from quadrill.store.sparql.update_worker import UpdateTask, decode_change, owned_of

from .answer import ByteSink, timeout_error
from .processes import CancelledError, Process

MAX_DUMPED_QUADS = 500_000
"""Maximum number of quads of a store in memory that is dumped to a file for the workers."""


_LONGEST_WAIT_S = 1e6
_LOOK_EVERY_S = 0.1
_SHARE_OF_CHANGE = 8
"""A worker's update may return a change set of its memory limit divided by this; quads need more memory."""


class WorkerLostError(StoreError):
    """A worker process died during an evaluation, most likely because it ran out of memory."""

    code = "worker-lost"


@dataclass(eq=False, slots=True)
class StoreCopy:
    """A copy of the store at one version, in a folder, with the number of evaluations that use it."""

    folder: Path
    version: int
    users: int = 0


class _Worker:
    """One worker process and the socket over which the server sends it queries."""

    def __init__(self, memory_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        read_end, self._lifecycle = os.pipe()
        command = [sys.executable, "-m", "quadrill.store.sparql.query_worker"]
        command += [str(theirs.fileno()), str(read_end), str(memory_bytes), *loaded()]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(), read_end),
                env=worker_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Workers get a session of their own, so that signals reach only the server, which then ends
                # its workers itself.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(read_end)
        self.socket = ours

    def kill(self) -> None:
        """Kill the worker process, even during an evaluation."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Kill the worker process, wait for its end and close its socket."""
        self.kill()
        self._process.wait()
        self.socket.close()
        if self._lifecycle >= 0:
            os.close(self._lifecycle)
            self._lifecycle = -1


class WorkerPool:
    """Worker processes and the copies of the store that they read."""

    def __init__(
        self, store: QuadStore, folder: Path | None, *, size: int, memory_bytes: int, max_nesting: int
    ) -> None:
        """Make a pool of worker processes, which start when queries need them.

        Args:
            store: the store to evaluate queries on.
            folder: the data folder, in which a copy of the store consists of hard links; None for a store in
                memory.
            size: maximum number of worker processes for queries; with 0 the server evaluates queries itself.
            memory_bytes: maximum memory of one worker process in bytes, 0 for no limit.
            max_nesting: maximum nesting depth of a SPARQL text.
        """
        self._store = store
        self._parent = folder
        self._size = size
        self._memory = memory_bytes
        self._max_nesting = max_nesting
        self._slots = threading.BoundedSemaphore(max(size, 1))
        self._updating = threading.Lock()
        self._lock = threading.Lock()
        self._copying = threading.Lock()
        self._idle: list[_Worker] = []
        self._copies: list[StoreCopy] = []
        self._folder: Path | None = None
        self._closed = False

    @property
    def memory_bytes(self) -> int:
        """Maximum memory of one worker process in bytes, 0 for no limit."""
        return self._memory

    def spool(self, in_memory_bytes: int) -> tempfile.SpooledTemporaryFile[bytes]:
        """Return a temporary file for an answer, next to the store copies; small answers stay in memory."""
        return tempfile.SpooledTemporaryFile(in_memory_bytes, dir=str(self._copies_folder()))

    def takes(self, quads: int) -> bool:
        """Return True if worker processes can query a store of ``quads`` quads."""
        return self._size > 0 and not self._closed and (self._parent is not None or quads <= MAX_DUMPED_QUADS)

    def run(
        self,
        request: WorkerRequest,
        sink: ByteSink,
        begin: Callable[[dict[str, Any]], None],
        process: Process,
        seconds: float,
    ) -> None:
        """Evaluate a query in a worker process and write its result to ``sink``.

        Args:
            request: the query; the pool fills in the store copy and its version.
            sink: receives the blocks of the result.
            begin: called with the kind, format and version of the result before the first block.
            process: the query's entry in the list of evaluations; ``process.stop`` kills the worker process.
            seconds: time limit of the query, including the wait for a free worker process.

        Raises:
            QueryTimeoutError: the query's time limit has passed; its worker process was killed.
            CancelledError: a user or the server stopped the query; its worker process was killed.
            WorkerLostError: the worker process died during the evaluation.
            ReportedError: an error of the query itself.
        """
        deadline = time.monotonic() + seconds

        def look() -> None:
            process.check()
            if time.monotonic() > deadline:
                raise timeout_error(seconds)

        with taken(self._slots, look):
            copy = self._newest_copy()
            try:
                self._run_on(copy, request, sink, begin, process, deadline, seconds)
            finally:
                self.release(copy)

    def present_copy(self) -> StoreCopy:
        """Return a copy of the store at its current version, for use until `release`.

        `present_copy` never waits for a writer of the store, because the writer may wait for the caller.
        """
        if self._parent is None:
            return self._used(self._present() or self._make_copy())
        with self._store.reader.snapshot_read():
            return self._used(self._present() or self._make_copy(in_commit=True))

    def run_separately(
        self,
        copy: StoreCopy,
        request: WorkerRequest,
        sink: ByteSink,
        process: Process,
        seconds: float,
        look: Callable[[], None],
    ) -> None:
        """Evaluate a query on a copy of the store in an extra process, beyond the limit of worker processes.

        ``look`` is called periodically and may stop the evaluation by an exception. Evaluation in an extra
        process raises the same errors as `WorkerPool.run`: time-out, stop, lost worker, or an error of the
        query.
        """

        def looked() -> None:
            if self._closed:
                raise CancelledError(f"the {process.kind} was stopped because the server stops")
            look()

        deadline = time.monotonic() + seconds
        self._run_on(copy, request, sink, _no_head, process, deadline, seconds, looked)

    def compute_update(self, task: UpdateTask, process: Process, seconds: float) -> Commit:
        """Compute an update's change set in a worker, on a private copy of the store, and commit it.

        ``seconds`` is the time limit of the update, counted from the start of ``process``.

        Raises:
            WorkerLostError: the worker process died during the evaluation.
            LimitError: the update's change set is larger than the server may keep in memory.
            ReportedError: the update is invalid, failed, timed out or was stopped; no change is applied.
        """
        deadline = process.started + seconds

        def look() -> None:
            process.check()
            if time.monotonic() > deadline:
                raise timeout_error(seconds, "update")

        def change() -> NetChange:
            look()
            copy = self._make_copy(in_commit=True)
            guarded = replace(task, owned=owned_of(self._store.queue.owned))
            found, most = BytesIO(), self._memory // _SHARE_OF_CHANGE
            try:
                self._run_on(copy, guarded, LimitedSink(found, most), _no_head, process, deadline, seconds)
            except TooLargeError as error:
                raise LimitError(
                    f"the update changes more than {most} bytes of quads "
                    f"(1/{_SHARE_OF_CHANGE} of worker_memory_bytes)",
                    hint="Send several updates, or raise the setting worker_memory_bytes.",
                ) from error
            finally:
                shutil.rmtree(copy.folder if self._parent is None else copy.folder.parent, ignore_errors=True)
            return decode_change(found.getvalue())

        # Updates run one after the other and so use at most one slot for worker processes; queries use the
        # other slots. An update acquires its slot before the store's writer lock, so that other writers do
        # not wait for a free worker process.
        with taken(self._updating, look), taken(self._slots, look):
            return self._store.writer.commit_computed(change)

    def close(self) -> None:
        """End idle worker processes and remove the store copies; a busy process ends after its evaluation."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run_on(
        self,
        copy: StoreCopy,
        request: WorkerRequest | UpdateTask,
        sink: ByteSink,
        begin: Callable[[dict[str, Any]], None],
        process: Process,
        deadline: float,
        seconds: float,
        look: Callable[[], None] | None = None,
    ) -> None:
        worker = self._take_worker()
        good = False
        process.lane = "worker"
        process.stop = worker.kill
        try:
            process.check()
            full = replace(request, copy=str(copy.folder), version=copy.version, height=self._max_nesting)
            send_frame(worker.socket, b"Q", full.encode())
            refused = _relay(worker.socket, sink, begin, deadline, look)
            good = True
            if refused is not None:
                raise refused
        except TimeoutError as error:
            raise timeout_error(seconds, process.kind) from error
        except (ConnectionError, EOFError) as error:
            if process.error is not None:
                raise process.error from None
            raise WorkerLostError(
                f"the process that evaluated the {process.kind} ended, most likely because it needed more "
                f"memory than it may have (worker_memory_bytes, {self._memory} bytes)",
                hint=f"Make the {process.kind} narrower, or raise the setting worker_memory_bytes.",
            ) from error
        finally:
            process.stop = None
            with self._lock:
                kept = good and not self._closed and len(self._idle) < max(self._size, 1)
                if kept:
                    self._idle.append(worker)
            if not kept:
                worker.close()

    def _take_worker(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Worker(self._memory)

    def _newest_copy(self) -> StoreCopy:
        """Return a copy of the store that contains every acknowledged commit."""
        with self._copying:
            version = self._store.reader.version
            with self._lock:
                if self._copies and self._copies[-1].version >= version:
                    self._copies[-1].users += 1
                    return self._copies[-1]
            return self._used(self._make_copy())

    def _present(self) -> StoreCopy | None:
        with self._lock:
            newest = self._copies[-1] if self._copies else None
            return newest if newest is not None and newest.version == self._store.reader.version else None

    def _used(self, copy: StoreCopy) -> StoreCopy:
        with self._lock:
            copy.users += 1
            if copy not in self._copies:
                self._copies.append(copy)
                self._copies.sort(key=lambda each: each.version)
        self._remove_unused()
        return copy

    def _make_copy(self, *, in_commit: bool = False) -> StoreCopy:
        folder = Path(tempfile.mkdtemp(dir=self._copies_folder()))
        if self._parent is not None:
            target = folder / "quads"
            return StoreCopy(target, self._store.checkpoint_quads(target, in_commit=in_commit))
        names = [name.value for name in self._store.reader.graph_names() if isinstance(name, NamedNode)]
        (folder / GRAPHS_FILE).write_text(json.dumps(names), encoding="utf-8")
        with open(folder / DUMP_FILE, "wb") as file:
            version = self._store.reader.dump(file, RdfFormat.N_QUADS)
        return StoreCopy(folder, version)

    def _copies_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                # Copies of the store are next to the database because hard links cannot cross file systems.
                self._folder = Path(tempfile.mkdtemp(prefix="checkpoints-", dir=self._parent))
            return self._folder

    def release(self, copy: StoreCopy) -> None:
        """Count one user less of a copy of the store, and remove copies that are no longer needed."""
        with self._lock:
            copy.users -= 1
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Remove store copies without users, except the newest; their open files stay readable."""
        with self._lock:
            unused = [copy for copy in self._copies[:-1] if not copy.users]
            for copy in unused:
                self._copies.remove(copy)
        for copy in unused:
            shutil.rmtree(copy.folder, ignore_errors=True)


class TooLargeError(Exception):
    """A worker's result exceeded the size limit of the sink to which it is written."""


class LimitedSink:
    """A sink that forwards bytes to a file up to a total size; 0 for no limit."""

    def __init__(self, target: IO[bytes], most_bytes: int) -> None:
        self._target = target
        self._most = most_bytes
        self._size = 0

    def write(self, data: bytes) -> int:
        """Forward ``data`` to the file; raises TooLargeError if the total size exceeds the limit."""
        self._size += len(data)
        if self._most and self._size > self._most:
            raise TooLargeError
        return self._target.write(data)


@contextlib.contextmanager
def taken(lock: threading.Lock | threading.Semaphore, look: Callable[[], None]) -> Iterator[None]:
    """Hold ``lock``; while the thread waits for it, ``look`` is called periodically and may end the wait."""
    look()
    while not lock.acquire(timeout=_LOOK_EVERY_S):
        look()
    try:
        yield
    finally:
        lock.release()


def _no_head(head: dict[str, Any]) -> None:
    """Ignore the head (kind, format, version) of a worker's result."""


def remove_leftovers(folder: Path) -> None:
    """Remove copies of the store that a killed server left in its data folder."""
    for left in folder.glob("checkpoints-*"):
        shutil.rmtree(left, ignore_errors=True)


def _relay(
    connection: socket.socket,
    sink: ByteSink,
    begin: Callable[[dict[str, Any]], None],
    deadline: float,
    look: Callable[[], None] | None = None,
) -> ReportedError | None:
    """Relay a worker process's answer to ``sink``; return the error of the query itself, or None.

    Raises: TimeoutError, EOFError if the worker process died, and the errors of ``sink`` and ``begin``.
    """
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if look is not None:
            look()
            waiting = select.poll()
            waiting.register(connection, select.POLLIN)
            if not waiting.poll(1000 * min(left, _LOOK_EVERY_S)):
                continue
        connection.settimeout(left if left < _LONGEST_WAIT_S else None)
        frame = read_frame(connection)
        if frame is None:
            raise EOFError
        kind, payload = frame
        if kind == b"D":
            sink.write(payload)
        elif kind == b"H":
            begin(json.loads(payload))
        elif kind == b"X":
            return error_from(json.loads(payload))
        else:
            return None
