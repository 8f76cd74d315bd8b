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
    return f"http://{host.removesuffix(':80').removesuffix(':')}/"
