"""``/changes``: one event per commit of the store, resumable from its durable log."""

from __future__ import annotations

from flask import Blueprint, Response, request
from pyoxigraph import NamedNode

from ..feeds.change_feed import ChangeSource, Selection
from ..feeds.events import EVENT_STREAM, LINES, EventStream, written_as
from ..http import negotiation
from ..http.errors import HttpError
from ..http.negotiation import Offer
from . import requests as incoming
from .requests import services

blueprint = Blueprint("changes", __name__)

_EVENTS, _LINES = Offer("events", EVENT_STREAM), Offer("lines", LINES)


@blueprint.get("/changes")
def changes() -> Response:
    """The change feed, from ``?after=`` or ``Last-Event-ID``, else from now on."""
    incoming.known_parameters({"after", "patch", "graph"}, several={"graph"})
    form = negotiation.choose(request.headers.get("Accept"), (_EVENTS, _LINES)).media_type
    after = request.headers.get("Last-Event-ID") or request.args.get("after")
    version = None if after is None else incoming.whole_number("the version to begin after", after)
    graphs = frozenset(_graph(name) for name in request.args.getlist("graph"))
    selection = Selection(graphs, incoming.flag("patch"))
    source = ChangeSource(services().changes, version, selection, written_as(form))
    return EventStream(
        source,
        services().fanout,
        form,
        retry_ms=services().settings.sse_retry_ms,
        head_only=request.method == "HEAD",
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
