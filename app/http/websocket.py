"""The opening handshake of a WebSocket (RFC 6455, section 4.2)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from wsproto.utilities import generate_accept_token

from .errors import HttpError

VERSION = "13"


def is_asked(fields: Mapping[str, str]) -> bool:
    """Return True if the header Upgrade of a request asks for a WebSocket."""
    return _word(fields, "Upgrade").lower() == "websocket"


def is_opened(fields: Mapping[str, str]) -> bool:
    """Return True if the headers Upgrade and Connection of a request both ask for a WebSocket."""
    return is_asked(fields) and "upgrade" in _options(fields)


def handshake(fields: Mapping[str, str], *, method: str, body_length: int) -> dict[str, str]:
    """Return the headers of the answer, with status 101, that opens the WebSocket.

    Raises: HttpError 400 for an invalid handshake, 426 for another version of the protocol.
    """
    if method != "GET" or body_length or "upgrade" not in _options(fields):
        raise HttpError(400, "a WebSocket is opened by GET without a body, with Connection: Upgrade")
    if _word(fields, "Sec-Websocket-Version") != VERSION:
        raise HttpError(
            426,
            f"WebSockets are spoken in version {VERSION} here",
            code="websocket-version",
            headers={"Sec-WebSocket-Version": VERSION, "Upgrade": "websocket"},
        )
    key = _word(fields, "Sec-Websocket-Key")
    try:
        right = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        right = False
    if not right:
        raise HttpError(400, "Sec-WebSocket-Key is not 16 bytes in base64")
    accepted = generate_accept_token(key.encode("ascii")).decode()
    return {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accepted}


def _options(fields: Mapping[str, str]) -> list[str]:
    return [each.strip().lower() for each in _word(fields, "Connection").split(",")]


def _word(fields: Mapping[str, str], name: str) -> str:
    return (fields.get(name) or "").strip()
