"""Hand-over of the connection of a push request to the thread of long-lived pushes."""

from __future__ import annotations

from collections.abc import Callable

from ..http.answers import WholeAnswer
from ..http.problems import problem_answer
from ..http.request import Request
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from ..server.takeover import Takeover
from .live_push import EndingError, LivePush
from .loop import PushLoop

MakePush = Callable[[Connection, ConnectionOwner, dict[str, str]], LivePush]
"""Creates the long-lived push of a connection; the last argument has the headers of every answer."""


class LongPush(Takeover):
    """An answer to a push request that is written entirely by a long-lived push."""

    def __init__(self, loop: PushLoop, make: MakePush, status: int) -> None:
        super().__init__(status, {})
        self._loop = loop
        self._make = make

    def take_over(
        self, request: Request, connection: Connection, home: ConnectionOwner
    ) -> WholeAnswer | None:
        """Hand the request's connection over to the thread of long-lived pushes."""
        push = self._make(connection, home, self.headers)
        request.lent = True
        if self._loop.adopt(push):
            return None
        request.lent = False
        return problem_answer(EndingError())
