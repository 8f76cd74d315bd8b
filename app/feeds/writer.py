"""The server's side of the process that writes event streams: its connection, and the thread that listens."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Protocol

from .broadcast import MESSAGE, Broadcaster

log = logging.getLogger("quadrill.fanout")

_BACKLOG_BYTES = 64 << 20
"""A writer that is so far behind is ended: its clients resume."""
_POLL_S = 1.0


class WriterOwner(Protocol):
    """The owner of a writer as the writer calls it, in the writer's thread."""

    def pump(self, writer: StreamWriter) -> None:
        """Send what is ready."""

    def told(self, kind: int, number: int, data: bytes) -> None:
        """Take a message of the writer."""

    def ended(self, writer: StreamWriter, lived_s: float) -> None:
        """Learn that the writer has ended after so many seconds."""


class StreamWriter:
    """One life of the writer, a process or a thread: its connection, and a thread here that listens to it.

    What does not fit into the connection waits in order; sockets wait with their message.
    """

    def __init__(
        self, owner: WriterOwner, *, script: str | None, heartbeat: float, buffer_bytes: int
    ) -> None:
        """Start a writer.

        Args:
            owner: who it works for.
            script: what the process runs; None writes in a thread of this process.
            heartbeat: seconds between heartbeats.
            buffer_bytes: bytes that are kept for one client.
        """
        self._owner = owner
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._woken = False
        self._lock = threading.Lock()
        self._backlog: deque[tuple[memoryview, socket.socket | None]] = deque()
        self._backlog_bytes = 0
        self._broken = False
        self._began = time.monotonic()
        self._child: subprocess.Popen[bytes] | None = None
        if script is not None:
            given = (theirs.fileno(), heartbeat, buffer_bytes)
            # Isolated and without site packages: it needs nothing but the standard library.
            command = [sys.executable, "-I", "-S", script, *map(str, given)]
            try:
                self._child = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
                theirs.close()
            except OSError as error:
                log.error("event streams are written by a thread: no process can be started: %s", error)
        if self._child is None:
            writer = Broadcaster(theirs, heartbeat=heartbeat, buffer_bytes=buffer_bytes)
            threading.Thread(target=writer.run, name="quadrill-fanout-writer", daemon=True).start()
        self._thread = threading.Thread(target=self._run, name="quadrill-fanout", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The number of its process; None when it is a thread."""
        return None if self._child is None else self._child.pid

    def send(
        self,
        kind: int,
        number: int = 0,
        data: bytes = b"",
        sock: socket.socket | None = None,
        *,
        news: float | None = None,
    ) -> None:
        """Send a message, in the order of the calls; a socket goes along and is closed here."""
        message = MESSAGE.pack(kind, number, len(data), time.monotonic() if news is None else news) + data
        with self._lock:
            if self._broken:
                if sock is not None:
                    sock.close()
                return
            self._backlog.append((memoryview(message), sock))
            self._backlog_bytes += len(message)
            if len(self._backlog) == 1:
                self._flush()
            # What it is just taking does not count: a client that resumes would get the same again.
            if self._backlog and self._backlog_bytes - len(self._backlog[0][0]) > _BACKLOG_BYTES:
                log.error("the writer of event streams is %d bytes behind and is ended", self._backlog_bytes)
                self._break()
            waiting = bool(self._backlog)
        if waiting:
            self.wake()

    def wake(self) -> None:
        """Let the thread look for what is ready."""
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):
                os.write(self._wake_writer, b"\0")

    def end(self, timeout: float) -> None:
        """Wait for the end that was asked for, then insist."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            with self._lock:
                self._break()
            self.wake()
            self._thread.join(timeout)

    def _flush(self) -> None:
        """Send what waits, as far as the connection takes it. Called under the lock."""
        backlog = self._backlog
        while backlog:
            data, sock = backlog[0]
            try:
                if sock is None:
                    sent = self._control.send(data)
                else:
                    sent = socket.send_fds(self._control, [data], [sock.fileno()])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._break()
                return
            if sock is not None:
                sock.close()
            self._backlog_bytes -= sent
            if sent < len(data):
                backlog[0] = (data[sent:], None)
                return
            backlog.popleft()

    def _break(self) -> None:
        """End the connection, and with it the writer. Called under the lock."""
        if self._broken:
            return
        self._broken = True
        for _, sock in self._backlog:
            if sock is not None:
                sock.close()
        self._backlog.clear()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        if self._child is not None:
            self._child.kill()

    # --- the thread that listens to the writer ----------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            incoming = bytearray()
            open_ = True
            while open_:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._backlog else 0)
                selector.modify(self._control, events)
                for key, _ in selector.select(_POLL_S):
                    if key.fileobj == self._wake_reader:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._wake_reader, 4096)
                        # Cleared before queues are read: a mark that comes later writes to the pipe again.
                        self._woken = False
                    else:
                        open_ = self._read(incoming)
                self._owner.pump(self)
                with self._lock:
                    self._flush()
        self._close()

    def _read(self, incoming: bytearray) -> bool:
        """Take the writer's messages; False when the connection has ended."""
        try:
            data = self._control.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        incoming += data
        place = 0
        while len(incoming) - place >= MESSAGE.size:
            kind, number, length, _ = MESSAGE.unpack_from(incoming, place)
            begin = place + MESSAGE.size
            if len(incoming) - begin < length:
                break
            place = begin + length
            self._owner.told(kind, number, bytes(incoming[begin:place]))
        del incoming[:place]
        return bool(data)

    def _close(self) -> None:
        with self._lock:
            self._break()
        if self._child is not None:
            self._child.wait()
        self._owner.ended(self, time.monotonic() - self._began)
        with self._lock:
            self._control.close()
            os.close(self._wake_reader)
            # Whoever still wakes this thread must not write to a file that has the number by then.
            self._woken = True
            os.close(self._wake_writer)
