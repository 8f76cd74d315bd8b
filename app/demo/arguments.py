"""Command line arguments of ``quadrill demo``."""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime

SUMMARY = "run the server on a week of real flights"
# The replay starts at 05:00 in New York on 6 January 2013, when the first flights leave in poor visibility.
DEFAULT_FROM = "2013-01-06T10:00:00Z"
DEFAULT_SPEED = 2400.0
DEFAULT_BROKER = "mqtt://127.0.0.1:1883"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``quadrill demo`` to its parser."""
    parser.add_argument(
        "--speed", metavar="X", type=_positive, default=DEFAULT_SPEED,
        help=f"event seconds per wall second (default {DEFAULT_SPEED:.0f})",
    )  # fmt: skip
    parser.add_argument(
        "--from", metavar="TIME", dest="start_ms", type=instant, default=instant(DEFAULT_FROM),
        help=f"event time to start from, an xsd:dateTime or milliseconds (default {DEFAULT_FROM})",
    )  # fmt: skip
    add = parser.add_argument
    add(
        "--source",
        choices=("http", "mqtt"),
        default="http",
        help="how elements are sent to the server (default http)",
    )
    add("--broker", metavar="URL", default=DEFAULT_BROKER,
        help=f"with --source mqtt: the MQTT broker (default {DEFAULT_BROKER})")  # fmt: skip
    add("--seconds", metavar="N", type=_positive, help="end after N seconds of replay")
    add(
        "--once", action="store_true", help="end after one round (default: repeat the round with later times)"
    )
    add("--port", metavar="P", type=int, help="port to listen on (default 7878, 0 for a free one)")
    add("--data", metavar="DIR", help="data folder (default: a temporary one)")


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return number


def instant(text: str) -> int:
    """Convert an xsd:dateTime (in UTC if it has no zone) or a number of milliseconds to ms since 1970."""
    try:
        if text.isdigit():
            moment = datetime.fromtimestamp(int(text) / 1000, UTC)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2013-01-06T10:00:00Z or milliseconds since the epoch"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
