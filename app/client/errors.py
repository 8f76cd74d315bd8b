"""The exception of the client, for error responses and failed connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class QuadrillError(Exception):
    """Error that the server rejected a request, or that the server could not be reached.

    Attributes:
        status: HTTP status; None without a response.
        code: error code of the server (docs/errors.md), ``unreachable`` without a response, or ``error`` for
            a response without an error code.
        message: description of the error in one sentence.
        hint: advice how to correct the request, or None.
        retry_after: seconds before a retry as the server requests, or None if the server names no time.
        problem: complete problem document (RFC 9457), with ``line``, ``column`` and ``excerpt`` of texts.
    """

    def __init__(
        self, message: str, *, status: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        self.problem = dict(problem or {})
        self.status = status
        self.code = str(self.problem.get("code", "unreachable" if status is None else "error"))
        self.message = message
        self.retry_after: float | None = None
        self.hint: str | None = self.problem.get("hint")
        super().__init__(message if self.hint is None else f"{message}. {self.hint}")
