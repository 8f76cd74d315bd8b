"""Views of the web page: HTML with initial data, whose scripts use only the public HTTP interface.

``GET /`` returns the overview to browsers, and the SPARQL service description to clients that ask for
RDF. ``GET /login`` returns the login form; all other views of the web page are below ``/ui/``. The web page's
Content-Security-Policy allows only scripts and styles from this server: no inline code, no code of other
servers, no frames.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from flask import Blueprint, Response, current_app, redirect, render_template, request
from markupsafe import Markup
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
from ..http.callers import NOBODY, PUBLIC_BODY_BYTES
from ..http.errors import HttpError
from ..resources.overview import overview
from ..resources.shapes import described
from ..resources.sparql import service_description
from ..security import COOKIE
from . import documentation
from .context import received, services
from .pace import Pace

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
# Browsers run a JavaScript module only with a script media type, which the type table of the machine may
# lack.
ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".png": "image/png", ".svg": "image/svg+xml"}
ASSETS = Path(quadrill.static.__file__).parent
SHOWN_QUERIES = 50
"""Number of rows on one page of the list of queries; the page's JavaScript uses the same number."""
DEMO = "QUADRILL_DEMO"
"""Key of the Flask configuration with the pace of the demo's replay; None if the demo does not run."""

blueprint = Blueprint("admin", __name__, template_folder="templates")


@blueprint.get("/")
def index() -> AnyResponse:
    """Return the overview of the server to browsers, or the service description to RDF clients."""
    chosen = negotiation.choose(request.headers.get("Accept"), (HTML, *negotiation.GRAPH_OFFERS))
    if chosen is not HTML:
        services().security.require("read", received())
        described = service_description(services(), received())
        return _vary(Response(described.body, status=described.status, headers=described.headers))
    return _vary(_page("overview", "overview.html", lambda: {"overview": overview(services())}))


@blueprint.get("/ui/queries")
def queries() -> AnyResponse:
    """Return the list of continuous queries with their rates and last results."""
    return _page(
        "queries",
        "queries.html",
        lambda: list_part(services().engine, QuerySelection(limit=SHOWN_QUERIES)),
    )


@blueprint.get("/ui/demo")
def demo() -> AnyResponse:
    """Return the view of the demo: departures on a map, and charts of the demo's queries."""
    pace = _pace()
    if pace is None:
        return _message(
            404,
            "The demo does not run here",
            "It runs where it was started.",
            "Start it with `quadrill demo`.",
        )
    return _page(
        "demo",
        "demo.html",
        lambda: {
            "queries": describe_all(services().engine),
            "pace": pace.to_json(),
            "refusal": _write_refusal(),
        },
    )


@blueprint.get("/ui/demo/pace")
def demo_pace() -> dict[str, Any]:
    """Return speed and state of the demo's replay."""
    return _required_pace().to_json()


@blueprint.put("/ui/demo/pace")
def set_demo_pace() -> dict[str, Any]:
    """Change the speed of the demo's replay, pause it or let it continue."""
    pace = _required_pace()
    pace.change(received().json(PUBLIC_BODY_BYTES, "the pace"))
    return pace.to_json()


@blueprint.get("/ui/queries/<name>")
def query(name: str) -> AnyResponse:
    """Return the view of one query: live results, text, plan, windows and static parts."""
    try:
        return _page("queries", "query.html", lambda: {"query": describe(services().engine, name)}, name=name)
    except NotFoundError as error:
        return _message(404, "No such query", error.message, error.hint)


@blueprint.get("/ui/register")
def register() -> AnyResponse:
    """Return the view with the editor for a new query."""
    return _page("queries", "register.html")


@blueprint.get("/ui/streams")
def streams() -> AnyResponse:
    """Return the view of all streams with their watermarks, and a form to push elements."""
    return _page("streams", "streams.html", lambda: {"streams": describe_streams(services().engine)})


@blueprint.get("/ui/streams/one")
def stream() -> AnyResponse:
    """Return the view of the stream ``?iri=``: newest elements, rates, dead letters and declaration."""
    try:
        iri = request.args.get("iri", "")
        return _page("streams", "stream.html", lambda: {"stream": describe_stream(services().engine, iri)})
    except NotFoundError as error:
        return _message(404, "No such stream", error.message, error.hint)


@blueprint.get("/ui/connectors")
def connectors() -> AnyResponse:
    """Return the view of sources and sinks: state, rate, position, errors, and forms to declare them."""
    return _page("connectors", "connectors.html")


@blueprint.get("/ui/sparql")
def sparql() -> AnyResponse:
    """Return the view with the editor for SPARQL queries and updates."""
    return _page("sparql", "sparql.html")


