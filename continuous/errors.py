"""The errors of continuous queries and streams; ``store/errors.py`` has the shared ones."""

from __future__ import annotations

from typing import Any

from quadrill.store.errors import LimitError, ReportedError


class BackPressureError(ReportedError):
    """The queue of inputs is full: HTTP 429.

    ``retry_after`` is the number of seconds after which the client may retry.
    """

    code = "back-pressure"
    status = 429
    retry_after = 1.0


class FeedGoneError(ReportedError):
    """The query was dropped and its feed has ended: HTTP 204, until a new query has the name."""

    code = "feed-gone"
    status = 204


class EngineStoppedError(ReportedError):
    """The engine is not running, because it is stopping or its thread has ended: HTTP 503."""

    code = "closed"
    status = 503


class StartingError(ReportedError):
    """The engine is still replaying its journal: HTTP 503.

    ``retry_after`` is the number of seconds after which the client may retry.
    """

    code = "starting"
    status = 503
    retry_after = 2.0

    def __init__(self) -> None:
        super().__init__(
            "the server is starting: its journal is still being replayed",
            hint="GET /health/ready returns the progress; meanwhile queries can be paused and dropped.",
        )


class BudgetError(LimitError):
    """A continuous query exceeded a limit, or its evaluation was cancelled; only this query fails.

    ``where`` is the operator in which the query's limit was exceeded. ``again`` is True if a replay would
    exceed the limit at the same place.
    """

    def __init__(self, message: str, *, where: Any = None, again: bool = True, **details: Any) -> None:
        super().__init__(message, **details)
        self.where = where
        self.again = again


def reason_of(error: Exception) -> tuple[str, str]:
    """Return the message and the error code for a query that has failed with ``error``."""
    if isinstance(error, ReportedError):
        return error.message, error.code
    return f"{type(error).__name__}: {error}", "internal"
