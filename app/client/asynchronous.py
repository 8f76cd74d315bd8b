"""The client, for programs with an event loop; `make client` writes `sync` from this module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import httpx

from . import calls
from .answers import Answer, FeedEvent
from .calls import HttpCall, lost, refused
from .errors import QuadrillError
from .event_stream import events_of_async
from .resuming import SILENCE_S, FeedPlace

Role: TypeAlias = Literal["sources", "sinks"]


class AsyncConnectors:
    """The sources of a server, or its sinks; what they are is a description, a dict."""

    def __init__(self, role: Role, answer: Callable[[HttpCall], Awaitable[dict[str, Any]]]) -> None:
        """``answer`` sends a request and gives the JSON object that is answered, {} for none."""
        self._role: Role = role
        self._answer = answer

    async def all(self) -> list[dict[str, Any]]:
        """The descriptions of all."""
        found = await self._answer(HttpCall("GET", self._role))
        return list(found[self._role])

    async def describe(self, name: str) -> dict[str, Any]:
        """The description of one: its declaration, state, position, rate, error."""
        return await self._answer(calls.connector("GET", self._role, name))

    async def declare(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare one or change it; it runs. Its description. A member ``from_`` stands for ``from``."""
        return await self._answer(calls.connector("PUT", self._role, name, json=calls.members(members)))

    async def start(self, name: str) -> dict[str, Any]:
        """Let one run, also after it has failed."""
        return await self._answer(calls.connector("POST", self._role, name, ":start"))

    async def stop(self, name: str) -> dict[str, Any]:
        """Stop one, also over restarts."""
        return await self._answer(calls.connector("POST", self._role, name, ":stop"))

    async def drop(self, name: str) -> None:
        """Stop one and forget it."""
        await self._answer(calls.connector("DELETE", self._role, name))

    async def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """What a source could not read, or a sink not deliver, with the reason."""
        found = await self._answer(calls.connector("GET", self._role, name, "/dead-letters"))
        return list(found["letters"])


class _Sender:
    """Sends requests to one server."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = url
        self.http = http

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, with the options of httpx."""
        try:
            answer = await self.http.request(method, self._url + path, **options)
        except httpx.HTTPError as error:
            raise lost(self._url, error) from error
        if answer.is_error:
            raise refused(answer)
        return answer

    async def send(self, call: HttpCall) -> httpx.Response:
        """Send a call."""
        return await self.request(call.method, call.path, **call.options())

    async def json(self, call: HttpCall) -> dict[str, Any]:
        """The JSON object that answers a call, {} for none."""
        answer = await self.send(call)
        return dict(answer.json()) if answer.content else {}


