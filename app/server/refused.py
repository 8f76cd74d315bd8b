"""The error for received bytes that are not an unambiguous HTTP request."""

from __future__ import annotations


class RefusedError(Exception):
    """The server rejects a request: it answers with ``status`` and ``detail``, and ends the connection."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status} {detail}")
        self.status = status
        self.detail = detail
