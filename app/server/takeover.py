"""Answers that take their connection over: event streams, WebSockets and pushes that last."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..http.answers import WholeAnswer
from ..http.request import Request
from .connection import Connection
from .connection_owner import ConnectionOwner


class Takeover(ABC):
    """An answer that another thread or process writes.

    Attributes:
        status: of the answer, for logs and metrics.
        headers: of the answer; the pipeline adds those that every answer has.
    """

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers

    @abstractmethod
    def take_over(
        self, request: Request, connection: Connection, home: ConnectionOwner
    ) -> WholeAnswer | None:
        """Take the connection over; ``home`` accepts it when the takeover has ended.

        Returns: the answer to send instead when that is not possible.
        """
