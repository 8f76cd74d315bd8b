"""Problem documents: the JSON form of every error, ``application/problem+json`` (RFC 9457).

    {"type": "urn:quadrill:problem:unknown-stream", "title": "Not Found", "status": 404, "detail": "…",
     "code": "unknown-stream", "hint"?: "…", "line"?, "column"?, "excerpt"?, "faults"?: […], …}

An unexpected error of the server gets status 500 and an incident number. The server's log has the stack trace
of an unexpected error under its incident number; clients never see a stack trace.
"""

from __future__ import annotations

import json
import logging
import secrets
import traceback
from http import HTTPStatus
from typing import Any

from quadrill.store.errors import ReportedError

from .answers import WholeAnswer
from .errors import MEDIA_TYPE, HttpError, status_of

log = logging.getLogger("quadrill.app")


def problem(error: BaseException) -> dict[str, Any]:
    """Return the problem document of an error; log an unexpected error."""
    if isinstance(error, MemoryError):
        # The stack frames of a memory error are cleared, because they refer to the objects that filled the
        # memory.
        traceback.clear_frames(error.__traceback__)
        error = HttpError(
            507,
            "the request needs more memory than there is",
            code="out-of-memory",
            hint="Send or ask for less.",
        )
    if not isinstance(error, ReportedError):
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


def problem_answer(error: BaseException) -> WholeAnswer:
    """Return the HTTP answer for an error, with the headers that its status requires."""
    document = problem(error)
    status: int = document["status"]
    headers = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
    version = None
    if isinstance(error, HttpError):
        headers |= error.headers
        version = error.version
    if status in (429, 503):
        retry_after = getattr(error, "retry_after", None)
        headers.setdefault("Retry-After", str(max(1, round(retry_after))) if retry_after else "1")
    body = json.dumps(document, ensure_ascii=False, default=str) + "\n"
    # A text may quote half of a surrogate pair, which JSON can write only as an escape.
    return WholeAnswer(status, headers, body.encode(errors="backslashreplace"), version)


def _unexpected(error: BaseException) -> dict[str, Any]:
    incident = secrets.token_hex(4)
    log.error("unexpected error %s", incident, exc_info=error)
    return {
        "type": "urn:quadrill:problem:internal",
        "title": _title(500),
        "status": 500,
        "detail": f"unexpected error in the server; the log of the server describes it under {incident}",
        "code": "internal",
        "incident": incident,
    }


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
