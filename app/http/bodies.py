"""Request bodies: their limits and their encoding."""

from __future__ import annotations

from flask import request

from .errors import HttpError


def utf8(data: bytes, what: str) -> str:
    """Bytes as UTF-8 text, a byte order mark at the start dropped.

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
    """The error of a body that is over its limit."""
    said = f"{actual} bytes" if actual is not None else "more"
    return HttpError(413, f"{what} may have {limit} bytes, this one has {said}", code="body-too-large")


def limit_public_body(most: int) -> None:
    """Bound the body of a request that needs no token, whatever its form, length header or parser.

    Raises: HttpError 413 when the length is known and too large.
    """
    length = request.content_length
    if length is not None and length > most:
        raise too_large("a request without a token", most, length)
    # A chunked body has no length: werkzeug stops reading it here.
    request.max_content_length = most
