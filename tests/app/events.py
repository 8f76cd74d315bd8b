"""Reads Server-Sent Events from a running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import httpx

from tests.app.conftest import LiveServer


@dataclass(frozen=True)
class Event:
    """One event as it came over the wire."""

    kind: str | None
    data: str
    id: str | None


class EventReader:
    """An open event stream: `take` waits for events, `ended` for the end."""

    def __init__(self, server: LiveServer, path: str, headers: dict[str, str] | None = None) -> None:
        self._stack = ExitStack()
        sent = {"Accept": "text/event-stream", **(headers or {})}
        self.answer: httpx.Response = self._stack.enter_context(
            server.client.stream("GET", path, headers=sent, timeout=10)
        )
        assert self.answer.status_code == 200, self.answer.read()
        self.comments: list[str] = []
        self.retry: str | None = None
        self._lines = self.answer.iter_lines()
        self._events = self._parse()

    def take(self, count: int) -> list[Event]:
        return [next(self._events) for _ in range(count)]

    def ended(self) -> bool:
        return next(self._events, None) is None

    def comment(self) -> str:
        """The next line that is a comment."""
        return next(line for line in self._lines if line.startswith(":"))

    def _parse(self) -> Iterator[Event]:
        kind, data, event_id = None, None, None
        for line in self._lines:
            if not line:
                if data is not None:
                    yield Event(kind, data, event_id)
                kind, data, event_id = None, None, None
                continue
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                assert data is None, "data is one line"
                data = value
            elif name == "id":
                event_id = value
            elif name == "retry":
                self.retry = value
            elif name == "":
                self.comments.append(value)

    def __enter__(self) -> EventReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
