"""Clients that send anything and go away at any moment: nothing of them is left, and others are answered."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress

from tests.app.conftest import LiveServer, Start
from tests.app.server.test_refused_requests import CASES, TAKEN
from tests.app.test_server import connect

PLAIN = b"GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
REQUESTS = [
    *(case.request for case in (*CASES, *TAKEN) if len(case.request) < 5000),
    PLAIN,
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n",
    b"PUT /store?default HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n" + b"#" * 200_000,
]
MOST = 40


def misbehave(server: LiveServer, chance: random.Random, until: float) -> None:
    while time.monotonic() < until:
        with suppress(OSError), connect(server) as client:
            data = b"".join(chance.choice(REQUESTS) for _ in range(chance.randrange(1, 4)))
            data = data[: chance.choice((len(data), chance.randrange(len(data) + 1)))]
            size = chance.choice((10, 1000, 1 << 20)) if len(data) < 3000 else 1 << 20
            for start in range(0, len(data), size):
                client.sendall(data[start : start + size])
            ending = chance.randrange(4)
            if ending == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif ending == 1:
                client.shutdown(socket.SHUT_WR)
            elif ending == 2:
                client.settimeout(0.1)
                client.recv(1 << 16)
            else:
                time.sleep(chance.random() * 0.4)


def answered(client: socket.socket) -> bool:
    client.sendall(PLAIN)
    return client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_nothing_is_left_of_clients_that_misbehave(start_server: Start) -> None:
    server = start_server(header_timeout=0.3, request_timeout=0.6, max_connections_per_address=MOST)
    until = time.monotonic() + 3
    clients = [
        threading.Thread(target=misbehave, args=(server, random.Random(number), until)) for number in range(6)
    ]
    for each in clients:
        each.start()
    answers = 0
    while time.monotonic() < until:
        with connect(server) as client, suppress(ConnectionError):
            answers += answered(client)
        time.sleep(0.02)
    for each in clients:
        each.join()
    assert answers > 10
    # What drains is over after three seconds; then every place is free.
    deadline = time.monotonic() + 15
    while True:
        with ExitStack() as stack:
            open_ones = [stack.enter_context(connect(server)) for _ in range(MOST)]
            with suppress(ConnectionError):
                if all([answered(each) for each in open_ones]):
                    break
        assert time.monotonic() < deadline
        time.sleep(0.5)
