"""The error of what a client sends and is no request that all readers of HTTP understand alike."""

from __future__ import annotations


class RefusedError(Exception):
    """A request is not taken: it is answered with ``status`` and ``detail``, and the connection ends."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status} {detail}")
        self.status = status
        self.detail = detail
