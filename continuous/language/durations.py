"""Durations and instants of windows, in milliseconds (docs/language.md, "Durations")."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction

from . import syntax as s
from .context import Context

UNITS_NS = {"ns": 1, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
WORDS = {
    "nanosecond": "ns", "millisecond": "ms", "milli": "ms", "second": "s", "sec": "s",
    "minute": "m", "min": "m", "hour": "h", "hr": "h", "day": "d",
}  # fmt: skip
ISO = re.compile(
    r"P(?:(?P<Y>[\d.]+)Y)?(?:(?P<M>[\d.]+)M)?(?:(?P<W>[\d.]+)W)?(?:(?P<D>[\d.]+)D)?"
    r"(?:T(?:(?P<h>[\d.]+)H)?(?:(?P<m>[\d.]+)M)?(?:(?P<s>[\d.]+)S)?)?$",
    re.IGNORECASE,
)
GREATEST_MS = 2**53


def duration_ms(context: Context, text: s.DurationText, what: str) -> int:
    """Milliseconds, rounded up to a whole one with a warning. A fault, and 1, when it is none."""
    if text.words and context.dialect == "rspql":
        context.fault(
            "RSP-QL* writes durations as xsd:duration",
            text.at,
            f"Write {_iso_of(text)} instead of the words.",
        )
    nanoseconds = _nanoseconds(context, text)
    if nanoseconds is None:
        return 1
    written = _written(text)
    if nanoseconds <= 0:
        context.fault(f"{what} must be longer than 0, it is {written}", text.at)
        return 1
    if nanoseconds > GREATEST_MS * 10**6:
        context.fault(f"{what} of {written} is longer than the {GREATEST_MS} ms that can be counted", text.at)
        return 1
    milliseconds, rest = divmod(nanoseconds, 10**6)
    if rest:
        milliseconds += 1
        context.warn(f"{what} of {written} is rounded up to {int(milliseconds)} ms, the unit of event times.")
    return int(milliseconds)


def _nanoseconds(context: Context, text: s.DurationText) -> Fraction | None:
    total = Fraction(0)
    for number, unit in text.parts:
        if unit == "compact":
            for digits, suffix in re.findall(r"([\d.]+)(ns|ms|[smhd])", number):
                total += Fraction(digits) * UNITS_NS[suffix]
        elif unit:
            total += Fraction(number) * UNITS_NS[_unit(unit)]
        elif re.fullmatch(r"\d+", number):
            total += int(number) * UNITS_NS["ms"]
        else:
            part = _iso_nanoseconds(context, number, text.at)
            if part is None:
                return None
            total += part
    return total


def _unit(word: str) -> str:
    return word if word in UNITS_NS else WORDS.get(word.removesuffix("s"), "s")


def _iso_nanoseconds(context: Context, number: str, at: int) -> Fraction | None:
    found = ISO.match(number)
    if found is None or not any(found.groupdict().values()) or number.upper().endswith("T"):
        context.fault(
            f"{number} is not a duration", at, "Write 10s, 2m30s, PT10S, or a whole number of milliseconds."
        )
        return None
    parts = {name: Fraction(value) for name, value in found.groupdict().items() if value}
    if parts.get("Y") or parts.get("M"):
        context.fault(
            f"{number} has years or months, whose length is not fixed",
            at,
            "Write it in days, hours, minutes, seconds.",
        )
        return None
    factors = {
        "W": 7 * UNITS_NS["d"],
        "D": UNITS_NS["d"],
        "h": UNITS_NS["h"],
        "m": UNITS_NS["m"],
        "s": UNITS_NS["s"],
    }
    return sum((value * factors[name] for name, value in parts.items() if name in factors), Fraction(0))


def _written(text: s.DurationText) -> str:
    return " ".join(number if unit in ("", "compact") else f"{number} {unit}" for number, unit in text.parts)


def _iso_of(text: s.DurationText) -> str:
    parts = []
    for number, unit in text.parts:
        letter = _unit(unit)
        if letter in ("h", "m", "s"):
            parts.append(f"{number}{letter.upper()}")
        else:
            return "a duration such as PT10S"
    return "PT" + "".join(parts)


def instant_ms(context: Context, text: s.InstantText, string_value: str | None) -> int | None:
    """Milliseconds since the epoch of STARTING AT: a whole number or an xsd:dateTime (UTC without a zone)."""
    if string_value is None:
        assert isinstance(text.value, s.Number)
        if re.fullmatch(r"\d+", text.value.text):
            return int(text.value.text)
        context.fault(f"STARTING AT takes whole milliseconds, not {text.value.text}", text.at)
        return None
    if re.fullmatch(r"\d+", string_value):
        return int(string_value)
    try:
        moment = datetime.fromisoformat(string_value)
    except ValueError:
        context.fault(
            f"{string_value!r} is not a date and time",
            text.at,
            'Write "2013-01-01T00:00:00Z" or milliseconds.',
        )
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
