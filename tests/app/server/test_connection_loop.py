"""What the thread that owns the connections holds, and lets go."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from queue import SimpleQueue

import pytest

from quadrill.app.server.connection import Connection, Timeouts
from quadrill.app.server.connection_loop import ConnectionLimits, ConnectionLoop


def test_a_connection_that_cannot_be_watched_is_closed_and_counted_off() -> None:
    dispatched: SimpleQueue[Connection] = SimpleQueue()
    listener = socket.create_server(("127.0.0.1", 0))
    loop = ConnectionLoop(listener, Timeouts(), ConnectionLimits(), dispatched.put, lambda _now: False)
    thread = threading.Thread(target=loop.run)
    with socket.create_connection(listener.getsockname()) as client:
        thread.start()
        try:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection = dispatched.get(timeout=5)
            assert loop.connections == 1
            connection.socket.close()
            loop.put(connection)
            assert loop.connections == 0
        finally:
            loop.stop()
            thread.join(5)
    assert not thread.is_alive()


def test_many_small_pieces_are_waited_for_as_long_as_one_large_one() -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    connection = Connection(ours, "", 0, Timeouts(request=0.5))
    done = threading.Event()

    def sip() -> None:
        while not done.wait(0.1):
            theirs.recv(1024)

    reader = threading.Thread(target=sip)
    reader.start()
    began = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            for _ in range(60):
                connection.send(b"x" * 1024)
    finally:
        done.set()
        reader.join()
        theirs.close()
        connection.close()
    assert time.monotonic() - began < 2.0


def test_who_reads_fast_enough_may_pause_again() -> None:
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "", 0, Timeouts(request=0.5))
    done = threading.Event()

    def read() -> None:
        while not done.wait(0.3):
            with contextlib.suppress(BlockingIOError):
                while theirs.recv(1 << 20, socket.MSG_DONTWAIT):
                    pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(2000):
            connection.send(b"x" * 1024)
    finally:
        done.set()
        reader.join()
        theirs.close()
        connection.close()
