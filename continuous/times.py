"""Instants and durations that clients give, as JSON values or texts."""

from __future__ import annotations

import json
from typing import Any

from quadrill.store.documents.times import GREATEST_MS, LEAST_MS, parse_duration, parse_instant

from .errors import InputError

_TOO_LONG = 10**18
"""Milliseconds that nobody waits; the registry and the journal hold 64 bits."""
INSTANT_HINT = 'Write integer milliseconds since the epoch or an xsd:dateTime such as "2024-05-01T12:00:00Z"'


def instant_ms(value: Any, what: str) -> int:
    """An instant in milliseconds from integer milliseconds or an xsd:dateTime; no zone means UTC.

    Fractions of a millisecond are cut off.

    Raises:
        InputError: the value is neither, or outside of the years 1 to 9999; ``what`` names it in the message.
    """
    if isinstance(value, str):
        found = parse_instant(value.strip())
    else:
        found = value if type(value) is int and LEAST_MS <= value <= GREATEST_MS else None
    if found is None:
        shown = json.dumps(value) if isinstance(value, str | int | float) else repr(value)
        raise InputError(f"{what} {shown} is no instant in the years 1 to 9999", hint=INSTANT_HINT)
    return found


def duration_ms(value: Any, what: str, *, positive: bool = False) -> int:
    """A duration in milliseconds: integer milliseconds, ``2s``, ``1m30s`` or xsd:duration without months.

    Rounded up to whole milliseconds.

    Raises:
        InputError: the value is none of these, has 19 digits or more, is negative, or 0 where ``positive`` is
            asked for.
    """
    found = parse_duration(value.strip()) if isinstance(value, str) else value if type(value) is int else None
    if found is None or found >= _TOO_LONG:
        raise InputError(
            f"{what} {value!r} is no duration", hint='Write "2s", "1m30s", "PT10S" or integer milliseconds'
        )
    if found < positive:
        raise InputError(f"{what} is {found} ms, it must be at least {int(positive)} ms")
    return found
