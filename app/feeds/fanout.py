"""Event streams: a subscriber costs a socket and a bounded buffer, in a process that has nothing else to do.

    worker thread --socket, first frames--> |        | --> clients
    engine --one frame per result---------> | writer |
    store, loads --frames per client------> |        |

A request for ``text/event-stream`` is answered up to its headers in a worker thread, then its socket goes to
the writer (broadcast.py). What happens in a feed is sent there once, for all its subscribers. A client that
is too slow for its buffer is disconnected and resumes with ``Last-Event-ID``; no event is ever skipped. The
writer is started with the first subscriber. Should it die, its clients are disconnected, connect again and
find a new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol, TypeVar, cast

from quadrill.continuous.meters import Histogram

from . import broadcast
from .broadcast import FIGURES_HEAD, HEARTBEAT_FRAME, MESSAGE, NUMBER, Broadcaster

log = logging.getLogger("quadrill.fanout")

PROCESSES = hasattr(socket, "send_fds") and os.name == "posix"
"""Whether sockets can be handed to another process here."""
_BACKLOG_BYTES = 64 << 20
"""A writer that is so far behind is ended: its clients resume."""
_SHORT_LIFE_S = 2.0
_SHORT_LIVES = 3
_POLL_S = 1.0


class EventSource(Protocol):
    """A subscriber's place in a feed, drained without waiting.

    ``take`` gives the frames that are ready, in order; ``finished`` is True when none will follow;
    ``listen`` registers the function to call, from any thread, when there may be something to take.
    """

    finished: bool

    def take(self) -> list[bytes]: ...  # noqa: D102

    def listen(self, wake: Callable[[], None]) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class SharedSource(EventSource, Protocol):
    """A subscriber that can be served together with others."""

    def hand_over(self, fanout: Fanout, sock: socket.socket, head: bytes) -> None: ...  # noqa: D102


class Channel(Protocol):
    """What many subscribers get alike. It is told when one of its clients has left or the writer ended."""

    def gone(self) -> None: ...  # noqa: D102

    def lost(self) -> None: ...  # noqa: D102


C = TypeVar("C", bound=Channel)


class Fanout:
    """The way to the writer. Units: ``heartbeat`` seconds, ``buffer_bytes`` bytes per client.

    Attributes:
        dropped: subscribers that were too slow.
        frames_sent: frames that clients have taken.
        buffered: bytes that wait for slow clients.
        latency: from the news of an event to its last byte in a socket's buffer, once an event.
        restarts: how often the writer ended by itself.
        process: whether it is a process, else a thread.
    """

    def __init__(
        self,
        *,
        heartbeat: float = 15.0,
        buffer_bytes: int = 1 << 20,
        max_clients: int = 10_000,
        process: bool = PROCESSES,
    ) -> None:
        """Nothing runs before the first subscriber; ``process`` False writes in a thread of this one."""
        self.heartbeat = heartbeat
        self.buffer_bytes = buffer_bytes
        self.max_clients = max_clients
        self.dropped = 0
        self.frames_sent = 0
        self.buffered = 0
        self.restarts = 0
        self.latency = Histogram()
        self.process = process and PROCESSES
        self._lock = threading.RLock()
        self._writer: _Writer | None = None
        self._numbers = 0
        # Each subscriber is served by a source of its own or by a channel.
        self._sources: dict[int, EventSource] = {}
        self._members: dict[int, Channel] = {}
        self._channels: dict[int, Channel] = {}
        self._shared: dict[Hashable, Channel] = {}
        self._ready: deque[int] = deque()
        self._waiting: set[int] = set()
        self._stopped = False
        self._short_lives = 0

    @property
    def clients(self) -> int:
        """How many subscribers there are."""
        return len(self._sources) + len(self._members)

    @property
    def full(self) -> bool:
        """True when no further subscriber is taken."""
        return self.clients >= self.max_clients

    def start(self) -> None:
        """Take subscribers."""
        self._stopped = False

    def stop(self, timeout: float = 2.0) -> None:
        """Write out what is ready, close every stream and end the writer."""
        with self._lock:
            self._stopped = True
            writer = self._writer
        if writer is not None:
            self._pump(writer)
            writer.send(broadcast.STOP)
            writer.end(timeout)

    def adopt(self, sock: socket.socket, source: EventSource, head: bytes) -> None:
        """Take over a connected socket: send ``head`` (status line and headers), then the source's frames."""
        with self._lock:
            writer = self._living(sock)
            if writer is None:
                source.close()
                return
            number = self._new_number()
            self._sources[number] = source
            writer.send(broadcast.ADOPT, number, NUMBER.pack(0) + head, sock)
        source.listen(lambda: self._mark(number))
        self._mark(number)

    # --- channels: many subscribers get the same --------------------------------------------------

    def open_channel(self, channel: Channel) -> int:
        """A number for what many subscribers get alike."""
        with self._lock:
            number = self._new_number()
            self._channels[number] = channel
            return number

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """The channel of what ``key`` stands for, made when there is none."""
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            return cast(C, self._shared[key])

    def forget(self, key: Hashable, channel: Channel) -> None:
        """From now on another channel serves new subscribers."""
        with self._lock:
            if self._shared.get(key) is channel:
                del self._shared[key]

    def join(self, number: int, sock: socket.socket, head: bytes) -> bool:
        """Hand a socket to a channel: it gets ``head``, then what is published later.

        False when the channel has ended: the socket is the caller's still.
        """
        with self._lock:
            channel = self._channels.get(number)
            if channel is None:
                return False
            writer = self._living(sock)
            if writer is not None:
                client = self._new_number()
                self._members[client] = channel
                writer.send(broadcast.ADOPT, client, NUMBER.pack(number) + head, sock)
            return True

    def publish(self, number: int, frames: bytes) -> bool:
        """Send frames to every client of a channel; False when it has ended."""
        with self._lock:
            if self._writer is None or number not in self._channels:
                return False
            self._writer.send(broadcast.PUBLISH, number, frames)
            return True

    def close_channel(self, number: int) -> None:
        """Its clients are disconnected when they have got everything."""
        with self._lock:
            if self._channels.pop(number, None) is not None and self._writer is not None:
                self._writer.send(broadcast.END, number)

    # --- sources of single clients ----------------------------------------------------------------

    def _mark(self, number: int) -> None:
        """Called by a source, in any thread: there may be something to take."""
        with self._lock:
            if number in self._waiting or number not in self._sources:
                return
            self._waiting.add(number)
            self._ready.append(number)
            writer = self._writer
        if writer is not None:
            writer.wake()

    def _pump(self, writer: _Writer) -> None:
        """Take what sources have ready. Called in the writer's thread."""
        while self._ready:
            number = self._ready.popleft()
            self._waiting.discard(number)
            source = self._sources.get(number)
            if source is None:
                continue
            news = time.monotonic()
            try:
                frames = source.take()
                finished = source.finished
            except Exception:
                log.exception("a feed failed while it was read")
                frames, finished = [], True
            if frames:
                writer.send(broadcast.FRAMES, number, b"".join(frames), news=news)
            if finished:
                writer.send(broadcast.FINISH, number)

    # --- the writer's life ------------------------------------------------------------------------

    def _new_number(self) -> int:
        self._numbers = self._numbers % 0xFFFFFFFF + 1
        return self._numbers

    def _living(self, sock: socket.socket) -> _Writer | None:
        """The writer, started when there is none; the socket is closed when the fan-out is stopped."""
        if self._stopped:
            sock.close()
            return None
        if self._writer is None:
            self._writer = _Writer(self)
        return self._writer

    def _told(self, kind: int, number: int, data: bytes) -> None:
        """A message of the writer."""
        if kind == broadcast.FIGURES:
            self.frames_sent, self.buffered = FIGURES_HEAD.unpack_from(data)
            count = (len(data) - FIGURES_HEAD.size) // 8
            for seconds in struct.unpack_from(f"<{count}d", data, FIGURES_HEAD.size):
                self.latency.observe(seconds)
            return
        with self._lock:
            source = self._sources.pop(number, None)
            channel = self._members.pop(number, None)
        if data == broadcast.TOO_SLOW:
            self.dropped += 1
        if source is not None:
            _close(source)
        if channel is not None:
            channel.gone()

    def _ended(self, writer: _Writer, lived_s: float) -> None:
        """The writer has ended: whoever was connected through it is gone."""
        with self._lock:
            if self._writer is not writer:
                return
            self._writer = None
            count = self.clients
            sources, self._sources = self._sources, {}
            self._members = {}
            channels, self._channels = self._channels, {}
            self._ready.clear()
            self._waiting.clear()
            self.buffered = 0
            if not self._stopped:
                self.restarts += 1
                self._short_lives = self._short_lives + 1 if lived_s < _SHORT_LIFE_S else 0
                log.error("the process that writes event streams ended; %d clients connect again", count)
                if self.process and self._short_lives >= _SHORT_LIVES:
                    log.error("it ended at once %d times: a thread takes its place", _SHORT_LIVES)
                    self.process = False
        for source in sources.values():
            _close(source)
        for channel in channels.values():
            channel.lost()


