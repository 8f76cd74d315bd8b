"""The path below which clients see the server, such as ``/kg`` behind a reverse proxy."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from ..http.request import Request

FORWARDED_PREFIX = "X-Forwarded-Prefix"
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
_MISREAD = re.compile(r"%(?:2f|5c)|/\.\.?(?:/|$)", re.I)
"""Parts of a path that another program may read as other folders, or as the name of a host."""
_MAX_PREFIX = 256
"""Maximum length of a prefix, which every link of an answer repeats."""


class Mount:
    """The prefix of the server's paths as clients see them, and its removal from the paths of requests.

    The setting ``public_url`` decides, even if it has no path. Without it, the last value of the header
    ``X-Forwarded-Prefix`` decides, but only in requests of a trusted proxy. A proxy may pass on paths with or
    without the prefix, except for a prefix that begins like a resource of the server, such as ``/store``:
    the proxy has to remove it, because ``/store/x`` would have two meanings.
    """

    def __init__(self, public_url: str, is_resource: Callable[[str], bool]) -> None:
        """Make the mount of a server.

        Args:
            public_url: the setting of that name; empty if the prefix depends on the request.
            is_resource: returns whether the server has a resource whose path begins with a path's first part.
        """
        self._public = prefix_of(urlsplit(public_url).path) if public_url else None
        self._is_resource = is_resource

    def strip(self, request: Request) -> None:
        """Set the prefix of a request, and remove it from the path unless the proxy has removed it."""
        prefix = self._public
        if prefix is None:
            if not request.trusted:
                return
            prefix = prefix_of(request.headers.get(FORWARDED_PREFIX, "").rpartition(",")[2].strip())
        if not prefix:
            return
        request.prefix = prefix
        path = request.path
        if (path == prefix or path.startswith(f"{prefix}/")) and not self._is_resource(prefix):
            request.path = path[len(prefix) :] or "/"


def prefix_of(text: str) -> str:
    """Return a path without the slash at its end; empty for ``/`` and for a text that is no plain path."""
    prefix = text.rstrip("/")
    if _MISREAD.search(prefix):
        return ""
    return prefix if len(prefix) <= _MAX_PREFIX and _PREFIX.fullmatch(prefix) else ""
