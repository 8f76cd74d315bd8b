"""Answers that take over their connection: event streams, WebSockets and long-lived pushes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..http.answers import WholeAnswer
from ..http.request import Request
from .connection import Connection
from .connection_owner import ConnectionOwner


class Takeover(ABC):
    """An answer that another thread or process writes, after it has taken over the connection.

    Attributes:
        status: the HTTP status of the answer, for logs and metrics.
        headers: the headers of the answer; the pipeline adds the headers that every answer has.
    """

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers

    @abstractmethod
    def take_over(
        self, request: Request, connection: Connection, home: ConnectionOwner
    ) -> WholeAnswer | None:
        """Take over a request's connection; return the connection to ``home`` when the answer has ended.

        Returns: None, or an answer to send instead if the connection cannot be taken over.
        """
