"""The admin page: server-rendered first states, then scripts that use the public HTTP interface only.

``GET /`` is the page for browsers and the SPARQL service description for clients that ask for RDF. Everything
else of the page lives below ``/ui/``. Scripts and styles come from this server alone, which the
Content-Security-Policy enforces: nothing inline, nothing foreign, no frames.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from flask import Blueprint, Response, current_app, redirect, render_template, request
from pyoxigraph import DefaultGraph
from werkzeug.security import safe_join
from werkzeug.wrappers import Response as AnyResponse

import quadrill.static
from quadrill.store.changes.commit import graph_key
from quadrill.store.documents.release import release_of
from quadrill.store.errors import NotFoundError

from ..describing.listing import QuerySelection, list_part
from ..describing.queries import describe, describe_all
from ..describing.streams import describe_stream, describe_streams
from ..front.finish import packed_well
from ..http import negotiation
from ..http.callers import NOBODY
from ..http.errors import HttpError
from ..resources.sparql import service_description
from . import documentation
from .context import received, services

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HTML = negotiation.Offer(
    "html", "text/html", ("application/xhtml+xml",), content_type="text/html; charset=utf-8"
)
# Browsers run a module only under a script type, and the machine's own type table may not have it.
ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".png": "image/png", ".svg": "image/svg+xml"}
ASSETS = Path(quadrill.static.__file__).parent
SHOWN_QUERIES = 50
"""Rows of one part of the list of queries, as the script has it."""
DEMO = "QUADRILL_DEMO"
"""The member of the application's configuration that says whether the demo runs."""

blueprint = Blueprint("admin", __name__, template_folder="templates")


@blueprint.get("/")
def index() -> AnyResponse:
    """The list of queries for browsers, the service description for RDF clients."""
    chosen = negotiation.choose(request.headers.get("Accept"), (HTML, *negotiation.GRAPH_OFFERS))
    if chosen is not HTML:
        services().security.require("read", received())
        described = service_description(services(), received())
        return _vary(Response(described.body, status=described.status, headers=described.headers))
    return _vary(
        _page(
            "queries",
            "queries.html",
            lambda: list_part(services().engine, QuerySelection(limit=SHOWN_QUERIES)),
        )
    )


@blueprint.get("/ui/demo")
def demo() -> AnyResponse:
    """The picture of the demo: its departures on a map, and charts of its queries."""
    if not current_app.config[DEMO]:
        return _message(
            404,
            "The demo does not run here",
            "It runs where it was started.",
            "Start it with `quadrill demo`.",
        )
    return _page("demo", "demo.html", lambda: {"queries": describe_all(services().engine)})


@blueprint.get("/ui/queries/<name>")
def query(name: str) -> AnyResponse:
    """One query: results as they come, text, plan, windows, static parts."""
    try:
        return _page("queries", "query.html", lambda: {"query": describe(services().engine, name)}, name=name)
    except NotFoundError as error:
        return _message(404, "No such query", error.message, error.hint)


@blueprint.get("/ui/register")
def register() -> AnyResponse:
    """The editor for a new query."""
    return _page("register", "register.html")


@blueprint.get("/ui/streams")
def streams() -> AnyResponse:
    """Streams with their watermarks, and a form to push."""
    return _page("streams", "streams.html", lambda: {"streams": describe_streams(services().engine)})


@blueprint.get("/ui/streams/one")
def stream() -> AnyResponse:
    """One stream, by ``?iri=``: newest elements, rates, dead letters, declaration."""
    try:
        iri = request.args.get("iri", "")
        return _page("streams", "stream.html", lambda: {"stream": describe_stream(services().engine, iri)})
    except NotFoundError as error:
        return _message(404, "No such stream", error.message, error.hint)


@blueprint.get("/ui/connectors")
def connectors() -> AnyResponse:
    """Sources and sinks: state, rate, position, errors; forms to declare them."""
    return _page("connectors", "connectors.html")


@blueprint.get("/ui/sparql")
def sparql() -> AnyResponse:
    """SPARQL queries and updates."""
    return _page("sparql", "sparql.html")


@blueprint.get("/ui/store")
def store() -> AnyResponse:
    """Graphs with their sizes, and commits as they happen; with ``?iri=`` what leads from and to that."""
    iri = request.args.get("iri")
    if iri is not None:
        return _page("store", "browse.html", iri=iri)
    return _page("store", "store.html", _store_state)


@blueprint.get("/ui/jobs")
def jobs() -> AnyResponse:
    """Loads and other long work: progress, what was left out, a way to cancel."""
    return _page("jobs", "jobs.html", mirrored=services().jobs.has_mirror())


@blueprint.get("/ui/processes")
def processes() -> AnyResponse:
    """The page of what is running right now."""
    return _page("processes", "processes.html")


@blueprint.get("/ui/docs")
def documents() -> AnyResponse:
    """The contents of the documentation."""
    return _page("documents", "help.html", contents=documentation.contents())


