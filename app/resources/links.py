"""The base URL of resource addresses in answers."""

from __future__ import annotations

from ..http.request import SERVER_NAME, Request
from ..wiring import Services


def base_url(services: Services, request: Request) -> str:
    """Return the URL of the server as the client sees it, with a slash at the end."""
    configured = services.settings.public_url
    if configured:
        return configured.rstrip("/") + "/"
    # Names of graphs that a URL path names begin with the server's URL, so its host name is normalised (RFC
    # 3986 section 6.2.2.1).
    host = (request.headers.get("Host") or f"{SERVER_NAME}:{request.port}").lower()
    scheme, port = ("https", ":443") if request.encrypted else ("http", ":80")
    return f"{scheme}://{host.removesuffix(port).removesuffix(':')}{request.prefix}/"


def own_url(services: Services, request: Request) -> str:
    """Return the URL of a request as the client sees it, with the query string."""
    query = request.query_string.decode("latin-1")
    path = request.path.lstrip("/")
    return base_url(services, request) + (f"{path}?{query}" if query else path)