class AsyncClient:
    """A connection to one server; used from one event loop.

    Methods raise QuadrillError when the server refuses or cannot be reached.

    Attributes:
        url: of the server.
        request: sends any other request: method and path, with the options of httpx.
        sources: the sources of the server; they need the role admin.
        sinks: its sinks.
    """

    def __init__(
        self,
        url: str = calls.DEFAULT_SERVER,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        trust_env: bool = True,
    ) -> None:
        """Name a server; nothing is reached yet.

        Args:
            url: its address, the scheme may be left out.
            token: a bearer token.
            timeout: seconds that a request may be silent; feeds do not count.
            trust_env: use the proxies that the environment names.
        """
        self.url = calls.base_of(url)
        http = httpx.AsyncClient(headers=calls.headers_of(token), timeout=timeout, trust_env=trust_env)
        self._sender = _Sender(self.url, http)
        self.request = self._sender.request
        self.sources = AsyncConnectors("sources", self._sender.json)
        self.sinks = AsyncConnectors("sinks", self._sender.json)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.http.aclose()

    # --- the store ------------------------------------------------------------------------------

    async def query(self, text: str, *, timeout: float | None = None) -> Answer:
        """Ask once; ``timeout`` in seconds shortens the server's own."""
        answer = await self._sender.send(calls.query(text, timeout))
        return calls.answer_of(answer.headers.get("Content-Type", ""), answer.text, answer.json)

    async def update(self, text: str) -> None:
        """Change the store, in one commit."""
        await self._sender.send(calls.update(text))

    # --- streams --------------------------------------------------------------------------------

    async def declare_stream(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare a stream by name or IRI, or change it; its description."""
        return await self._sender.json(calls.stream("PUT", name, json=members))

    async def streams(self) -> list[dict[str, Any]]:
        """The descriptions of all streams."""
        found = await self._sender.json(HttpCall("GET", "streams"))
        return list(found["streams"])

    async def push(
        self,
        stream: str,
        data: Any,
        *,
        media_type: str | None = None,
        at: int | str | None = None,
        each: str | None = None,
        partial: bool = False,
        wait: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Push elements; the answer comes once they are durable.

        Args:
            stream: name or IRI.
            data: a graph or dataset of rdflib, quads or triples of pyoxigraph: one element; dicts are
                records of a mapped stream; text or bytes with their ``media_type``.
            media_type: of text or bytes.
            at: event time of elements without one of their own: milliseconds or xsd:dateTime.
            each: ``triple`` makes one element of each triple.
            partial: accept the good elements and list the bad.
            wait: answer once the results are in the feeds.
            idempotency_key: a push that is repeated with it enters once.
        """
        return await self._sender.json(
            calls.push(
                stream,
                data,
                media_type=media_type,
                at=at,
                each=each,
                partial=partial,
                wait=wait,
                key=idempotency_key,
            )
        )

    async def map(
        self,
        records: Any,
        *,
        stream: str | None = None,
        mapping: dict[str, Any] | None = None,
        media_type: str | None = None,
    ) -> str:
        """N-Quads of what records would be by a stream's mapping, or by one that is given; nothing enters.

        Args:
            records: as for a push; for a ``mapping`` dicts, or the text of a CSV file.
            stream: name or IRI.
            mapping: the mapping as a declaration has it.
            media_type: of text or bytes for a ``stream``.
        """
        answer = await self._sender.send(calls.trial(records, stream, mapping, media_type))
        return answer.text

    async def reset_time(self, name: str) -> dict[str, Any]:
        """Let the time of a stream begin anew after its clock was ahead; its readers begin a new epoch."""
        return await self._sender.json(calls.stream("POST", name, ":reset-time"))

    async def heartbeat(self, stream: str, at: int | str) -> None:
        """Move the event time of a stream without data."""
        found = calls.stream("POST", stream, ":heartbeat")
        await self._sender.send(HttpCall("POST", found.path, {**found.params, "at": str(at)}))

    # --- continuous queries ---------------------------------------------------------------------

    async def register(
        self, text: str, *, name: str | None = None, replace: bool = False, **options: Any
    ) -> dict[str, Any]:
        """Register a continuous query; its description. ``options`` are members of the registration."""
        return await self._sender.json(calls.register(name, text, replace, options))

    async def validate(self, text: str, **options: Any) -> dict[str, Any]:
        """What registering would give."""
        return await self._sender.json(HttpCall("POST", "queries:validate", json={"query": text, **options}))

    async def queries(self) -> list[dict[str, Any]]:
        """The descriptions of all continuous queries."""
        found = await self._sender.json(HttpCall("GET", "queries"))
        return list(found["queries"])

    async def describe(self, name: str) -> dict[str, Any]:
        """The description of one query."""
        return await self._sender.json(calls.one_query("GET", name))

    async def explain(self, name: str) -> str:
        """The plan of a query as text."""
        answer = await self._sender.send(
            calls.one_query("GET", name, "/explain", headers={"Accept": "text/plain"})
        )
        return answer.text

    async def pause(self, name: str) -> dict[str, Any]:
        """Let a query rest."""
        return await self._sender.json(calls.one_query("PATCH", name, json={"state": "paused"}))

    async def resume(self, name: str) -> dict[str, Any]:
        """Let a query go on."""
        return await self._sender.json(calls.one_query("PATCH", name, json={"state": "running"}))

    async def refresh(self, name: str) -> dict[str, Any]:
        """Read the static parts of a query anew."""
        return await self._sender.json(calls.one_query("POST", name, "/refresh"))

    async def drop(self, name: str) -> None:
        """Drop a query."""
        await self._sender.send(calls.one_query("DELETE", name))

    async def current(self, name: str) -> Answer:
        """The current answer of a query."""
        answer = await self._sender.send(
            calls.one_query("GET", name, "/results", headers={"Accept": "application/json"})
        )
        return calls.answer_of("json", answer.text, answer.json)

    async def feed(
        self, name: str, *, resume: int | None = None, snapshot: bool = False, progress: bool = False
    ) -> AsyncIterator[FeedEvent]:
        """The events of a query as they come, until it is dropped.

        A connection that is lost is taken up again behind the last event: none is missed, none comes twice.

        Args:
            name: the query.
            resume: the id behind which to begin, 0 for the oldest that is kept; None: with the next event.
            snapshot: begin with the current answer.
            progress: give ``progress`` events, too.
        """
        snapshot = snapshot and resume is None
        if resume is None:
            # Known from the start, the place outlives a connection that is lost before the first event.
            described = await self.describe(name)
            resume = described.get("feed", {}).get("last_id")
        place = FeedPlace(resume)
        timeout = httpx.Timeout(SILENCE_S)
        first = True
        while True:
            call = calls.feed(name, None if snapshot else place.last, snapshot)
            try:
                async with self._sender.http.stream(
                    call.method, self.url + call.path, timeout=timeout, **call.options()
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
                            snapshot = False  # it comes first
                            if progress or found.kind != "progress":
                                yield found
            except httpx.HTTPError as error:
                if first:
                    raise lost(self.url, error) from error
            except QuadrillError as error:
                if first or error.status not in (429, 502, 503, 504):
                    raise
            await asyncio.sleep(place.wait_s())