@blueprint.get("/ui/docs/<path:filename>")
def document(filename: str) -> AnyResponse:
    """A page of the documentation, or a picture in it."""
    found = documentation.help_page(filename)
    if found is not None:
        return _page("documents", "help.html", document=found)
    picture = documentation.help_file(filename)
    if picture is None:
        return _message(404, "No such page", f"The documentation has no page {filename}.", None)
    return Response(picture.read_bytes(), mimetype=ASSET_TYPES[picture.suffix])


@blueprint.get("/login")
def login() -> AnyResponse:
    """The form that asks for a token."""
    target = local_target(request.args.get("next"))
    if not services().security.has_tokens():
        return redirect(target)
    return _render(200, "login.html", next=target)


@blueprint.get("/ui/static/<path:filename>")
def static(filename: str) -> AnyResponse:
    """A style sheet, script or picture of the page. Browsers ask again each time and mostly get 304."""
    media_type = ASSET_TYPES.get(Path(filename).suffix)
    if media_type is None:
        raise HttpError(404, f"the page has no file {filename}", code="not-found")
    path = safe_join(str(ASSETS), filename)
    if path is None or not Path(path).is_file():
        raise HttpError(404, f"there is no resource at {request.path}", code="no-such-resource")
    status = Path(path).stat()
    changed, tag = datetime.fromtimestamp(status.st_mtime, UTC), f"{status.st_mtime_ns:x}-{status.st_size:x}"
    accepted = negotiation.accepts_gzip(request.headers.get("Accept-Encoding"))
    packs = services().settings.gzip and accepted
    found = Response(_packed(path, tag) if packs else Path(path).read_bytes(), mimetype=media_type)
    found.vary.add("Accept-Encoding")
    found.last_modified = changed
    found.cache_control.no_cache = True
    if packs:
        found.headers["Content-Encoding"] = "gzip"
    # Another representation has another tag.
    found.set_etag(f"{tag}-gzip" if packs else tag)
    return found.make_conditional(request, accept_ranges=not packs, complete_length=status.st_size)


@lru_cache(maxsize=256)
def _packed(path: str, _tag: str) -> bytes:
    """A file of the page, packed; once for each time that it was written."""
    return packed_well(Path(path).read_bytes())


@blueprint.after_request
def _protect(response: AnyResponse) -> AnyResponse:
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Not "no-referrer": browsers would then send "Origin: null" with the forms, which counts as another site.
    response.headers["Referrer-Policy"] = "same-origin"
    if response.mimetype == HTML.media_type:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Cache-Control"] = "no-store"
    return response


def local_target(asked: str | None) -> str:
    """The target after signing in: a path of this server, else the first page.

    A target that begins with two slashes, or holds a backslash, would lead away from here.
    """
    if not asked or not asked.startswith("/") or asked.startswith("//") or "\\" in asked:
        return "/"
    parts = urlsplit(asked)
    if parts.scheme or parts.netloc or any(ord(character) < 32 for character in asked):
        return "/"
    return asked


def _page(
    here: str, template: str, first_state: Callable[[], dict[str, Any]] | None = None, **values: Any
) -> AnyResponse:
    """A page with its first state; the way to the login form for those who may not read."""
    caller = received().caller or NOBODY
    if not caller.role:
        return redirect(f"/login?next={quote(request.full_path.removesuffix('?'), safe='')}")
    if not caller.may("read"):
        detail = f"This token has the role {caller.role}; the page needs the role read."
        return _message(403, "Not allowed", detail, None)
    if first_state is not None:
        values["state"] = first_state()
    return _render(200, template, here=here, pages=_pages(), **values)


def _render(status: int, template: str, **values: Any) -> Response:
    text = render_template(
        template,
        version=services().store.reader.version,
        release=release_of(),
        signed_in=services().security.has_tokens(),
        **values,
    )
    return Response(text, status=status, content_type=HTML.header)


def _message(status: int, title: str, detail: str, hint: str | None) -> Response:
    return _render(
        status, "message.html", here="queries", pages=_pages(), title=title, detail=detail, hint=hint
    )


def _pages() -> list[dict[str, str]]:
    """The entries of the navigation."""
    listed = [
        ("queries", "Queries", "/"),
        ("register", "Register", "/ui/register"),
        ("streams", "Streams", "/ui/streams"),
        ("connectors", "Sources & sinks", "/ui/connectors"),
        ("sparql", "SPARQL", "/ui/sparql"),
        ("store", "Store", "/ui/store"),
        ("jobs", "Jobs", "/ui/jobs"),
        ("processes", "Running", "/ui/processes"),
    ]
    if current_app.config[DEMO]:
        listed.insert(0, ("demo", "Demo", "/ui/demo"))
    return [{"key": key, "title": title, "path": path} for key, title, path in listed]


def _store_state() -> dict[str, Any]:
    """Graph sizes with the version they belong to: the page adds up later commits itself."""
    quads = services().store
    while True:
        version = quads.reader.version
        counts = quads.reader.graph_counts()
        if quads.reader.version == version:
            break
    graphs = [
        {"iri": "" if isinstance(graph, DefaultGraph) else graph_key(graph), "quads": many}
        for graph, many in counts.items()
    ]
    return {"version": version, "graphs": sorted(graphs, key=lambda graph: str(graph["iri"]))}


def _vary(response: AnyResponse) -> AnyResponse:
    response.vary.add("Accept")
    return response
