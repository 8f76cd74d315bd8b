"""The table of routes, and the search for the route of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ..http import websocket
from ..http.answers import Later, NeedsWorker, StreamedAnswer, WholeAnswer
from ..http.callers import PUBLIC_BODY_BYTES
from ..http.errors import HttpError
from ..http.request import Request, decoded
from ..server.takeover import Takeover
from ..wiring import Services
from .mounting import Mount

Result: TypeAlias = "WholeAnswer | StreamedAnswer | Later | Takeover | NeedsWorker"
Handler: TypeAlias = Callable[[Services, Request], Result]
"""The function that handles a route's requests: returns an answer, or raises an error for the client."""
_READING = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})
_PLACEHOLDERS = {
    "name": ("<part:name>", "[^/:]+"),
    "path": ("<path:path>", "[^/].*"),
    "filename": ("<path:filename>", "[^/].*"),
}
"""Metrics label and regular expression of some path placeholders; others match one part of a path."""
_MAX_KEPT_PATH = 512


@dataclass(frozen=True, slots=True)
class Route:
    """A route: one method on one path, with its handler, role and description.

    Attributes:
        method: the HTTP method of the route in capitals.
        path: the path of the route, with placeholders in braces.
        handler: the function that answers the requests of the route.
        summary: summary of the route for the OpenAPI document; empty for a route that the document omits.
        statuses: HTTP statuses of the route's successful answers.
        parameters: names of the route's query-string parameters.
        body: media types of the request bodies that the route accepts.
        answers: media types of the route's answers.
        role: the role that the route needs, or a function that derives the role from a request; empty for
            the default role of the method.
        public_bytes: maximum body size of a request that needs no token, or the name of a setting with it.
        short: True if the fast lane may answer requests of this route.
        pool: name of the thread pool that processes the route; empty for the default pool.
        while_starting: True if the route is available while the journal is replayed.
        websocket: True if requests of the route open a WebSocket.
        head: summary of HEAD in the OpenAPI document; empty if the document omits HEAD.
        labelled: the label of the route in metrics; empty for a label derived from the path.
        described_role: the role in the OpenAPI document if ``role`` is a function.
    """

    method: str
    path: str
    handler: Handler
    summary: str = ""
    statuses: tuple[int, ...] = (200,)
    parameters: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    role: str | Callable[[Services, Request], str] = ""
    public_bytes: int | str = field(default=PUBLIC_BODY_BYTES, kw_only=True)
    short: bool = field(default=False, kw_only=True)
    pool: str = field(default="", kw_only=True)
    while_starting: bool = field(default=False, kw_only=True)
    websocket: bool = field(default=False, kw_only=True)
    head: str = field(default="", kw_only=True)
    labelled: str = field(default="", kw_only=True)
    described_role: str = field(default="", kw_only=True)

    @property
    def needed(self) -> str | Callable[[Services, Request], str]:
        """The role that the route needs: its ``role``, or the default role of its method."""
        return self.role or role_of_method(self.method)

    @property
    def label(self) -> str:
        """The label of the route in metrics, by default its path with placeholders like ``<part:name>``."""
        return self.labelled or re.sub(r"{(\w+)}", lambda found: _placeholder(found[1])[0], self.path)


class RouteMatch(NamedTuple):
    """The result of the search for the route of a request.

    Attributes:
        route: the route that was found; None if no route has the path and the method.
        names: the values of the placeholders in the request's path.
        label: the label of the request's path in metrics; ``none`` without a route, except for OPTIONS of a
            known path.
        needed: the role that the request needs, or a function that derives the role from the request.
        methods: the HTTP methods that the path supports; empty for an unknown path.
    """

    route: Route | None
    names: Mapping[str, str]
    label: str
    needed: str | Callable[[Services, Request], str]
    methods: frozenset[str]

    def refusal(self, request: Request) -> HttpError:
        """Return the error for a request without a route: 404 or 405, or 400 for a WebSocket."""
        path = decoded(request.path)
        if not self.methods:
            return HttpError(404, f"there is no resource at {path}", code="no-such-resource")
        methods = self.methods
        if websocket.is_opened(request.headers) and request.method in methods:
            methods = methods - {request.method, "HEAD" if request.method == "GET" else request.method}
            if methods == {"OPTIONS"}:
                return HttpError(400, f"no WebSocket is opened at {path}", code="bad-request")
        return HttpError(
            405,
            f"{request.method} is not possible at {path}",
            code="method-not-allowed",
            headers={"Allow": ", ".join(sorted(methods))},
        )


class _Resource:
    """The routes of one path, by HTTP method."""

    def __init__(self, path: str, label: str) -> None:
        self.label = label
        self.is_literal = "{" not in path
        self.routes: dict[tuple[str, bool], Route] = {}
        pattern = re.sub(
            r"\\{(\w+)\\}", lambda found: f"(?P<{found[1]}>{_placeholder(found[1])[1]})", re.escape(path)
        )
        self.match = re.compile(pattern, re.DOTALL).fullmatch

    @property
    def methods(self) -> frozenset[str]:
        """The methods that the path supports, including OPTIONS, and HEAD if the path supports GET."""
        methods = {method for method, _ in self.routes}
        return frozenset(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()))


class RouteTable:
    """The table of routes; a literal path takes precedence over a path with placeholders."""

    def __init__(self, routes: Iterable[Route], public_url: str = "") -> None:
        resources: dict[str, _Resource] = {}
        for route in routes:
            resource = resources.setdefault(route.path, _Resource(route.path, route.label))
            resource.routes[route.method, route.websocket] = route
        self._by_start: dict[str, list[_Resource]] = {}
        for path, resource in sorted(resources.items(), key=lambda item: not item[1].is_literal):
            self._by_start.setdefault(_start(path), []).append(resource)
        self._kept = lru_cache(maxsize=4096)(self._search)
        self._mount = Mount(public_url, lambda path: _start(path) in self._by_start)

    def find(self, request: Request) -> RouteMatch:
        """Search the route of a request; the result is cached in the request.

        The prefix that clients see before all paths of the server is removed from the request's path first.
        """
        found: RouteMatch | None = request.found
        if found is None:
            self._mount.strip(request)
            found = request.found = self._find(request)
        return found

    def _find(self, request: Request) -> RouteMatch:
        opens = "Upgrade" in request.headers and websocket.is_opened(request.headers)
        method = "GET" if request.method == "HEAD" else request.method
        search = self._kept if len(request.path) <= _MAX_KEPT_PATH else self._search
        return search(request.path, method, opens)

    def _search(self, raw: str, method: str, opens: bool) -> RouteMatch:
        path = decoded(raw)
        methods: set[str] = set()
        label = "none"
        for resource in self._by_start.get(_start(path), ()):
            found = resource.match(path)
            if found is not None:
                route = resource.routes.get((method, opens))
                if route is not None:
                    return RouteMatch(
                        route, found.groupdict(), resource.label, route.needed, resource.methods
                    )
                if method == "OPTIONS" and not methods:
                    label = resource.label
                methods |= resource.methods
        return RouteMatch(None, {}, label, role_of_method(method), frozenset(methods))


def role_of_method(method: str) -> str:
    """Return the default role for an HTTP method: ``read`` or ``write``."""
    return "read" if method in _READING else "write"


def _start(path: str) -> str:
    """Return the first part of a request's path, up to a slash or colon."""
    return path[1:].partition("/")[0].partition(":")[0]


def _placeholder(name: str) -> tuple[str, str]:
    return _PLACEHOLDERS.get(name, (f"<{name}>", "[^/]+"))