@blueprint.get("/ui/store")
def store() -> AnyResponse:
    """Return the view of graphs, sizes and live commits; with ``?iri=``, the quads that contain the IRI."""
    iri = request.args.get("iri")
    if iri is not None:
        return _page("store", "browse.html", lambda: {"owned": _owned_graphs()}, iri=iri)
    return _page("store", "store.html", _store_state)


@blueprint.get("/ui/why")
def why() -> AnyResponse:
    """Return the view of the quad ``?quad=``: whether it is asserted, and how rules derive it."""
    return _page("store", "why.html", quad=request.args.get("quad", ""))


@blueprint.get("/ui/rules")
def rules() -> AnyResponse:
    """Return the view of rule sets: state, graph, number of inferred triples, strata, cost and last error."""
    return _page("rules", "rules.html", lambda: {"refusal": _write_refusal()})


@blueprint.get("/ui/rules/<name>")
def rule_set(name: str) -> AnyResponse:
    """Return the view of one rule set: rules by stratum, figures, rates, inconsistencies and last error."""
    try:
        return _page(
            "rules",
            "rule_set.html",
            lambda: {"set": services().rules.describe(name, listed=True), "refusal": _write_refusal()},
            name=name,
        )
    except NotFoundError as error:
        return _message(404, "No such rule set", error.message, error.hint)


@blueprint.get("/ui/shapes")
def shapes() -> AnyResponse:
    """Return the view of all shapes: mode, state, results by severity, cost and error."""
    return _page("shapes", "shapes.html", lambda: {"refusal": _write_refusal()})


@blueprint.get("/ui/shapes/<name>")
def shape_set(name: str) -> AnyResponse:
    """Return the view of shapes: parameters, results, the text of the shape of a result, a try-out box."""
    try:
        return _page(
            "shapes",
            "shape_set.html",
            lambda: {"shapes": described(services(), name), "refusal": _write_refusal()},
            name=name,
        )
    except NotFoundError as error:
        return _message(404, "No such shapes", error.message, error.hint)


@blueprint.get("/ui/jobs")
def jobs() -> AnyResponse:
    """Return the view of jobs: their progress, skipped input, and buttons to cancel."""
    return _page("jobs", "jobs.html", mirrored=services().jobs.has_mirror())


@blueprint.get("/ui/processes")
def processes() -> AnyResponse:
    """Return the view of the running one-shot queries, updates and graph dumps."""
    return _page("processes", "processes.html")


@blueprint.get("/ui/settings")
def settings() -> AnyResponse:
    """Return the view of settings and tokens; the data needs the role admin."""
    role = (received().caller or NOBODY).role
    return _page("settings", "settings.html", role=role)


@blueprint.get("/ui/docs")
def documents() -> AnyResponse:
    """Return the view with the table of contents of the documentation."""
    return _page("documents", "help.html", contents=documentation.contents())


@blueprint.get("/ui/docs/<path:filename>")
def document(filename: str) -> AnyResponse:
    """Return a page or a picture of the documentation."""
    found = documentation.help_page(filename)
    if found is not None:
        return _page("documents", "help.html", document=found)
    picture = documentation.help_file(filename)
    if picture is None:
        return _message(404, "No such page", f"The documentation has no page {filename}.", None)
    return Response(picture.read_bytes(), mimetype=ASSET_TYPES[picture.suffix])


@blueprint.get("/login")
def login() -> AnyResponse:
    """Return the page's login form, which asks for an access token."""
    target = local_target(request.args.get("next"), request.script_root)
    if not services().security.has_tokens():
        return redirect(target)
    session = request.cookies.get(COOKIE)
    ended = services().security.lost_session(session) if session else None
    return _render(200, "login.html", next=target, ended=ended)


@blueprint.get("/ui/static/<path:filename>")
def static(filename: str) -> AnyResponse:
    """Return a style sheet, script or picture; browsers revalidate each time and usually get 304."""
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
    # The compressed form of a static file needs a different ETag from the plain one.
    found.set_etag(f"{tag}-gzip" if packs else tag)
    return found.make_conditional(request, accept_ranges=not packs, complete_length=status.st_size)


@lru_cache(maxsize=256)
def _packed(path: str, _tag: str) -> bytes:
    """Return a static file of the web page, compressed and cached until the file is modified."""
    return packed_well(Path(path).read_bytes())


