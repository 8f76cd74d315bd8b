"""The errors of continuous queries and streams. The root and the shared ones are in ``store/errors.py``."""

from __future__ import annotations

from typing import Any

from quadrill.store.errors import LimitError, ReportedError


class BackPressureError(ReportedError):
    """The queues are full: HTTP 429. ``retry_after`` in seconds."""

    code = "back-pressure"
    status = 429
    retry_after = 1.0


class FeedGoneError(ReportedError):
    """The query was dropped, its feed has ended: HTTP 204 until the name is taken again."""

    code = "feed-gone"
    status = 204


class EngineStoppedError(ReportedError):
    """The engine is not running (it is shutting down, or its thread ended): HTTP 503."""

    code = "closed"
    status = 503


class StartingError(ReportedError):
    """The engine still replays its journal: HTTP 503. ``retry_after`` in seconds."""

    code = "starting"
    status = 503
    retry_after = 2.0

    def __init__(self) -> None:
        super().__init__(
            "the server is starting: its journal is still being replayed",
            hint="GET /health/ready tells how far it is; queries can be paused and dropped meanwhile.",
        )


class BudgetError(LimitError):
    """A continuous query costs more than it may, or its evaluation was called off: it fails alone.

    ``where`` is the operator that it came to; ``again`` says that it fails there whenever it is repeated.
    """

    def __init__(self, message: str, *, where: Any = None, again: bool = True, **details: Any) -> None:
        super().__init__(message, **details)
        self.where = where
        self.again = again


def reason_of(error: Exception) -> tuple[str, str]:
    """Why a query has failed, in words, and the code of that."""
    if isinstance(error, ReportedError):
        return error.message, error.code
    return f"{type(error).__name__}: {error}", "internal"
