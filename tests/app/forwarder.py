"""A small reverse proxy: it passes bytes on to a server, and answers 502 while the server does not listen."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator

_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Forwarder:
    """A proxy at a fixed port of this machine for a server whose port may change.

    Attributes:
        url: the address of the proxy, without a slash at the end.
        refused: number of connections that were answered with 502.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server: tuple[str, int] | None = None
        self._clients: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.refused = 0

    def lead_to(self, url: str | None) -> None:
        """Pass further connections on to a server; None for a server that does not run."""
        self._server = None if url is None else ("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))

    def run(self) -> None:
        """Serve connections until the listening socket is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def cut(self) -> None:
        """Cut all connections; further ones are passed on."""
        for each in list(self._clients):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no further connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, client: socket.socket) -> None:
        self._clients.add(client)
        with client, contextlib.suppress(OSError):
            try:
                server = socket.create_connection(self._server or ("127.0.0.1", 1), 5)
            except OSError:
                self.refused += 1
                client.recv(65536)
                client.sendall(_BAD_GATEWAY)
                return
            with server, selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while True:
                    for key, _ in selector.select():
                        source: socket.socket = key.fileobj  # type: ignore[assignment]
                        data = source.recv(65536)
                        if not data:
                            return
                        key.data.sendall(data)


@contextlib.contextmanager
def forwarding() -> Iterator[Forwarder]:
    """A running proxy, which ends with the block."""
    forwarder = Forwarder()
    threading.Thread(target=forwarder.run, daemon=True).start()
    try:
        yield forwarder
    finally:
        forwarder.close()
