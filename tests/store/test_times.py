"""Instants and durations as clients write them."""

from __future__ import annotations

import pytest

from quadrill.store.documents.times import (
    duration_ms,
    format_instant,
    instant_ms,
    parse_instant,
    readable_duration,
)
from quadrill.store.errors import InputError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1714564800000", 1714564800000),
        ("-5", -5),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T00:00:00.1239Z", 123),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:00:00-02:00", 0),
        ("1970-01-01T24:00:00Z", 86_400_000),
        ("1970-01-02", 86_400_000),
        ("2024-02-29T12:00:00Z", 1709208000000),
        ("2024-02-29 12:00:00", 1709208000000),
        ("2024-02-29 12:00:00+00:00", 1709208000000),
        ("2024-02-29 14:00:00.250000000+02:00", 1709208000250),
        ("2024-02-29t12:00:00z", 1709208000000),
        ("2024-02-29T12:00:00.500000+0000", 1709208000500),
        ("2024-02-29 12:00:00.000000000Z", 1709208000000),
    ],
)
def test_an_instant_is_read(text: str, ms: int) -> None:
    assert parse_instant(text) == ms
    assert instant_ms(text, "at") == ms


@pytest.mark.parametrize(
    "text",
    ["", "now", "2024-13-01T00:00:00Z", "2023-02-29T00:00:00Z", "1970-01-01T25:00:00Z", "1.5",
     "2024-01-01T00:00:00+99:99", "2024-01-01T00:00:00+14:01", "2024-01-01T00:00:00+1401",
     "2024-01-01  00:00:00", "2024-01-01T00:00", "2024-01-01\t00:00:00", "\u0661\u0662"],
)  # fmt: skip
def test_what_is_no_instant_is_refused_with_a_hint(text: str) -> None:
    assert parse_instant(text) is None
    with pytest.raises(InputError) as caught:
        instant_ms(text, "at of line 3")
    assert "at of line 3" in caught.value.message
    assert caught.value.hint is not None and "xsd:dateTime" in caught.value.hint


def test_booleans_and_floats_are_no_instants() -> None:
    for value in (True, 1.5, None, [1]):
        with pytest.raises(InputError):
            instant_ms(value, "at")
    with pytest.raises(InputError, match="at true is no instant"):
        instant_ms(True, "at")


def test_the_years_1_to_9999_are_the_ends_of_time() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    for value in (first, last, str(first), "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"):
        assert first <= instant_ms(value, "at") <= last
    beyond = "0001-01-01T00:00:00+01:00"
    for value in (first - 1, last + 1, -(10**30), 10**30, str(last + 1), "9" * 30, beyond):
        with pytest.raises(InputError, match="no instant in the years 1 to 9999"):
            instant_ms(value, "at")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("2s", 2000), (250, 250), ("250", 250), ("1m30s", 90_000), ("PT10S", 10_000), ("P1DT1H", 90_000_000),
     ("1 h", 3_600_000), ("0.5s", 500), ("100ns", 1), ("PT0.0001S", 1), ("1.1s", 1100)],
)  # fmt: skip
def test_a_duration_is_read(text: object, ms: int) -> None:
    assert duration_ms(text, "lateness") == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2 parsecs",
        "P",
        "PT",
        "P1M",
        "-2s",
        -1,
        True,
        None,
        "1s x",
        "9" * 30 + "s",
        "9" * 25 + "ms",
        10**18,
    ],
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(InputError):
        duration_ms(text, "lateness")


def test_instants_are_shown_in_utc() -> None:
    assert format_instant(1500) == "1970-01-01T00:00:01.500Z"
    assert format_instant(-1000) == "1969-12-31T23:59:59Z"
    assert format_instant(10**18) == "1000000000000000000 ms"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (1, "1 ms"), (5_000, "5 s"), (5_400_000, "1 h 30 min"), (86_400_000, "1 d"),
     (90_061_001, "1 d 1 h 1 min 1 s 1 ms")],
)  # fmt: skip
def test_a_duration_in_a_message_is_exact_and_readable(ms: int, text: str) -> None:
    assert readable_duration(ms) == text
