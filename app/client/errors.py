"""The error of a client: what the server, or the way to it, says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class QuadrillError(Exception):
    """A request was refused, or did not arrive.

    Attributes:
        status: the HTTP status; None where no answer came.
        code: the server's word for what happened (docs/errors.md), ``unreachable`` where no answer came.
        message: one sentence.
        hint: how to mend it, or None.
        retry_after: seconds after which the server asks for another try, None where it names none.
        problem: the whole problem document (RFC 9457), with ``line``, ``column`` and ``excerpt`` of texts.
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
