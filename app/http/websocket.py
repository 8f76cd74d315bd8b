"""The opening handshake of a WebSocket (RFC 6455, section 4.2)."""

from __future__ import annotations

import base64
import binascii

from wsproto.utilities import generate_accept_token

from .errors import HttpError
from .wire import HeaderFields

VERSION = "13"


def is_asked(fields: HeaderFields) -> bool:
    """True when a request asks for a WebSocket."""
    return _word(fields, "Upgrade").lower() == "websocket"


def handshake(fields: HeaderFields, *, method: str, body_length: int) -> bytes:
    """The head that opens the WebSocket.

    Raises: HttpError 400 for what is no handshake, 426 for another version of the protocol.
    """
    options = [each.strip().lower() for each in _word(fields, "Connection").split(",")]
    if method != "GET" or body_length or "upgrade" not in options:
        raise HttpError(400, "a WebSocket is opened by GET without a body, with Connection: Upgrade")
    if _word(fields, "Sec-WebSocket-Version") != VERSION:
        raise HttpError(
            426,
            f"WebSockets are spoken in version {VERSION} here",
            code="websocket-version",
            headers={"Sec-WebSocket-Version": VERSION, "Upgrade": "websocket"},
        )
    key = _word(fields, "Sec-WebSocket-Key")
    try:
        right = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        right = False
    if not right:
        raise HttpError(400, "Sec-WebSocket-Key is not 16 bytes in base64")
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {generate_accept_token(key.encode('ascii')).decode()}\r\n\r\n"
    ).encode("ascii")


def _word(fields: HeaderFields, name: str) -> str:
    return (fields.get(name) or "").strip()
