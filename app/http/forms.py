"""Query strings and form bodies: percent-decoded fields (https://url.spec.whatwg.org/#urlencoded-parsing)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote_to_bytes

from .errors import HttpError

_MAX_FIELDS = 10_000
_PIECE_BYTES = 1 << 16


def fields_of(data: bytes) -> tuple[tuple[str, str], ...]:
    """Return the percent-decoded fields of a query string or a form as pairs of name and value.

    Raises: HttpError 400 when the form fields are not UTF-8 or too many.
    """
    try:
        if len(data) > _PIECE_BYTES:
            return tuple(_large_fields(data))
        text = data.decode("ascii") if data.isascii() else data.decode("utf-8")
        return tuple(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS))
    except UnicodeDecodeError as error:
        raise HttpError(400, "the parameters are not UTF-8", code="not-utf-8") from error
    except ValueError as error:
        raise HttpError(
            400, f"the request has more than {_MAX_FIELDS} parameters", code="parameter"
        ) from error


def _large_fields(data: bytes, piece_bytes: int = _PIECE_BYTES) -> Iterator[tuple[str, str]]:
    """Parse a form like ``parse_qsl``, which needs 80 times its size, but decode long fields in pieces."""
    if data.count(b"&") >= _MAX_FIELDS:
        raise ValueError("too many fields")
    for field in data.split(b"&"):
        if field:
            name, _, value = field.partition(b"=")
            yield _decoded(name, piece_bytes), _decoded(value, piece_bytes)


def _decoded(text: bytes, piece_bytes: int) -> str:
    found, at = bytearray(), 0
    while at < len(text):
        end = at + piece_bytes
        # a piece ends before a percent escape, not within it
        cut = text.rfind(b"%", max(at + 1, end - 2), end)
        end = cut if cut > 0 else end
        found += unquote_to_bytes(text[at:end].replace(b"+", b" "))
        at = end
    return found.decode("utf-8")