@blueprint.after_request
def _protect(response: AnyResponse) -> AnyResponse:
    response.headers["X-Content-Type-Options"] = "nosniff"
    # The policy is not "no-referrer", because browsers would then send "Origin: null" with the page's forms,
    # which counts as another site.
    response.headers["Referrer-Policy"] = "same-origin"
    if response.mimetype == HTML.media_type:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Cache-Control"] = "no-store"
    return response


def local_target(asked: str | None, prefix: str = "") -> str:
    """Return the redirect target after a login: ``asked`` if it is a path below ``prefix``, else ``prefix/``.

    A target that starts with two slashes or contains a backslash would lead to another server.
    """
    start = f"{prefix}/"
    if not asked or not asked.startswith(start) or asked.startswith("//") or "\\" in asked:
        return start
    parts = urlsplit(asked)
    if parts.scheme or parts.netloc or any(ord(character) < 32 for character in asked):
        return start
    return asked


def _page(
    here: str, template: str, first_state: Callable[[], dict[str, Any]] | None = None, **values: Any
) -> AnyResponse:
    """Render a view of the page with its initial data; redirect a sender without a role to the login form."""
    caller = received().caller or NOBODY
    if not caller.role:
        here = request.script_root + request.full_path.removesuffix("?")
        return redirect(f"{request.script_root}/login?next={quote(here, safe='')}")
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
        refusals=_refusals() if "pages" in values else {},
        unless=_unless,
        **values,
    )
    return Response(text, status=status, content_type=HTML.header)


def _message(status: int, title: str, detail: str, hint: str | None) -> Response:
    return _render(
        status, "message.html", here="queries", pages=_pages(), title=title, detail=detail, hint=hint
    )


def _pages() -> list[dict[str, str]]:
    """Return the entries of the web page's navigation bar."""
    listed = [
        ("overview", "Overview", "/"),
        ("queries", "Queries", "/ui/queries"),
        ("streams", "Streams", "/ui/streams"),
        ("connectors", "Sources & sinks", "/ui/connectors"),
        ("sparql", "SPARQL", "/ui/sparql"),
        ("store", "Store", "/ui/store"),
        ("rules", "Rules", "/ui/rules"),
        ("shapes", "Shapes", "/ui/shapes"),
        ("jobs", "Jobs", "/ui/jobs"),
        ("processes", "Running", "/ui/processes"),
        ("settings", "Settings", "/ui/settings"),
        ("documents", "Docs", "/ui/docs"),
    ]
    if _pace() is not None:
        listed.insert(0, ("demo", "Demo", "/ui/demo"))
    return [{"key": key, "title": title, "path": request.script_root + path} for key, title, path in listed]


def _pace() -> Pace | None:
    """Return the pace of the demo's replay; None if the demo does not run."""
    pace: Pace | None = current_app.config[DEMO]
    return pace


def _required_pace() -> Pace:
    pace = _pace()
    if pace is None:
        raise HttpError(404, "the demo does not run here", code="no-such-resource")
    return pace


def _write_refusal() -> str | None:
    """Return why the sender may not change the store; None if it may."""
    return _refusals()["write"]


def _refusals() -> dict[str, str | None]:
    """Return for each role why the sender may not do what needs the role; None if it may."""
    caller, read_only = received().caller or NOBODY, services().settings.read_only
    found: dict[str, str | None] = {}
    for role, step in (("push", "a push"), ("write", "a change"), ("admin", "this")):
        found[role] = None
        if read_only and role != "admin":
            found[role] = "This server is read-only."
        elif not caller.may(role):
            found[role] = f"This token has the role {caller.role}; {step} needs the role {role}."
    return found


def _unless(role: str) -> Markup:
    """Return the attributes that switch a button off, with the reason, if the sender lacks a role."""
    reason = _refusals()[role]
    return Markup("") if reason is None else Markup(' disabled title="{}"').format(reason)


def _owned_graphs() -> list[str]:
    """Return the graphs of views, rule sets and shapes."""
    return sorted(graph_key(graph) for graph in services().store.queue.owned)


def _store_state() -> dict[str, Any]:
    """Return graph sizes at a store version, to which the script of the view adds later commits."""
    quads = services().store
    while True:
        version = quads.reader.version
        counts = quads.reader.graph_counts()
        if quads.reader.version == version:
            break
    inferred = quads.queue.inferred_graphs()
    graphs = [
        {
            "iri": "" if isinstance(graph, DefaultGraph) else graph_key(graph),
            "quads": many,
            "inferred": graph in inferred,
        }
        for graph, many in counts.items()
    ]
    return {"version": version, "graphs": sorted(graphs, key=lambda graph: str(graph["iri"]))}


def _vary(response: AnyResponse) -> AnyResponse:
    response.vary.add("Accept")
    return response
