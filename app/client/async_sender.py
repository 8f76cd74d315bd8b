"""Requests and feeds of a client with an event loop; `make client` writes `sender` from here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Literal

import httpx

from . import calls
from .answers import FeedEvent
from .calls import ConnectionOptions, HttpCall, lost, refused
from .errors import QuadrillError
from .event_stream import events_of_async
from .resuming import PASSING, SILENCE_S, FeedPlace


class AsyncSender:
    """Sender of HTTP requests to one server, and reader of the feeds of the server's queries."""

    def __init__(self, url: str, options: ConnectionOptions) -> None:
        """Create a sender without a connection; ``url`` ends with a slash."""
        self._url = url
        headers = calls.headers_of(options.token)
        self._http = httpx.AsyncClient(headers=headers, timeout=options.timeout, trust_env=options.trust_env)

    async def close(self) -> None:
        """Close all connections to the server."""
        await self._http.aclose()

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send an HTTP request; ``options`` are those of httpx."""
        try:
            answer = await self._http.request(method, self._url + path, **options)
        except httpx.HTTPError as error:
            raise lost(self._url, error) from error
        if answer.is_error:
            raise refused(answer)
        return answer

    async def send(self, call: HttpCall) -> httpx.Response:
        """Send a prepared HTTP request to the server and return the response."""
        return await self.request(call.method, call.path, **call.options())

    async def json(self, call: HttpCall) -> dict[str, Any]:
        """Send a prepared HTTP request; return the JSON object of the response, or {} for an empty body."""
        answer = await self.send(call)
        return dict(answer.json()) if answer.content else {}

    async def feed(
        self, name: str, *, resume: int | None, snapshot: bool | Literal["always"], progress: bool
    ) -> AsyncGenerator[FeedEvent, None]:
        """Yield the events of a query's feed; see `AsyncClient.feed`."""
        snapshot = resume is None and snapshot
        if resume is None:
            # The feed's position is read before the first connection, so that a connection lost early can
            # resume.
            described = await self.json(calls.one_query("GET", name))
            resume = described.get("feed", {}).get("last_id")
        place = FeedPlace(resume)
        timeout = httpx.Timeout(SILENCE_S)
        first = True
        while True:
            call = calls.feed(name, None if snapshot else place.last, bool(snapshot))
            try:
                async with self._http.stream(
                    call.method, self._url + call.path, timeout=timeout, **call.options()
                ) as answer:
                    if answer.status_code == 204:
                        return
                    if answer.is_error:
                        await answer.aread()
                        raise refused(answer)
                    first = False
                    place.connected()
                    async for events in events_of_async(answer.aiter_bytes()):
                        for event in events:
                            found = place.take(event)
                            # The server sends the snapshot, the current answer, before all other events of
                            # the feed.
                            snapshot = snapshot == "always" and snapshot
                            if progress or found.kind != "progress":
                                yield found
            except httpx.HTTPError as error:
                if first:
                    raise lost(self._url, error) from error
            except QuadrillError as error:
                if first or error.status not in PASSING:
                    raise
            await asyncio.sleep(place.wait_s())
