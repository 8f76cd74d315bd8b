"""``/changes``: the change feed, with one event per commit of the store, resumable from a durable log."""

from __future__ import annotations

from pyoxigraph import NamedNode

from ..feeds.change_feed import ChangeSource, Selection
from ..feeds.events import EVENT_STREAM, LINES, EventStream, written_as
from ..http import negotiation
from ..http.errors import HttpError
from ..http.negotiation import Offer
from ..http.parameters import whole_number
from ..http.request import Request
from ..wiring import Services

_EVENTS, _LINES = Offer("events", EVENT_STREAM), Offer("lines", LINES)


def changes(services: Services, request: Request) -> EventStream:
    """Return the commits after ``?after=`` or ``Last-Event-ID`` as events; without both, only new commits."""
    request.arguments.check({"after", "patch", "graph"}, several={"graph"})
    form = negotiation.choose(request.accept, (_EVENTS, _LINES)).media_type
    after = request.headers.get("Last-Event-Id") or request.arguments.get("after")
    version = None if after is None else whole_number("the version to begin after", after)
    graphs = frozenset(_graph(name) for name in request.arguments.all("graph"))
    selection = Selection(graphs, request.arguments.flag("patch"))
    source = ChangeSource(services.changes, version, selection, written_as(form))
    return EventStream(
        source,
        services.fanout,
        form,
        retry_ms=services.settings.sse_retry_ms,
        permitted=services.security.grant(request).holds,
    )


def _graph(name: str) -> str:
    if name == "default":
        return name
    try:
        return NamedNode(name).value
    except ValueError as error:
        raise HttpError(
            400,
            f"the parameter graph is not an IRI: {name!r}",
            code="parameter",
            hint="Give the graph's IRI, or default.",
        ) from error
