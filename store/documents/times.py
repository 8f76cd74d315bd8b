"""Parsing and formatting of instants and durations; the only module with units of time."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

from quadrill.store.errors import InputError

INTEGER = re.compile(r"[+-]?\d{1,18}\Z", re.ASCII)
# Expression for xsd:date, xsd:dateTime and RFC 3339, section 5.6, which allows lower case and a space. Data
# frames write the space, polars also time zones without a colon. https://www.w3.org/TR/xmlschema11-2/#nt-tzFrag:
# time zones are at most 14 hours away.
_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d)(\.\d+)?)?"
    r"([Zz]|[+-](?:0\d|1[0-3]):?[0-5]\d|[+-]14:?00)?\Z",
    re.ASCII,
)
UNITS_NS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
_WORDS = {
    "nanosecond": "ns", "millisecond": "ms", "milli": "ms", "second": "s", "sec": "s",
    "minute": "m", "min": "m", "hour": "h", "hr": "h", "day": "d",
}  # fmt: skip
COMPACT_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|ms|s|m|h|d)", re.IGNORECASE)
_PARTS = re.compile(rf"(?:{COMPACT_PART.pattern}\s*)+\Z", re.IGNORECASE)
_ISO = re.compile(r"P(?!\Z)(?:\d+D)?(?:T(?!\Z)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?\Z")
# An xsd:duration of a query text; the expression accepts years and months so that the error can name them.
_NUMBER = r"\d+\.?\d*|\.\d+"
_ISO_OF_TEXTS = re.compile(
    rf"P(?:(?P<years>{_NUMBER})Y)?(?:(?P<months>{_NUMBER})M)?(?:(?P<weeks>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?$",
    re.IGNORECASE,
)
LONGEST_DURATION = 200
"""Maximum number of characters of a duration's text."""
_TOO_LONG = 10**18
"""Number of milliseconds from which a duration is refused, because registry and journal store 64 bits."""
INSTANT_HINT = 'Write integer milliseconds since the epoch or an xsd:dateTime such as "2024-05-01T12:00:00Z"'
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
# The years 1 to 9999 are those of instants that NOW() can return and logs can store.
LEAST_MS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MS
GREATEST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MS


def parse_instant(text: str) -> int | None:
    """Parse integer milliseconds, an xsd:dateTime, RFC 3339 text or an xsd:date to milliseconds since 1970.

    A time without a time zone is in UTC. Return None if the text is not such a time, or outside of the years
    1 to 9999.
    """
    milliseconds = None
    if INTEGER.match(text):
        milliseconds = int(text)
    elif match := _DATE_TIME.match(text):
        day, time, fraction, zone = match.groups("")
        next_day = time == "24:00:00"
        if next_day or not time:
            time = "00:00:00"
        try:
            moment = datetime.fromisoformat(f"{day}T{time}{fraction[:4]}{zone.upper() or 'Z'}")
            moment += timedelta(days=next_day)
        except (ValueError, OverflowError):
            return None
        milliseconds = (moment - EPOCH) // MS
    return milliseconds if milliseconds is not None and LEAST_MS <= milliseconds <= GREATEST_MS else None


def instant_ms(value: Any, what: str) -> int:
    """Return a given value (integer, or text as `parse_instant` reads it) as an instant in milliseconds.

    Fractions of a millisecond of an instant are cut off.

    Raises:
        InputError: the value is no such instant, or outside of the years 1 to 9999; ``what`` names it in the
            message.
    """
    if isinstance(value, str):
        milliseconds = parse_instant(value.strip())
    else:
        milliseconds = value if type(value) is int and LEAST_MS <= value <= GREATEST_MS else None
    if milliseconds is None:
        shown = json.dumps(value) if isinstance(value, str | int | float) else repr(value)
        raise InputError(f"{what} {shown} is no instant in the years 1 to 9999", hint=INSTANT_HINT)
    return milliseconds


def format_instant(ms: int) -> str:
    """Return an instant as xsd:dateTime in UTC, or as milliseconds outside of the years 1 to 9999."""
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")


def parse_duration(text: str) -> int | None:
    """Parse a text to a duration in milliseconds, rounded up; None if the text is not a duration."""
    if INTEGER.match(text):
        return int(text)
    if len(text) > LONGEST_DURATION or not (_PARTS.match(text) or _ISO.match(text)):
        return None
    return ceil(
        sum(Fraction(number) * UNITS_NS[unit.lower()] for number, unit in COMPACT_PART.findall(text)) / 10**6
    )


def iso_ns(text: str) -> Fraction | None:
    """Return an xsd:duration in nanoseconds, weeks and fractions included; None for another text.

    Raises:
        ValueError: the duration has years or months, whose length is not fixed.
    """
    match = _ISO_OF_TEXTS.match(text)
    if match is None or not any(match.groups()) or text[-1] in "Tt":
        return None
    parts = {name: Fraction(value) for name, value in match.groupdict().items() if value}
    weeks = parts.pop("weeks", Fraction())
    if parts.pop("years", 0) or parts.pop("months", 0):
        raise ValueError(text)
    return sum((value * UNITS_NS[unit] for unit, value in parts.items()), 7 * weeks * UNITS_NS["d"])


def unit_named(word: str) -> str:
    """Return the short time unit of a word such as ``minutes``; ``s`` for an unknown word."""
    return word if word in UNITS_NS else _WORDS.get(word.removesuffix("s"), "s")


def duration_ms(value: Any, what: str, *, positive: bool = False) -> int:
    """Return a duration, such as integer milliseconds, ``2s``, ``1m30s`` or an xsd:duration, in milliseconds.

    The duration is rounded up to whole milliseconds. Durations with years and months are refused.

    Raises:
        InputError: the value is no duration, has 19 digits or more, is negative, or 0 where ``positive`` is
            asked for.
    """
    milliseconds = (
        parse_duration(value.strip()) if isinstance(value, str) else value if type(value) is int else None
    )
    if milliseconds is None or milliseconds >= _TOO_LONG:
        raise InputError(
            f"{what} {value!r} is no duration", hint='Write "2s", "1m30s", "PT10S" or integer milliseconds'
        )
    if milliseconds < positive:
        raise InputError(f"{what} is {milliseconds} ms, it must be at least {int(positive)} ms")
    return milliseconds


def readable_duration(ms: int) -> str:
    """Return a number of milliseconds for messages, exact, in all units: ``1 h 30 min``."""
    parts = units_of(ms)
    if not parts:
        return "0 s"
    return " ".join(f"{count} {'min' if unit == 'm' else unit}" for unit, count in parts.items())


def show_duration(ms: int) -> str:
    """Return a number of milliseconds as text in the largest exact unit."""
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(ms * 10**6, UNITS_NS[unit])
        if ms and not rest:
            return f"{count}{unit}"
    return f"{ms}ms"


def units_of(ms: int) -> dict[str, int]:
    """Return milliseconds as days, hours, minutes, seconds and milliseconds, without units that are zero."""
    parts, rest = {}, ms * 10**6
    for unit in ("d", "h", "m", "s", "ms"):
        parts[unit], rest = divmod(rest, UNITS_NS[unit])
    return {unit: count for unit, count in parts.items() if count}
