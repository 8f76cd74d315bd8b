"""Server side of the writer process of event streams: the connection, and the thread that reads it."""

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
"""Maximum bytes queued for the writer process; above it the server ends it, and clients reconnect."""
_POLL_S = 1.0


class WriterOwner(Protocol):
    """Callbacks to the owner of a writer of event streams, called in the writer's thread of the server."""

    def pump(self, writer: StreamWriter) -> None:
        """Send the pending frames of event streams to the writer."""

    def handle(self, kind: int, number: int, data: bytes) -> None:
        """Handle a message that the writer of event streams sent to the server."""

    def ended(self, writer: StreamWriter, lived_s: float) -> None:
        """Remove the writer, whose process or thread has ended after ``lived_s`` seconds."""


class StreamWriter:
    """A running writer of event streams: the connection to its process or thread, and the reading thread.

    Messages that do not fit into the connection to the writer are queued in order, each with its socket.
    """

    def __init__(
        self, owner: WriterOwner, *, script: str | None, heartbeat: float, buffer_bytes: int
    ) -> None:
        """Start a process or thread that writes event streams to clients.

        Args:
            owner: the object whose methods the writer's thread calls.
            script: path of the writer's script; None runs the writer in a thread of this process.
            heartbeat: seconds between two heartbeats to an idle subscriber.
            buffer_bytes: buffered bytes above which the next message disconnects a slow subscriber.
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
            # Python starts the writer isolated and without site packages, because its script imports only the
            # standard library.
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
        """Process id of the writer of event streams; None if the writer is a thread."""
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
        """Queue a message to the writer; an attached socket is passed to its process, then closed here."""
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
            # The message being sent does not count towards the bound: a resuming client would get the same
            # large message again.
            if self._backlog and self._backlog_bytes - len(self._backlog[0][0]) > _BACKLOG_BYTES:
                log.error("the writer of event streams is %d bytes behind and is ended", self._backlog_bytes)
                self._break()
            waiting = bool(self._backlog)
        if waiting:
            self.wake()

    def wake(self) -> None:
        """Wake the writer's thread of the server, which then sends the pending frames."""
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):
                os.write(self._wake_writer, b"\0")

    def end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the writer of event streams to end, then kill it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            with self._lock:
                self._break()
            self.wake()
            self._thread.join(timeout)

    def _flush(self) -> None:
        """Send queued messages until the connection to the writer is full; the caller holds the lock."""
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
        """Close the connection to the writer, which ends the writer; the caller holds the lock."""
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

    # --- methods of the thread that reads the writer's messages -----------------------------------------

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
                        # `_woken` is cleared before queues are read, so that a later `wake` writes to the
                        # pipe again.
                        self._woken = False
                    else:
                        open_ = self._read(incoming)
                self._owner.pump(self)
                with self._lock:
                    self._flush()
        self._close()

    def _read(self, incoming: bytearray) -> bool:
        """Handle messages of the writer; return False after the end of the connection to the writer."""
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
            self._owner.handle(kind, number, bytes(incoming[begin:place]))
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
            # A late `wake` must not write to another file that has reused the descriptor of the pipe.
            self._woken = True
            os.close(self._wake_writer)
