"""Event times of records, in the time formats that a mapping can declare."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from quadrill.store.documents.times import (
    EPOCH,
    GREATEST_MS,
    INTEGER,
    LEAST_MS,
    MS,
    UNITS_NS,
    instant_ms,
    parse_instant,
)
from quadrill.store.errors import InputError

_NUMBER = re.compile(r"[+-]?(?:\d{1,25}(?:\.\d{0,25})?|\.\d{1,25})(?:[eE][+-]?\d{1,2})?\Z", re.ASCII)
_TIME_HINTS = {
    "iso": 'Send ISO 8601, such as "2024-05-01T12:00:00Z"',
    "s": "Send seconds since the epoch",
    "ms": "Send milliseconds since the epoch",
    "us": "Send microseconds since the epoch",
}


def record_ms(value: Any, time_format: str | None, field: str) -> int:
    """Convert the value of a record's time field to milliseconds since 1970, rounded down.

    Args:
        value: the value of the time field, None if the record has no such field.
        time_format: ``iso`` for ISO 8601; ``s``, ``ms`` or ``us`` for a number since 1970; None for the forms
            that `instant_ms` accepts.
        field: the name of the field, for error messages.

    Raises:
        InputError: the value is missing, has another format, or is outside of the years 1 to 9999.
    """
    if value is None:
        raise InputError(f"the field {field} of the event time is missing", code="no-time")
    if time_format is None:
        return instant_ms(value, f"the field {field}")
    text = value if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    found = _iso_ms(value) if time_format == "iso" else _number_ms(text.strip(), UNITS_NS[time_format])
    if found is None or not LEAST_MS <= found <= GREATEST_MS:
        raise InputError(
            f"the field {field}: {json.dumps(value, default=str)} is no time of the format {time_format} "
            "in the years 1 to 9999",
            hint=_TIME_HINTS[time_format],
        )
    return found


def _iso_ms(value: Any) -> int | None:
    if not isinstance(value, str) or INTEGER.match(value):
        return None
    text = value.strip()
    found = parse_instant(text)
    if found is None:
        try:
            moment = datetime.fromisoformat(text)
            found = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MS
        except (ValueError, OverflowError):
            return None
    return found


def _number_ms(text: str, unit_ns: int) -> int | None:
    """Convert a count of units of ``unit_ns`` nanoseconds to milliseconds; None if ``text`` is no number."""
    if not _NUMBER.match(text):
        return None
    try:
        return int((Decimal(text) * unit_ns / 10**6).to_integral_value(ROUND_FLOOR))
    except (ArithmeticError, OverflowError):
        return None
