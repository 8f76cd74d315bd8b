"""Fan-out of event streams: a subscriber costs a socket and a bounded buffer in a separate writer process.

    worker thread --socket, first frames--> |        | --> clients
    engine --one frame per result---------> | writer |
    store, loads --frames per client------> |        |

A worker thread handles a request for ``text/event-stream`` up to its headers, then the socket goes to the
writer (broadcast.py). The engine sends each event of a feed to the writer process once for all subscribers. A
subscriber whose buffer overflows is disconnected and resumes with ``Last-Event-ID``; no event is skipped. The
first subscriber of an event stream makes the server start the writer process. If the writer process dies, its
clients are disconnected, and the next subscriber starts a new writer.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from quadrill.store.quads.meters import Histogram

from ..http.grants import CHECK_SECONDS
from . import broadcast
from .broadcast import FIGURES_HEAD, Greeting
from .sources import EventSource
from .writer import StreamWriter

log = logging.getLogger("quadrill.fanout")

PROCESSES = hasattr(socket, "send_fds") and os.name == "posix"
"""True if the operating system can pass sockets to another process."""
_SHORT_LIFE_S = 2.0
_SHORT_LIVES = 3


class Channel(Protocol):
    """One sequence of events for many subscribers, notified when a subscriber leaves or the writer ends."""

    def gone(self) -> None: ...  # noqa: D102

    def lost(self) -> None: ...  # noqa: D102


C = TypeVar("C", bound=Channel)


@dataclass(slots=True)
class FanoutFigures:
    """Counters of the event streams' fan-out for the server's metrics.

    Attributes:
        dropped: number of subscribers disconnected because they were too slow.
        frames_sent: number of frames that the current writer process has written to subscribers' sockets.
        buffered: number of bytes that the writer process buffers for slow subscribers.
        restarts: number of times that the writer process ended without being stopped.
        latency: seconds from the publication of an event until the writer has passed the event to all
            sockets, or to its buffers of slow clients.
    """

    dropped: int = 0
    frames_sent: int = 0
    buffered: int = 0
    restarts: int = 0
    latency: Histogram = field(default_factory=Histogram)


class Fanout:
    """Interface to the writer of event streams, which gets subscribers' sockets and published frames.

    Attributes:
        figures: the counters of the fan-out for the server's metrics.
        process: True if the writer of event streams is a process, False if it is a thread.
    """

    def __init__(
        self,
        *,
        heartbeat: float = 15.0,
        buffer_bytes: int = 1 << 20,
        max_clients: int = 10_000,
        process: bool = PROCESSES,
        script: str = broadcast.__file__,
    ) -> None:
        """Create a fan-out of event streams; the first subscriber starts the writer.

        Args:
            heartbeat: seconds between two heartbeats to an idle subscriber.
            buffer_bytes: buffered bytes above which the next message disconnects a slow subscriber.
            max_clients: maximum number of subscribers at a time.
            process: False to run the writer in a thread of this process instead of a separate process.
            script: path of the Python script that the writer process runs.
        """
        self.heartbeat = heartbeat
        self.buffer_bytes = buffer_bytes
        self.max_clients = max_clients
        self.figures = FanoutFigures()
        self.process = process and PROCESSES
        self._script = script
        self._lock = threading.RLock()
        self._writer: StreamWriter | None = None
        self._numbers = 0
        # Each subscriber of an event stream has either a private source of events or a shared channel.
        self._sources: dict[int, EventSource] = {}
        self._members: dict[int, Channel] = {}
        self._permitted: dict[int, Callable[[], bool]] = {}
        self._next_check = 0.0
        self._channels: dict[int, Channel] = {}
        self._shared: dict[Hashable, Channel] = {}
        self._ready: deque[int] = deque()
        self._waiting: set[int] = set()
        # Numbers of sources with more events, which wait until their client has received a page of events.
        self._paging: set[int] = set()
        self._stopped = False
        self._short_lives = 0

    @property
    def clients(self) -> int:
        """The number of subscribers of all event streams."""
        return len(self._sources) + len(self._members)

    @property
    def full(self) -> bool:
        """True if the maximum number of subscribers of event streams is reached."""
        return self.clients >= self.max_clients

    @property
    def process_id(self) -> int | None:
        """Process id of the writer of event streams; None if it is a thread or is not running."""
        return None if self._writer is None else self._writer.process_id

    def start(self) -> None:
        """Accept subscribers of event streams from now on."""
        self._stopped = False

    def stop(self, timeout: float = 2.0) -> None:
        """Write pending frames, close all event streams and end the writer, by force after ``timeout`` s."""
        with self._lock:
            self._stopped = True
            writer = self._writer
        if writer is not None:
            self.pump(writer)
            writer.send(broadcast.STOP)
            writer.end(timeout)

    def adopt(self, sock: socket.socket, source: EventSource, greeting: Greeting) -> None:
        """Take over a subscriber's socket: the writer sends the greeting, then the frames of the source."""
        with self._lock:
            writer = self._living(sock)
            if writer is None:
                source.close()
                return
            number = self._new_number()
            self._sources[number] = source
            self._watch(number, greeting)
            writer.send(broadcast.ADOPT, number, greeting.pack(0), sock)
        source.listen(lambda: self._mark(number))
        self._mark(number)

    # --- methods for channels, each with many subscribers of one feed ----------------------------

    def open_channel(self, channel: Channel) -> int:
        """Register a channel, one sequence of events for many subscribers, and return its number."""
        with self._lock:
            number = self._new_number()
            self._channels[number] = channel
            return number

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the channel for ``key`` (feed and encoder); ``make`` creates it if there is none."""
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            return cast(C, self._shared[key])

    def forget(self, key: Hashable, channel: Channel) -> None:
        """Remove the channel for ``key`` (feed and encoder), so that new subscribers get another channel."""
        with self._lock:
            if self._shared.get(key) is channel:
                del self._shared[key]

    def join(self, number: int, sock: socket.socket, greeting: Greeting, frames: bytes) -> bool:
        """Add a subscriber to a channel; it receives the greeting, ``frames``, and frames published later.

        Return False if the channel has ended; the caller then still owns the subscriber's socket.
        """
        with self._lock:
            channel = self._channels.get(number)
            if channel is None:
                return False
            writer = self._living(sock)
            if writer is not None:
                client = self._new_number()
                self._members[client] = channel
                self._watch(client, greeting)
                writer.send(broadcast.ADOPT, client, greeting.pack(number, frames), sock)
            return True

    def publish(self, number: int, frames: bytes) -> bool:
        """Send frames to every subscriber of a channel; return False if the channel has ended."""
        with self._lock:
            if self._writer is None or number not in self._channels:
                return False
            self._writer.send(broadcast.PUBLISH, number, frames)
            return True

    def close_channel(self, number: int) -> None:
        """Close a channel; its subscribers are disconnected after they received all frames."""
        with self._lock:
            if self._channels.pop(number, None) is not None and self._writer is not None:
                self._writer.send(broadcast.END, number)

    # --- methods for sources with a single subscriber ---------------------------------------------

    def _mark(self, number: int) -> None:
        """Mark a single subscriber's source as possibly having events; called by the source in any thread."""
        with self._lock:
            if number in self._waiting or number not in self._sources:
                return
            self._waiting.add(number)
            self._ready.append(number)
            writer = self._writer
        if writer is not None:
            writer.wake()

    def pump(self, writer: StreamWriter) -> None:
        """Send events of marked sources, end revoked streams; runs in the writer's thread, and in `stop`."""
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + CHECK_SECONDS
            self._revoke(writer)
        while self._ready:
            number = self._ready.popleft()
            self._waiting.discard(number)
            source = self._sources.get(number)
            if source is None or number in self._paging:
                continue
            news = time.monotonic()
            try:
                frames = source.take()
                finished = source.finished
            except Exception:
                log.exception("a feed failed while it was read")
                frames, finished = [], True
            if frames:
                if source.more:
                    self._paging.add(number)
                kind = broadcast.PAGE if source.more else broadcast.FRAMES
                writer.send(kind, number, b"".join(frames), news=news)
            if finished:
                writer.send(broadcast.FINISH, number)

    def _watch(self, number: int, greeting: Greeting) -> None:
        """Register the periodic check whether a subscriber may still read; the caller holds the lock."""
        if greeting.permitted is not None:
            self._permitted[number] = greeting.permitted

    def _revoke(self, writer: StreamWriter) -> None:
        """Disconnect the subscribers that may no longer read, for instance after their token was removed."""
        with self._lock:
            permitted = dict(self._permitted)
        ended = {each for each in set(permitted.values()) if not each()}
        for number in [number for number, each in permitted.items() if each in ended] if ended else ():
            writer.send(broadcast.REVOKE, number)

    # --- start and end of the writer process ----------------------------------------------------------------

    def _new_number(self) -> int:
        self._numbers = self._numbers % 0xFFFFFFFF + 1
        return self._numbers

    def _living(self, sock: socket.socket) -> StreamWriter | None:
        """Return the running writer, or start a writer; if the fan-out has stopped, close the socket."""
        if self._stopped:
            sock.close()
            return None
        if self._writer is None:
            self._writer = StreamWriter(
                self,
                script=self._script if self.process else None,
                heartbeat=self.heartbeat,
                buffer_bytes=self.buffer_bytes,
            )
        return self._writer

    def handle(self, kind: int, number: int, data: bytes) -> None:
        """Handle a message of the writer process: counters, a page received, or a subscriber gone."""
        if kind == broadcast.FIGURES:
            self.figures.frames_sent, self.figures.buffered = FIGURES_HEAD.unpack_from(data)
            count = (len(data) - FIGURES_HEAD.size) // 8
            for seconds in struct.unpack_from(f"<{count}d", data, FIGURES_HEAD.size):
                self.figures.latency.observe(seconds)
            return
        self._paging.discard(number)
        if kind == broadcast.TAKEN:
            self._mark(number)
            return
        with self._lock:
            source = self._sources.pop(number, None)
            channel = self._members.pop(number, None)
            self._permitted.pop(number, None)
        if data == broadcast.TOO_SLOW:
            self.figures.dropped += 1
        if source is not None:
            _close(source)
        if channel is not None:
            channel.gone()

    def ended(self, writer: StreamWriter, lived_s: float) -> None:
        """Remove all subscribers, because the writer process has ended after ``lived_s`` seconds."""
        with self._lock:
            if self._writer is not writer:
                return
            self._writer = None
            count = self.clients
            sources, self._sources = self._sources, {}
            self._members, self._permitted = {}, {}
            channels, self._channels = self._channels, {}
            self._ready.clear()
            self._waiting.clear()
            self._paging.clear()
            self.figures.buffered = 0
            if not self._stopped:
                self.figures.restarts += 1
                self._short_lives = self._short_lives + 1 if lived_s < _SHORT_LIFE_S else 0
                log.error("the process that writes event streams ended; %d clients connect again", count)
                if self.process and self._short_lives >= _SHORT_LIVES:
                    log.error(
                        "a thread replaces the process, which ended early %d times in a row",
                        _SHORT_LIVES,
                    )
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
