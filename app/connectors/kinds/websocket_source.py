"""Source that receives messages over a WebSocket (RFC 6455)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from quadrill.store.hosts import AllowedHosts
from quadrill.store.network.connections import connect as connect_by

from ..declaration import DeclarationMember, list_of, number, text
from ..errors import ConnectorError, ConnectorFailedError
from ..source import JSON, Message, Source
from ..web import FINAL, HEADERS, TIMEOUT, TOKEN, headers_of, require_url, url_member

PORTS = {"ws": 80, "wss": 443}
_LOOK_S = 0.5
"""Seconds between two checks whether the WebSocket source has to stop."""
_POLICY = 1008
_BATCH_BYTES = 4 << 20
"""Bytes of WebSocket messages after which a batch is full; the last message may exceed this bound."""
_MOST_RECEIVED = 4
"""Maximum number of WebSocket frames that the library buffers; above it TCP blocks the sender."""


class WebSocketSource(Source):
    """A source that reads each WebSocket message as one record."""

    members = (
        url_member("the URL, with ws:// or wss://"),
        DeclarationMember(
            "send",
            list_of(text),
            "messages to send after connecting, for instance subscriptions; often with keys",
            default=[],
            secret=True,
        ),
        DeclarationMember("subprotocol", text, "the requested subprotocol"),
        DeclarationMember("max_bytes", number(1, 1 << 30), "maximum bytes of a message", default=16 << 20),
        HEADERS,
        TOKEN,
        TIMEOUT,
    )
    guarantee = "each message enters at most once; messages sent while the source is disconnected are lost"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Check the declaration of a WebSocket source; raises InputError or NetworkRefusedError."""
        require_url(given["url"], hosts, PORTS)

    def run(self) -> None:
        """Push WebSocket messages into the stream until the connection ends."""
        given, url = self.given, self.given["url"]
        headers = headers_of(given)
        agent = headers.pop("User-Agent")
        subprotocol = given["subprotocol"]
        timeout = given["timeout"] / 1000
        address = urlsplit(url)
        try:
            # The source connects instead of the WebSocket library, so that no redirect leads to a host that
            # is not allowed.
            assert address.hostname is not None
            until = time.monotonic() + timeout
            sock = connect_by(
                address.hostname, address.port or PORTS[address.scheme], until, partial(self.context.sleep, 0)
            )
            with connect(
                url,
                sock=sock,
                additional_headers=headers,
                user_agent_header=agent,
                subprotocols=None if subprotocol is None else [subprotocol],
                open_timeout=max(0.1, until - time.monotonic()),
                max_size=given["max_bytes"],
                max_queue=_MOST_RECEIVED,
                proxy=None,
            ) as connection:
                for message in given["send"]:
                    connection.send(message)
                self.context.connected()
                while True:
                    self._push(self._waiting(connection))
        except InvalidStatus as error:
            status = error.response.status_code
            refused = ConnectorFailedError if status in FINAL else ConnectorError
            raise refused(f"<{url}> answered with status {status}, no WebSocket") from error
        except ConnectionClosed as error:
            code = None if error.rcvd is None else error.rcvd.code
            refused = ConnectorFailedError if code == _POLICY else ConnectorError
            raise refused(f"<{url}> has ended the connection: {error}") from error
        except (OSError, ValueError, WebSocketException) as error:
            raise ConnectorError(f"<{url}> cannot be reached: {error or type(error).__name__}") from error

    def _waiting(self, connection: ClientConnection) -> list[bytes]:
        """Wait for a WebSocket message; return it and those already received, up to `_BATCH_BYTES`."""
        found: list[bytes] = []
        size = 0
        while len(found) < self.given["batch"] and size < _BATCH_BYTES:
            try:
                message = connection.recv(timeout=0 if found else _LOOK_S)
            except TimeoutError:
                if found:
                    break
                self.context.sleep(0)
                continue
            except ConnectionClosed:
                if found:
                    break
                raise
            found.append(message.encode() if isinstance(message, str) else message)
            size += len(found[-1])
        return found

    def _push(self, messages: Sequence[bytes]) -> None:
        media_type = self.given["format"] or JSON
        self.context.push_messages([(Message(each), None) for each in messages], media_type)
