"""The table of routes: each row is an HTTP method on a path and the function that answers it."""

from __future__ import annotations

from quadrill.store.documents.release import release_of

from ..front.openapi import document
from ..front.route import Handler, Route
from ..front.vocabulary import JSON
from ..http.answers import WholeAnswer, json_answer
from ..http.request import Request
from ..resources.links import base_url
from ..wiring import Services
from .operating import OPERATING
from .page import page_routes
from .queries import QUERIES
from .rules import RULES
from .shapes import SHAPES
from .store import STORE
from .streams import STREAMS


def all_routes(page: Handler) -> tuple[Route, ...]:
    """Return the whole table of routes; ``page`` answers the requests of the web page."""

    def openapi(services: Services, request: Request) -> WholeAnswer:
        """Return the OpenAPI document of the server."""
        return json_answer(document(table, release_of(), base_url(services, request).rstrip("/")))

    described = Route(
        "GET", "/openapi.json", openapi, "this document", answers=JSON, role="public", while_starting=True
    )
    table = (*STORE, *RULES, *SHAPES, *STREAMS, *QUERIES, *OPERATING, described, *page_routes(page))
    return table
