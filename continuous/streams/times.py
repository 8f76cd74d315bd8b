"""Instants and durations as clients write them: milliseconds, xsd:dateTime, ``2s``, ``PT10S``."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from ..errors import InputError

_INTEGER = re.compile(r"[+-]?\d{1,18}\Z", re.ASCII)
# xsd:date and xsd:dateTime; https://www.w3.org/TR/xmlschema11-2/#nt-tzFrag: at most 14 hours away.
_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(\.\d+)?)?(Z|[+-](?:0\d|1[0-3]):[0-5]\d|[+-]14:00)?\Z", re.ASCII
)
_UNIT_MS = {
    "ns": 1e-6,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|ms|s|m|h|d)", re.IGNORECASE)
_PARTS = re.compile(rf"(?:{_PART.pattern}\s*)+\Z", re.IGNORECASE)
_ISO = re.compile(r"P(?!\Z)(?:\d+D)?(?:T(?!\Z)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?\Z")
_LONGEST_DURATION = 200
_NUMBER = re.compile(r"[+-]?(?:\d{1,25}(?:\.\d{0,25})?|\.\d{1,25})(?:[eE][+-]?\d{1,2})?\Z", re.ASCII)
_PER_MS = {"s": Decimal("0.001"), "ms": Decimal(1), "us": Decimal(1000)}
_TIME_HINTS = {
    "iso": 'Send ISO 8601, such as "2024-05-01T12:00:00Z"',
    "s": "Send seconds since the epoch",
    "ms": "Send milliseconds since the epoch",
    "us": "Send microseconds since the epoch",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
# What NOW() can say and what logs and checkpoints hold in 64 bits: the years 1 to 9999.
LEAST_MS = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MS
GREATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS


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


INSTANT_HINT = 'Write integer milliseconds since the epoch or an xsd:dateTime such as "2024-05-01T12:00:00Z"'


def parse_instant(text: str) -> int | None:
    """Integer milliseconds, an xsd:dateTime or an xsd:date as milliseconds.

    None when it is none of them, or outside of the years 1 to 9999.
    """
    found = None
    if _INTEGER.match(text):
        found = int(text)
    elif match := _DATE_TIME.match(text):
        day, time, fraction, zone = match.groups("")
        next_day = time == "24:00:00"
        if next_day or not time:
            time = "00:00:00"
        try:
            moment = datetime.fromisoformat(f"{day}T{time}{fraction[:4]}{zone or 'Z'}")
            moment += timedelta(days=next_day)
        except (ValueError, OverflowError):
            return None
        found = (moment - _EPOCH) // _MS
    return found if found is not None and LEAST_MS <= found <= GREATEST_MS else None


def record_ms(value: Any, time_format: str | None, field: str) -> int:
    """The time in a field of a record, in milliseconds; fractions of one are cut off.

    Args:
        value: what stands there, None when it is missing.
        time_format: ``iso`` for ISO 8601, ``s``, ``ms`` or ``us`` for a number since the epoch; None: as
            `instant_ms`.
        field: its name.

    Raises:
        InputError: it is no time of this format, or outside of the years 1 to 9999.
    """
    if value is None:
        raise InputError(f"the field {field} of the event time is missing", code="no-time")
    if time_format is None:
        return instant_ms(value, f"the field {field}")
    text = value if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    found = _iso_ms(value) if time_format == "iso" else _number_ms(text.strip(), _PER_MS[time_format])
    if found is None or not LEAST_MS <= found <= GREATEST_MS:
        raise InputError(
            f"the field {field}: {json.dumps(value, default=str)} is no time of the format {time_format} "
            "in the years 1 to 9999",
            hint=_TIME_HINTS[time_format],
        )
    return found


def _iso_ms(value: Any) -> int | None:
    if not isinstance(value, str) or _INTEGER.match(value):
        return None
    text = value.strip()
    found = parse_instant(text)
    if found is None:
        try:
            moment = datetime.fromisoformat(text)
            found = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MS
        except (ValueError, OverflowError):
            return None
    return found


def _number_ms(text: str, per_ms: Decimal) -> int | None:
    """A number of units since the epoch, so many to a millisecond."""
    if not _NUMBER.match(text):
        return None
    try:
        return int((Decimal(text) / per_ms).to_integral_value(ROUND_FLOOR))
    except (ArithmeticError, OverflowError):
        return None


def duration_ms(value: Any, what: str, *, positive: bool = False) -> int:
    """A duration in milliseconds: integer milliseconds, ``2s``, ``1m30s`` or xsd:duration without months.

    Rounded up to whole milliseconds.

    Raises:
        InputError: the value is none of these, negative, or 0 where ``positive`` is asked for.
    """
    found = _duration(value)
    if found is None:
        raise InputError(
            f"{what} {value!r} is no duration", hint='Write "2s", "1m30s", "PT10S" or integer milliseconds'
        )
    if found < positive:
        raise InputError(f"{what} is {found} ms, it must be at least {int(positive)} ms")
    return found


def show_duration(ms: int) -> str:
    """Milliseconds in the largest unit that is exact."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def _duration(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _INTEGER.match(text):
        return int(text)
    if len(text) > _LONGEST_DURATION or not (_PARTS.match(text) or _ISO.match(text)):
        return None
    ms = sum(float(number) * _UNIT_MS[unit.lower()] for number, unit in _PART.findall(text))
    whole = round(ms)
    return whole if abs(ms - whole) < 1e-9 else int(ms) + 1


def format_instant(ms: int) -> str:
    """An instant for people: xsd:dateTime in UTC, milliseconds where it is out of a calendar's reach."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")
