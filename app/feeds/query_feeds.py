"""Step 8 of 8 of query evaluation: a query's feed as Server-Sent Events; subscribers share a channel."""

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
    """Return the Server-Sent Events frame of an event, encoded once for all subscribers."""
    return frame(event.kind, event.data, event.id)


@lru_cache(maxsize=1024)
def encode_line(event: StoredEvent) -> bytes:
    """Return an event as a line of JSON, encoded once for all subscribers."""
    return line(event.kind, event.data, event.id)


@lru_cache(maxsize=1024)
def encode_message(event: StoredEvent) -> bytes:
    """Return an event as a WebSocket message, encoded once for all subscribers."""
    return message(event.kind, event.data, event.id)


class FeedSource:
    """One subscriber of a query's feed, attached to the feed when its socket goes to the fan-out."""

    def __init__(
        self,
        feed: Feed,
        after_id: int | None,
        *,
        snapshot: bool,
        empty: str | None = None,
        encode: Encode = encode,
    ) -> None:
        """Create a subscriber that starts after the event ``after_id``; ``encode`` encodes one event."""
        self._feed = feed
        self._encode = encode
        self._after_id = after_id
        self._snapshot = snapshot
        self._empty = empty

    def hand_over(self, fanout: Fanout, sock: socket.socket, greeting: Greeting) -> None:
        """Hand a subscriber's socket to the fan-out: the greeting, then the events from its position on."""
        feed, encode = self._feed, self._encode
        while True:
            relay = fanout.shared((feed, encode), lambda: Relay(fanout, feed, encode))
            if feed.join(relay, (sock, greeting), self._after_id, self._snapshot, self._empty):
                return
            # The channel has just lost its last client or the writer process, so the next attempt creates a
            # channel.


class Relay:
    """Channel of a query's feed: one subscriber of the feed, whose events the fan-out sends to many clients.

    The writer process receives messages in the order of the feed's calls, so a client's first frames and the
    frames published later neither overlap nor leave a gap.
    """

    def __init__(self, fanout: Fanout, feed: Feed, encode: Encode) -> None:
        self.members = 0
        self._encode = encode
        self._fanout = fanout
        self._feed = feed
        self._lock = threading.Lock()
        self._ended = False
        self._number = fanout.open_channel(self)

    # --- methods that the query's feed calls: `welcome` and `offer` always with its lock held -------

    def welcome(
        self, member: tuple[socket.socket, Greeting], first: Sequence[StoredEvent], ended: bool
    ) -> bool:
        """Add a client (a socket and its greeting) to the channel, with the first events for this client."""
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
        """Publish events of the feed to all clients of the channel."""
        frames = b"".join(map(self._encode, events))
        # CSV and RDF Messages encode a `progress` event as no bytes, and an empty HTTP chunk would end the
        # answer.
        return not frames or self._fanout.publish(self._number, frames)

    def end(self) -> None:
        """End the channel; its clients are disconnected after they received all events."""
        self._ended = True
        self._fanout.close_channel(self._number)
        self._fanout.forget((self._feed, self._encode), self)

    # --- methods that the fan-out calls -----------------------------------------------------------

    def gone(self) -> None:
        """Count a client of the channel that has left; detach from the feed after the last client."""
        with self._lock:
            self.members -= 1
            empty = self.members <= 0
        if empty:
            self._feed.leave(self, when_empty=True)

    def lost(self) -> None:
        """Detach from the feed, because the writer process has ended with every client's connection."""
        self._ended = True
        self.members = 0
        self._fanout.forget((self._feed, self._encode), self)
        self._feed.leave(self)
