"""Clients of long-lived pushes, as little as can be."""

from __future__ import annotations

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

NDJSON = "application/x-ndjson"


def line(at: int, value: int = 1) -> bytes:
    data = f"<http://e/s> <http://e/p> {json.dumps(str(value))} ."
    return json.dumps({"at": at, "data": data}).encode() + b"\n"


class Body:
    """A request with a chunked body that is sent piece by piece."""

    def __init__(self, url: str, target: str, **headers: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=15)
        self._data = b""
        self.begin(target, **headers)

    def begin(self, target: str, **headers: str) -> None:
        given = {"Host": "127.0.0.1", "Content-Type": NDJSON, "Transfer-Encoding": "chunked"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def send(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = dict(each.split(": ", 1) for each in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}

    def answer(self) -> tuple[int, dict[str, Any]]:
        status, headers = self.head()
        size = int(headers["content-length"])
        while len(self._data) < size:
            self._more()
        body, self._data = self._data[:size], self._data[size:]
        return status, json.loads(body)

    def chunk(self) -> dict[str, Any] | None:
        """The line of the next chunk; None at the end of the answer."""
        size = int(self.until(b"\r\n"), 16)
        while len(self._data) < size + 2:
            self._more()
        body, self._data = self._data[:size], self._data[size + 2 :]
        return json.loads(body) if body else None

    def until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def close(self) -> None:
        self.socket.close()

    def _more(self) -> None:
        piece = self.socket.recv(1 << 16)
        assert piece, f"the connection was closed behind {self._data!r}"
        self._data += piece


class WebSocket:
    """A client of a WebSocket."""

    def __init__(self, url: str, target: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=15)
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        asked = Request(host=parts.netloc, target=target, extra_headers=headers or [])
        self.socket.sendall(self._connection.send(asked))
        self.status = 101
        self.problem = b""
        event = self.event()
        if isinstance(event, RejectConnection):
            self.status = event.status_code
            while isinstance(data := self.event(), RejectData):
                self.problem += data.data
                if data.body_finished:
                    break
        else:
            assert isinstance(event, AcceptConnection)

    def send(self, text: str) -> None:
        self.socket.sendall(self._connection.send(TextMessage(data=text)))

    def say(self, event: Event) -> None:
        self.socket.sendall(self._connection.send(event))

    def say_at_once(self, *events: Event) -> None:
        self.socket.sendall(b"".join(map(self._connection.send, events)))

    def event(self) -> Event:
        while not self._events:
            piece = self.socket.recv(1 << 16)
            self._connection.receive_data(piece or None)
            self._events += self._connection.events()
        return self._events.pop(0)

    def text(self) -> Any:
        """The next message as JSON."""
        text = ""
        while True:
            event = self.event()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return json.loads(text)

    def closed(self) -> int:
        """The code with which the server says goodbye."""
        while not isinstance(event := self.event(), CloseConnection):
            pass
        return event.code

    def close(self) -> None:
        self.socket.close()


def eventually(check: Any, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it did not come to be"
        time.sleep(0.01)
