"""Step 8 of 8: a query's feed as Server-Sent Events; all its subscribers share one channel of the fan-out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent

from .broadcast import Greeting
from .fanout import Fanout
from .sources import frame, line, message

Encode: TypeAlias = Callable[[StoredEvent], bytes]


@lru_cache(maxsize=1024)
def encode(event: StoredEvent) -> bytes:
    """The frame of an event, made once for all subscribers."""
    return frame(event.kind, event.data, event.id)


@lru_cache(maxsize=1024)
def encode_line(event: StoredEvent) -> bytes:
    """An event as a line of JSON, made once for all subscribers."""
    return line(event.kind, event.data, event.id)


@lru_cache(maxsize=1024)
def encode_message(event: StoredEvent) -> bytes:
    """An event as a message of a WebSocket, made once for all subscribers."""
    return message(event.kind, event.data, event.id)


class FeedSource:
    """One subscriber of a feed. It attaches when its socket is handed over, not before."""

    def __init__(
        self,
        feed: Feed,
        after_id: int | None,
        *,
        snapshot: bool,
        empty: str | None = None,
        encode: Encode = encode,
    ) -> None:
        """See `Feed.subscribe`; ``encode`` makes what is sent of an event."""
        self._feed = feed
        self._encode = encode
        self._after_id = after_id
        self._snapshot = snapshot
        self._empty = empty

    def hand_over(self, fanout: Fanout, sock: socket.socket, greeting: Greeting) -> None:
        """Let the feed's channel serve a socket: the greeting, then what this subscriber asked for."""
        feed, encode = self._feed, self._encode
        while True:
            relay = fanout.shared((feed, encode), lambda: Relay(fanout, feed, encode))
            if feed.join(relay, (sock, greeting), self._after_id, self._snapshot, self._empty):
                return
            # It has just lost its last member, or the writer; the next one is new.


class Relay:
    """A feed's channel: one subscriber to the feed, which offers each event once, a channel to the fan-out.

    The order in which the feed calls is that in which the writer gets the messages, so a member's first
    frames and what is published later neither overlap nor leave a gap.
    """

    def __init__(self, fanout: Fanout, feed: Feed, encode: Encode) -> None:
        self.members = 0
        self._encode = encode
        self._fanout = fanout
        self._feed = feed
        self._lock = threading.Lock()
        self._ended = False
        self._number = fanout.open_channel(self)

    # --- called by the feed, under its lock -------------------------------------------------------

    def welcome(
        self, member: tuple[socket.socket, Greeting], first: Sequence[StoredEvent], ended: bool
    ) -> bool:
        """A member is a socket and what it is greeted with; see `Subscriber`."""
        sock, greeting = member
        if self._ended:
            return False
        with self._lock:
            self.members += 1
        if not self._fanout.join(self._number, sock, greeting, b"".join(map(self._encode, first))):
            self.end()
            return False
        if ended:
            self.end()
        return True

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Events for all members."""
        frames = b"".join(map(self._encode, events))
        # Not every form has something for every event, and an empty chunk would be the end.
        return not frames or self._fanout.publish(self._number, frames)

    def end(self) -> None:
        """Members are disconnected when they have got everything."""
        self._ended = True
        self._fanout.close_channel(self._number)
        self._fanout.forget((self._feed, self._encode), self)

    # --- called by the fan-out --------------------------------------------------------------------

    def gone(self) -> None:
        """One of the members has left."""
        with self._lock:
            self.members -= 1
            empty = self.members <= 0
        if empty:
            self._feed.leave(self, when_empty=True)

    def lost(self) -> None:
        """The writer has ended, and with it every member's connection."""
        self._ended = True
        self.members = 0
        self._fanout.forget((self._feed, self._encode), self)
        self._feed.leave(self)
