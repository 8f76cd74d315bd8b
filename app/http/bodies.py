"""Readers of request bodies: size limits, decompression and UTF-8."""

from __future__ import annotations

import zlib
from typing import Protocol

from quadrill.store.network.unpacking import Unpacker

from .errors import HttpError
from .fields import Fields, LargeBody

_PIECE_BYTES = 1 << 16


class HasBody(Protocol):
    """The members of a `Request` that the readers of its body need."""

    fields: Fields
    headers: dict[str, str]
    body: bytes
    stream: LargeBody | None
    most_body_bytes: int


def utf8(data: bytes, what: str) -> str:
    """Decode a request body as UTF-8 and drop a byte order mark at the start.

    Raises: HttpError 400 with the place of the first byte that is not UTF-8.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise HttpError(
            400,
            f"{what} is not UTF-8: byte {error.start} cannot be read",
            code="not-utf-8",
            hint="Send it as UTF-8.",
        ) from error


def too_large(what: str, limit: int, actual: int | None) -> HttpError:
    """Return the HTTP error 413 for a request body over its size limit."""
    said = f"{actual} bytes" if actual is not None else "more"
    return HttpError(413, f"{what} may have {limit} bytes, this one has {said}", code="body-too-large")


def check_announced(request: HasBody, limit: int, what: str) -> int:
    """Reject a request whose Content-Length is over the size limit.

    Returns: the size limit of the request body, which is smaller for a request that needs no token.

    Raises: HttpError 413.
    """
    if request.most_body_bytes:
        limit = min(limit, request.most_body_bytes)
    length = request.fields.body_length
    if length > limit:
        raise too_large(what, limit, length)
    return limit


def read_body(request: HasBody, limit: int, what: str) -> bytes:
    """Return the decompressed body of a request with at most ``limit`` bytes."""
    limit = check_announced(request, limit, what)
    stream, coding = request.stream, request.headers.get("Content-Encoding")
    unpacker = None if coding is None else _unpacker(coding.strip().lower())
    if stream is None and unpacker is None:
        if len(request.body) > limit:
            raise too_large(what, limit, None)
        return request.body
    # The request body grows in one block of memory. Many small blocks of memory would stay in the C library's
    # arena of the thread after they are freed.
    body = bytearray()
    pieces = [request.body] if stream is None else iter(lambda: stream.read(_PIECE_BYTES), b"")
    for piece in pieces:
        try:
            body += unpacker.unpack(piece or b"", limit - len(body) + 1) if unpacker else piece or b""
        except zlib.error as error:
            raise HttpError(
                400, f"{what} says it is packed but cannot be unpacked", code="bad-encoding"
            ) from error
        if len(body) > limit:
            raise too_large(what, limit, None)
    if unpacker and not unpacker.complete and body:
        raise HttpError(400, f"{what} is packed and ends early", code="bad-encoding")
    return bytes(body)


def _unpacker(encoding: str) -> Unpacker | None:
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpError(
            415,
            f"bodies packed as {encoding} are not read here",
            code="unsupported-encoding",
            hint="Send the body as it is, or packed with gzip.",
            headers={"Accept-Encoding": "gzip, deflate"},
        )
    return Unpacker()
