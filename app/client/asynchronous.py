"""The client, for programs with an event loop; `make client` writes `sync` from this module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import httpx

from . import calls
from .answers import Answer, FeedEvent
from .async_sender import AsyncSender
from .calls import TURTLE, ConnectionOptions, HttpCall, Instant

if TYPE_CHECKING:
    from .live import LiveFrame

Role: TypeAlias = Literal["sources", "sinks"]


class AsyncConnectors:
    """The sources or the sinks of one server; methods return descriptions of connectors as dicts."""

    def __init__(self, role: Role, answer: Callable[[HttpCall], Awaitable[dict[str, Any]]]) -> None:
        """``answer`` is a function that sends a request and returns the JSON object of the response or {}."""
        self._role: Role = role
        self._answer = answer

    async def all(self) -> list[dict[str, Any]]:
        """Return the descriptions of all sources, or of all sinks, of the server."""
        found = await self._answer(HttpCall("GET", self._role))
        return list(found[self._role])

    async def describe(self, name: str) -> dict[str, Any]:
        """Return one connector's description: declaration, state, position, rate and error."""
        return await self._answer(calls.connector("GET", self._role, name))

    async def declare(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare or change a connector and return its description; ``from_`` is sent as ``from``."""
        return await self._answer(calls.connector("PUT", self._role, name, json=calls.members(members)))

    async def start(self, name: str) -> dict[str, Any]:
        """Start a stopped or failed connector and return its description."""
        return await self._answer(calls.connector("POST", self._role, name, ":start"))

    async def stop(self, name: str) -> dict[str, Any]:
        """Stop a connector, which stays stopped after a restart of the server."""
        return await self._answer(calls.connector("POST", self._role, name, ":stop"))

    async def drop(self, name: str) -> None:
        """Stop a connector and delete its declaration."""
        await self._answer(calls.connector("DELETE", self._role, name))

    async def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """Return the messages that a source could not read or a sink could not deliver, with the reasons."""
        found = await self._answer(calls.connector("GET", self._role, name, "/dead-letters"))
        return list(found["letters"])


class AsyncRules:
    """Rule sets of one server; methods return descriptions of rule sets as dicts."""

    def __init__(self, answer: Callable[[HttpCall], Awaitable[dict[str, Any]]]) -> None:
        """``answer`` is a function that sends a request and returns the JSON object of the response or {}."""
        self._answer = answer

    async def all(self) -> list[dict[str, Any]]:
        """Return the descriptions of all rule sets, oldest first."""
        found = await self._answer(HttpCall("GET", "rules"))
        return list(found["rules"])

    async def describe(self, name: str) -> dict[str, Any]:
        """Return one rule set: definition, state, version, number of inferred triples, strata and error."""
        return await self._answer(calls.rules("GET", name))

    async def put(self, name: str, *, wait: bool = True, **members: Any) -> dict[str, Any]:
        """Create or replace a rule set and return its description; ``from_`` is sent as ``from``.

        Args:
            name: name of the rule set.
            wait: respond only after the graph is complete, however long that takes; if False, return the job
                that completes the graph. An unchanged rule set has no job: its description is returned.
            members: members of the rule set: ``into``, ``rules``, ``include``, ``from_`` and the budgets.
        """
        return await self._answer(calls.put_rules(name, members, wait=wait))

    async def delete(self, name: str) -> None:
        """Delete a rule set and its inferred triples."""
        await self._answer(calls.rules("DELETE", name))


class AsyncShapes:
    """SHACL shapes of one server; methods return descriptions of shapes as dicts, and reports in Turtle."""

    def __init__(self, send: Callable[[HttpCall], Awaitable[httpx.Response]]) -> None:
        """``send`` is a function that sends a request and returns the response."""
        self._send = send

    async def all(self) -> list[dict[str, Any]]:
        """Return the descriptions of all shapes, oldest first, without their shapes graphs."""
        answer = await self._send(HttpCall("GET", "shapes"))
        return list(answer.json()["shapes"])

    async def describe(self, name: str) -> dict[str, Any]:
        """Return the parameters, state and number of results of shapes, and the shapes graph as ``text``."""
        answer = await self._send(calls.shapes("GET", name))
        return dict(answer.json())

    async def put(
        self,
        name: str,
        graph: Any = None,
        *,
        media_type: str = TURTLE,
        from_graph: str | None = None,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Create or replace shapes and return their description, once their report is complete.

        Args:
            name: name of the shapes.
            graph: the shapes graph: a graph of rdflib, triples of pyoxigraph, or text or bytes.
            media_type: media type of text or bytes.
            from_graph: IRI of a graph of the store with the shapes, in place of ``graph``.
            parameters: ``mode``, ``data`` (a list of IRIs and ``default``), ``into`` and the budgets.
        """
        answer = await self._send(calls.put_shapes(name, graph, from_graph, media_type, parameters))
        return dict(answer.json())

    async def report(self, name: str, *, limit: int | None = None) -> str:
        """Return the validation report of the store's newest version, with at most ``limit`` results."""
        answer = await self._send(calls.report(name, limit))
        return answer.text

    async def validate(
        self, name: str, data: Any, *, media_type: str = TURTLE, with_data: bool = False
    ) -> str:
        """Return the validation report of data that is not stored.

        Args:
            name: name of the shapes.
            data: a graph of rdflib, triples of pyoxigraph, or text or bytes.
            media_type: media type of text or bytes.
            with_data: report the results that an insertion into the server's data would add.
        """
        answer = await self._send(calls.validate(name, data, media_type, with_data=with_data))
        return answer.text

    async def delete(self, name: str) -> None:
        """Delete shapes and the graph of their report."""
        await self._send(calls.shapes("DELETE", name))


class AsyncClient:
    """Client of one server; used from one event loop.

    Methods of the client raise QuadrillError if the server rejects a request or cannot be reached. `push` and
    `map` raise TypeError or ValueError for data that cannot be sent.

    Attributes:
        url: address of the server.
        request: function that sends any request, by method and path, with the options of httpx.
        sources: sources of the server, which only the role admin may manage.
        sinks: sinks of the server.
        rules: rule sets of the server.
        shapes: SHACL shapes of the server.
    """

    def __init__(
        self,
        url: str = calls.DEFAULT_SERVER,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        trust_env: bool = True,
    ) -> None:
        """Create a client without a connection: the first request connects.

        Args:
            url: address of the server; the scheme is optional.
            token: bearer token for every request.
            timeout: seconds that a request may wait for data; feeds have a separate timeout.
            trust_env: use the proxies of environment variables such as HTTPS_PROXY.
        """
        self.url = calls.base_of(url)
        self._options = ConnectionOptions(token, timeout, trust_env)
        self._sender = AsyncSender(self.url, self._options)
        self.request = self._sender.request
        self.sources = AsyncConnectors("sources", self._sender.json)
        self.sinks = AsyncConnectors("sinks", self._sender.json)
        self.rules = AsyncRules(self._sender.json)
        self.shapes = AsyncShapes(self._sender.send)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections to the server."""
        await self._sender.close()

    # --- the store ------------------------------------------------------------------------------

    async def query(self, text: str, *, timeout: float | None = None) -> Answer:
        """Run a one-shot query; ``timeout`` in seconds can only shorten the server's timeout."""
        answer = await self._sender.send(calls.query(text, timeout))
        return calls.answer_of(answer.headers.get("Content-Type", ""), answer.text, answer.json)

    async def update(self, text: str) -> None:
        """Run a SPARQL update as one commit."""
        await self._sender.send(calls.update(text))

    # --- streams --------------------------------------------------------------------------------

    async def declare_stream(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare or change a stream by name or IRI, and return its description."""
        return await self._sender.json(calls.stream("PUT", name, json=members))

    async def streams(self) -> list[dict[str, Any]]:
        """Return the descriptions of all streams."""
        found = await self._sender.json(HttpCall("GET", "streams"))
        return list(found["streams"])

    async def push(
        self,
        stream: str,
        data: Any,
        *,
        media_type: str | None = None,
        at: Instant | None = None,
        each: str | None = None,
        partial: bool = False,
        wait: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Push elements to a stream; the server responds after the elements are durable.

        Args:
            stream: name or IRI of the stream.
            data: graph or dataset of rdflib, or quads or triples of pyoxigraph (one element for the default
                graph and one for each named graph); dicts and the rows of a data frame (pandas, polars,
                Arrow) are records of a mapped stream; text or bytes need a ``media_type``. Datetimes without
                a time zone are in UTC; None and NaN are absent.
            media_type: media type of text or bytes.
            at: event time of elements without an event time, in milliseconds, as RFC 3339 or a datetime.
            each: ``triple`` turns each triple into one element.
            partial: accept valid elements and list invalid elements in the response.
            wait: respond only after the results of the push are in the feeds; if that takes too long, the
                member ``waited`` of the response is False.
            idempotency_key: key by which the server ignores a repetition of this push.
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
        """Return the N-Quads that a mapping produces from records, without a push.

        Args:
            records: records as in `push`; with ``mapping``, dicts, a data frame or the text of a CSV file.
            stream: name or IRI of the stream whose mapping is applied.
            mapping: mapping in the form of a stream declaration, in place of ``stream``.
            media_type: media type of text or bytes for a ``stream``.
        """
        answer = await self._sender.send(calls.trial(records, stream, mapping, media_type))
        return answer.text

    async def reset_time(self, name: str) -> dict[str, Any]:
        """Reset a stream's time after its clock was ahead; the feeds of its queries begin a new epoch."""
        return await self._sender.json(calls.stream("POST", name, ":reset-time"))

    async def heartbeat(self, stream: str, at: Instant) -> None:
        """Advance the event time of a stream to ``at`` without an element."""
        found = calls.stream("POST", stream, ":heartbeat")
        await self._sender.send(HttpCall("POST", found.path, {**found.params, "at": calls.instant(at)}))

    # --- continuous queries ---------------------------------------------------------------------

    async def register(
        self, text: str, *, name: str | None = None, replace: bool = False, **options: Any
    ) -> dict[str, Any]:
        """Register a continuous query and return its description; ``options`` are registration members."""
        return await self._sender.json(calls.register(name, text, replace, options))

    async def validate(self, text: str, **options: Any) -> dict[str, Any]:
        """Validate a query text without a registration, and return the server's description of the query."""
        return await self._sender.json(HttpCall("POST", "queries:validate", json={"query": text, **options}))

    async def queries(self) -> list[dict[str, Any]]:
        """Return the descriptions of all continuous queries."""
        found = await self._sender.json(HttpCall("GET", "queries"))
        return list(found["queries"])

    async def describe(self, name: str) -> dict[str, Any]:
        """Return the description of one continuous query."""
        return await self._sender.json(calls.one_query("GET", name))

    async def explain(self, name: str) -> str:
        """Return the plan of a registered query as text."""
        answer = await self._sender.send(
            calls.one_query("GET", name, "/explain", headers={"Accept": "text/plain"})
        )
        return answer.text

    async def pause(self, name: str) -> dict[str, Any]:
        """Pause a continuous query."""
        return await self._sender.json(calls.one_query("PATCH", name, json={"state": "paused"}))

    async def resume(self, name: str) -> dict[str, Any]:
        """Resume a paused query."""
        return await self._sender.json(calls.one_query("PATCH", name, json={"state": "running"}))

    async def refresh(self, name: str) -> dict[str, Any]:
        """Refresh the static parts of a continuous query."""
        return await self._sender.json(calls.one_query("POST", name, "/refresh"))

    async def drop(self, name: str) -> None:
        """Drop a continuous query."""
        await self._sender.send(calls.one_query("DELETE", name))

    async def current(self, name: str) -> Answer:
        """Return the current answer of a continuous query."""
        answer = await self._sender.send(
            calls.one_query("GET", name, "/results", headers={"Accept": "application/json"})
        )
        return calls.answer_of("json", answer.text, answer.json)

    async def why(self, name: str, event: int, row: int = 0) -> dict[str, Any]:
        """Return why an event of a query has a row: elements and quads over which the query alone gives it.

        Args:
            name: name of the continuous query.
            event: id of the event.
            row: number of the row in the event, from 0.
        """
        found = calls.one_query("GET", name, f"/results/{event}/why", params={"row": str(row)})
        return await self._sender.json(found)

    def feed(
        self,
        name: str,
        *,
        resume: int | None = None,
        snapshot: bool | Literal["always"] = False,
        progress: bool = False,
    ) -> AsyncIterator[FeedEvent]:
        """Yield the events of a query's feed until the query is dropped.

        After a lost connection the client resumes after the last event, so that no event is lost or repeated.

        Args:
            name: name of the continuous query.
            resume: id after which the feed begins, 0 for the oldest stored event; None for new events only.
            snapshot: begin with an event that contains the current answer; ``always`` begins each connection
                in this way, in place of the events that were missed between two connections.
            progress: yield ``progress`` events, too.
        """
        return self._sender.feed(name, resume=resume, snapshot=snapshot, progress=progress)

    def live(self, name: str, *, max_rows: int = 100_000) -> LiveFrame:
        """Return the current answer of a continuous query as a data frame that a thread keeps up to date.

        The thread has a connection of its own; the call waits for the first answer.

        Args:
            name: name of a SELECT query whose output is ``changes`` or ``rstream``.
            max_rows: maximum number of rows of the answer; a larger answer ends the data frame with an error.

        Raises: ValueError for a query whose feed does not give the current answer.
        """
        from .live import LiveFrame

        return LiveFrame(self.url, self._options, name, max_rows)
