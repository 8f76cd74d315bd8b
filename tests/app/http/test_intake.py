"""What the thread that owns the connections holds, and lets go."""

from __future__ import annotations

import socket
import threading
from queue import SimpleQueue

from quadrill.app.http.connection import Connection, Patience
from quadrill.app.http.intake import Crowd, Intake


def test_a_connection_that_cannot_be_watched_is_closed_and_counted_off() -> None:
    dispatched: SimpleQueue[Connection] = SimpleQueue()
    listener = socket.create_server(("127.0.0.1", 0))
    intake = Intake(listener, Patience(), Crowd(), dispatched.put, lambda _now: False)
    thread = threading.Thread(target=intake.run)
    with socket.create_connection(listener.getsockname()) as client:
        thread.start()
        try:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection = dispatched.get(timeout=5)
            assert intake.connections == 1
            connection.socket.close()
            intake.put(connection)
            assert intake.connections == 0
        finally:
            intake.stop()
            thread.join(5)
    assert not thread.is_alive()
