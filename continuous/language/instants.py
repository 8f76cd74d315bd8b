"""Conversion of the instant in STARTING AT to milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from . import syntax as s
from .context import Context


def instant_ms(context: Context, text: s.InstantText, string_value: str | None) -> int | None:
    """Convert a whole number or an xsd:dateTime (UTC if it has no time zone) to milliseconds since 1970."""
    if string_value is None:
        assert isinstance(text.value, s.Number)
        if re.fullmatch(r"\d{1,18}", text.value.text):
            return int(text.value.text)
        context.fault(f"STARTING AT takes whole milliseconds, not {text.value.text}", text.at)
        return None
    if re.fullmatch(r"\d{1,18}", string_value):
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
