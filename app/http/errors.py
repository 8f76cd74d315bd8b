"""The error of an HTTP request, and the HTTP status of every error."""

from __future__ import annotations

from typing import Any

from quadrill.store import errors as store_errors
from quadrill.store.errors import ReportedError
from quadrill.store.quads.write_queue import PreconditionError

MEDIA_TYPE = "application/problem+json"


class HttpError(ReportedError):
    """An error in the processing of an HTTP request, with the status and the headers of the answer."""

    code = "request"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        version: int | None = None,
        **details: Any,
    ) -> None:
        """Make the error of an HTTP request; ``version`` is the store version for the header ETag."""
        super().__init__(message, hint=hint, code=code, **details)
        self.status = status
        self.headers = headers or {}
        self.version = version


# An error gets the HTTP status of its code in STATUS_OF_CODE, else of the first of its base classes that
# STATUS_OF_CLASS lists.
STATUS_OF_CLASS: dict[type[BaseException], int] = {
    store_errors.QueryTextError: 400,
    store_errors.UnsupportedError: 501,
    store_errors.RdfSyntaxError: 400,
    store_errors.LimitError: 400,
    store_errors.GoneError: 410,
    PreconditionError: 412,
    store_errors.ConflictError: 409,
    store_errors.NotFoundError: 404,
    store_errors.RefusedChangeError: 422,
    store_errors.UpdateError: 400,
    store_errors.StoreLockedError: 503,
    store_errors.StoreFormatError: 500,
    store_errors.FolderInUseError: 409,
    store_errors.StoreUnwritableError: 507,
    ReportedError: 400,
    store_errors.StoreError: 500,
}
STATUS_OF_CODE: dict[str, int] = {
    "body-too-large": 413,
    "result-too-large": 413,
    "back-pressure": 429,
    "idempotency-key-reused": 422,
    "idempotency-conflict": 422,
    "precondition-failed": 412,
    "gone": 410,
    "timeout": 503,
    "query-timeout": 503,
    "cancelled": 503,
    "closed": 503,
    "clock": 503,
    "read-only": 403,
    "host-not-allowed": 403,
}


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for an exception of an unknown class."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, ReportedError):
        status = getattr(error, "status", None) or STATUS_OF_CODE.get(error.code)
        if isinstance(status, int):
            return status
    for ancestor in type(error).__mro__:
        if ancestor in STATUS_OF_CLASS:
            return STATUS_OF_CLASS[ancestor]
    return 500
