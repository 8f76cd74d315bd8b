"""Check of the machine's clock: Oxigraph aborts the process if the clock is before 1970."""

from __future__ import annotations

import time

from ..errors import StoreError


class ClockError(StoreError):
    """The machine's clock is before 1970, so Oxigraph cannot evaluate a query."""

    code = "clock"


def is_after_epoch() -> bool:
    """Return True unless the wall clock is before 1970."""
    return time.time_ns() >= 0


def require_epoch() -> None:
    """Raise an error while the wall clock is before 1970; called right before each evaluation by Oxigraph.

    Raises: ClockError.
    """
    if time.time_ns() < 0:
        raise ClockError(
            "the clock of this machine is before 1970, so that no query can be evaluated",
            hint="Set the clock; nothing has to be restarted.",
        )
