"""Routes of the web page and its login."""

from __future__ import annotations

from ..front.route import Handler, Route
from ..front.vocabulary import FORM, GRAPH_TYPES, JSON

_PAGES = (
    "demo",
    "register",
    "streams",
    "streams/one",
    "connectors",
    "sparql",
    "store",
    "why",
    "rules",
    "shapes",
    "jobs",
    "processes",
    "settings",
)


def page_routes(page: Handler) -> tuple[Route, ...]:
    """Return the routes of the web page, which decides itself which requests need a token."""
    return (
        Route(
            "GET",
            "/",
            page,
            "the page for browsers, the service description for RDF clients",
            (200, 302),
            answers=("text/html", *GRAPH_TYPES),
            role="public",
            while_starting=True,
        ),
        Route(
            "POST",
            "/login",
            page,
            "exchange a token for the page's cookie",
            (204, 303),
            (),
            (*FORM, *JSON),
            role="public",
            while_starting=True,
        ),
        Route(
            "POST", "/logout", page, "end the page's session", (204, 303), role="public", while_starting=True
        ),
        Route("GET", "/login", page, role="public", while_starting=True),
        *(Route("GET", f"/ui/{each}", page, role="public") for each in _PAGES),
        Route("GET", "/ui/demo/pace", page, role="read"),
        Route("PUT", "/ui/demo/pace", page, role="write"),
        Route("GET", "/ui/queries", page, role="public", while_starting=True),
        Route(
            "GET",
            "/ui/queries/{query}",
            page,
            role="public",
            while_starting=True,
            labelled="/ui/queries/<name>",
        ),
        Route("GET", "/ui/rules/{rules}", page, role="public", labelled="/ui/rules/<name>"),
        Route("GET", "/ui/shapes/{shapes}", page, role="public", labelled="/ui/shapes/<name>"),
        Route("GET", "/ui/docs", page, role="public", while_starting=True),
        Route("GET", "/ui/docs/{filename}", page, role="public", while_starting=True),
        Route("GET", "/ui/static/{filename}", page, role="public", while_starting=True),
    )
