"""The machine's clock as far as Oxigraph depends on it: before 1970 its evaluation aborts the process."""

from __future__ import annotations

import time

from ..errors import StoreError


class ClockError(StoreError):
    """The machine's clock is before 1970, so that nothing can be evaluated by Oxigraph."""

    code = "clock"


def is_after_epoch() -> bool:
    """True unless the wall clock is before 1970."""
    return time.time_ns() >= 0


def require_epoch() -> None:
    """Refuse to evaluate a text while the wall clock is before 1970; called right before Oxigraph is.

    Raises: ClockError.
    """
    if time.time_ns() < 0:
        raise ClockError(
            "the clock of this machine is before 1970, so that no query can be evaluated",
            hint="Set the clock; nothing has to be restarted.",
        )
