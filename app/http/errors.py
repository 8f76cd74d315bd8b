"""Every error becomes one JSON shape: ``application/problem+json`` (RFC 9457).

    {"type": "urn:quadrill:problem:unknown-stream", "title": "Not Found", "status": 404, "detail": "…",
     "code": "unknown-stream", "hint"?: "…", "line"?, "column"?, "excerpt"?, "faults"?: […], …}

An error that nobody foresaw is a 500 with a number under which the log has the stack trace; the client never
sees one.
"""

from __future__ import annotations

import json
import logging
import secrets
import traceback
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from quadrill.store import errors as store_errors
from quadrill.store.errors import QuadrillError
from quadrill.store.quads.writer import PreconditionError

log = logging.getLogger("quadrill.app")

MEDIA_TYPE = "application/problem+json"


class HttpError(QuadrillError):
    """An error of the request itself, with its HTTP status and further headers."""

    code = "request"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, hint=hint, code=code, **details)
        self.status = status
        self.headers = headers or {}


# The first class of an error's ancestry that is listed decides; a code listed in STATUS_OF_CODE goes first.
STATUS_OF_CLASS: dict[type[BaseException], int] = {
    store_errors.QueryTextError: 400,
    store_errors.UnsupportedError: 501,
    store_errors.RdfSyntaxError: 400,
    store_errors.LimitError: 400,
    store_errors.GoneError: 410,
    PreconditionError: 412,
    store_errors.ConflictError: 409,
    store_errors.NotFoundError: 404,
    store_errors.UpdateError: 400,
    store_errors.StoreLockedError: 503,
    store_errors.StoreFormatError: 500,
    store_errors.FolderInUseError: 409,
    store_errors.StoreUnwritableError: 507,
    QuadrillError: 400,
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
    """The HTTP status of an error; 500 for one that is not ours."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, QuadrillError):
        status = getattr(error, "status", None) or STATUS_OF_CODE.get(error.code)
        if isinstance(status, int):
            return status
    for ancestor in type(error).__mro__:
        if ancestor in STATUS_OF_CLASS:
            return STATUS_OF_CLASS[ancestor]
    return 500


def problem(error: BaseException) -> dict[str, Any]:
    """The problem document of an error."""
    if isinstance(error, HTTPException):
        return _of_werkzeug(error)
    if isinstance(error, MemoryError):
        # Without its frames: they hold what filled the memory.
        traceback.clear_frames(error.__traceback__)
        error = HttpError(
            507,
            "the request needs more memory than there is",
            code="out-of-memory",
            hint="Send or ask for less.",
        )
    if not isinstance(error, QuadrillError):
        return _unexpected(error)
    status = status_of(error)
    document: dict[str, Any] = {
        "type": f"urn:quadrill:problem:{error.code}",
        "title": _title(status),
        "status": status,
        "detail": error.message,
        "code": error.code,
    }
    for name in ("line", "column", "excerpt"):
        value = getattr(error, name, None)
        if value is not None:
            document[name] = value
    if error.hint:
        document["hint"] = error.hint
    faults = getattr(error, "faults", ())
    if faults:
        document["faults"] = list(faults)
    for name, value in error.details.items():
        if value is not None:
            document.setdefault(name, value)
    return document


def problem_response(error: BaseException) -> Response:
    """The HTTP response of an error, with the headers that its status requires."""
    document = problem(error)
    response = Response(
        json.dumps(document, ensure_ascii=False, default=str) + "\n", status=document["status"]
    )
    response.headers["Content-Type"] = MEDIA_TYPE
    response.headers["Cache-Control"] = "no-store"
    if isinstance(error, HttpError):
        response.headers.update(error.headers)
    retry_after = getattr(error, "retry_after", None)
    if document["status"] in (429, 503):
        response.headers.setdefault("Retry-After", str(max(1, round(retry_after))) if retry_after else "1")
    if isinstance(error, HTTPException):
        for name, value in error.get_headers():
            if name.lower() in ("allow", "www-authenticate", "retry-after"):
                response.headers[name] = value
    return response


def install(app: Flask) -> None:
    """Make every error of ``app`` a problem document."""

    @app.errorhandler(Exception)
    def _answer(error: Exception) -> Response:
        if isinstance(error, RequestRedirect):
            return error.get_response(request.environ)  # type: ignore[return-value]
        return problem_response(error)


def _of_werkzeug(error: HTTPException) -> dict[str, Any]:
    status = error.code or 500
    details = {
        404: f"there is no resource at {request.path}",
        405: f"{request.method} is not possible at {request.path}",
        413: "the request body is larger than the server takes",
    }
    codes = {404: "no-such-resource", 405: "method-not-allowed", 413: "body-too-large", 400: "bad-request"}
    detail = details.get(status) or str(error.description or _title(status))
    code = codes.get(status, "http")
    return {
        "type": f"urn:quadrill:problem:{code}",
        "title": _title(status),
        "status": status,
        "detail": detail,
        "code": code,
    }


def _unexpected(error: BaseException) -> dict[str, Any]:
    incident = secrets.token_hex(4)
    log.error("unexpected error %s", incident, exc_info=error)
    return {
        "type": "urn:quadrill:problem:internal",
        "title": _title(500),
        "status": 500,
        "detail": f"the server met an error that it did not expect; its log has it under {incident}",
        "code": "internal",
        "incident": incident,
    }


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