def _close(source: EventSource) -> None:
    try:
        source.close()
    except Exception:
        log.exception("a feed failed while a subscriber left")


class _Writer:
    """One life of the writer, a process or a thread: its connection, and a thread here that listens to it.

    What does not fit into the connection waits in order; sockets wait with their message.
    """

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
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
        if fanout.process:
            given = (theirs.fileno(), fanout.heartbeat, fanout.buffer_bytes)
            # Isolated and without site packages: it needs nothing but the standard library.
            command = [sys.executable, "-I", "-S", broadcast.__file__, *map(str, given)]
            try:
                self._child = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
                theirs.close()
            except OSError as error:
                log.error("event streams are written by a thread: no process can be started: %s", error)
        if self._child is None:
            writer = Broadcaster(theirs, heartbeat=fanout.heartbeat, buffer_bytes=fanout.buffer_bytes)
            threading.Thread(target=writer.run, name="quadrill-fanout-writer", daemon=True).start()
        self._thread = threading.Thread(target=self._run, name="quadrill-fanout", daemon=True)
        self._thread.start()

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
        head = MESSAGE.pack(kind, number, len(data), time.monotonic() if news is None else news)
        with self._lock:
            if self._broken:
                if sock is not None:
                    sock.close()
                return
            self._backlog.append((memoryview(head + data), sock))
            self._backlog_bytes += len(data)
            if len(self._backlog) == 1:
                self._flush()
            if self._backlog_bytes > _BACKLOG_BYTES:
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
                self._fanout._pump(self)
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
            self._fanout._told(kind, number, bytes(incoming[begin:place]))
        del incoming[:place]
        return bool(data)

    def _close(self) -> None:
        with self._lock:
            self._break()
        if self._child is not None:
            self._child.wait()
        self._fanout._ended(self, time.monotonic() - self._began)
        with self._lock:
            self._control.close()
            os.close(self._wake_reader)
            # Whoever still wakes this thread must not write to a file that has the number by then.
            self._woken = True
            os.close(self._wake_writer)


def frame(*, kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One Server-Sent Event; ``data`` must be one line."""
    lines = []
    if event_id is not None:
        lines.append(f"id: {event_id}\n")
    if kind is not None:
        lines.append(f"event: {kind}\n")
    lines.append(f"data: {data}\n\n")
    return "".join(lines).encode("utf-8")


def blocking_stream(source: EventSource, *, head: bytes, heartbeat: float) -> Iterator[bytes]:
    """The frames of a source as a generator that waits, for servers that cannot hand a socket over."""
    event = threading.Event()
    source.listen(event.set)
    try:
        if head:
            yield head
        while True:
            event.clear()
            frames = source.take()
            if frames:
                yield b"".join(frames)
            elif source.finished:
                return
            elif not event.wait(heartbeat):
                yield HEARTBEAT_FRAME
    finally:
        source.close()
