"""Requests as bytes on a connection, and the answers read from it."""

from __future__ import annotations

import socket
from urllib.parse import urlencode

from tests.app.conftest import LiveServer

DIRECT = ("Content-Type", "application/sparql-query")
FORM = ("Content-Type", "application/x-www-form-urlencoded")
JSON = ("Accept", "application/sparql-results+json")
Request = tuple[str, str, list[tuple[str, str]], bytes]


class Wire:
    """A connection that sends bytes and reads whole answers."""

    def __init__(self, server: LiveServer) -> None:
        host, _, port = server.url.removeprefix("http://").rstrip("/").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=15)
        self._data = b""

    def send(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.socket.sendall(message(method, target, headers, body))

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            blocks = []
            while size := int(self._until(b"\r\n"), 16):
                blocks.append(self._exactly(size + 2)[:-2])
            assert self._exactly(2) == b"\r\n"
            return int(first.split()[1]), headers, b"".join(blocks)
        return int(first.split()[1]), headers, self._exactly(int(headers.get("content-length", "0")))

    def close(self) -> None:
        self.socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _more(self) -> None:
        piece = self.socket.recv(1 << 16)
        assert piece, "the connection was closed"
        self._data += piece


def message(method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    given = {name.lower() for name, _value in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in given:
        lines.append("Host: 127.0.0.1")
    lines += [f"{name}: {value}" for name, value in headers]
    if method == "POST" and "content-length" not in given:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def get(text: str, *headers: tuple[str, str], path: str = "/query", **fields: str) -> Request:
    return "GET", f"{path}?{urlencode({'query': text, **fields})}", [JSON, *headers], b""


def post(text: str, *headers: tuple[str, str], target: str = "/query") -> Request:
    return "POST", target, [DIRECT, *headers], text.encode()


def form(text: str, *headers: tuple[str, str], path: str = "/query", **fields: str) -> Request:
    return "POST", path, [FORM, *headers], urlencode({"query": text, **fields}).encode()
