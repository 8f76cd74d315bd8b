"""How many connections each client has."""

from __future__ import annotations

import threading
from collections import Counter

from .connection import Connection


class ConnectionCounts:
    """Connections by the address that they count for; safe to use from any thread.

    The connection of a trusted proxy counts for a client while it carries a request of that client.
    """

    def __init__(self, most_of_address: int) -> None:
        """Begin without connections.

        Args:
            most_of_address: connections that one client may have.
        """
        self._most = most_of_address
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Connections in all."""
        return self._counts.total()

    def is_full(self, address: str) -> bool:
        """True when an address has as many connections as it may have."""
        return self._counts[address] >= self._most

    def add(self, connection: Connection) -> None:
        """Count a new connection."""
        with self._lock:
            self._counts[connection.counted_as] += 1

    def remove(self, connection: Connection) -> None:
        """Count a connection off that ends."""
        with self._lock:
            self._take_off(connection.counted_as)

    def count_for_client(self, connection: Connection) -> bool:
        """Count a trusted proxy's connection for the client of its request.

        False when that client has as many connections as it may have.
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
