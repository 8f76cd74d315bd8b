"""Numbers of open connections by client address."""

from __future__ import annotations

import threading
from collections import Counter

from .connection import Connection


class ConnectionCounts:
    """Counts of open connections by client address, safe to use from any thread.

    The connection of a trusted proxy counts for the client whose request it carries at the time.
    """

    def __init__(self, most_of_address: int) -> None:
        """Make counts of open connections, all of them 0.

        Args:
            most_of_address: maximum number of connections of one client.
        """
        self._most = most_of_address
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of open connections of all clients."""
        return self._counts.total()

    def is_full(self, address: str) -> bool:
        """Return True if a client's address has reached the maximum number of connections."""
        return self._counts[address] >= self._most

    def add(self, connection: Connection) -> None:
        """Count a new open connection under its client's address."""
        with self._lock:
            self._counts[connection.counted_as] += 1

    def remove(self, connection: Connection) -> None:
        """Remove an ended connection from the counts of open connections."""
        with self._lock:
            self._take_off(connection.counted_as)

    def count_for_client(self, connection: Connection) -> bool:
        """Count a trusted proxy's connection for the client of its request.

        Returns: False if the client has reached the maximum number of connections.
        """
        client = connection.client
        with self._lock:
            if client == connection.counted_as:
                return True
            if client != connection.address and self.is_full(client):
                return False
            self._move(connection, client)
        return True

    def count_for_proxy(self, connection: Connection) -> None:
        """Count a trusted proxy's connection for the proxy again, because it carries no request."""
        with self._lock:
            connection.client = connection.address
            self._move(connection, connection.address)

    def _move(self, connection: Connection, address: str) -> None:
        self._take_off(connection.counted_as)
        self._counts[address] += 1
        connection.counted_as = address

    def _take_off(self, address: str) -> None:
        self._counts[address] -= 1
        if self._counts[address] <= 0:
            del self._counts[address]
