"""HTTP client of the commands, built on `http.client`.

The import of `http.client` takes a tenth of the time that the import of an HTTP library takes.
`HttpConnection` reuses its connection, sends bodies in pieces, and uses the proxies that the environment
names.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import select
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from quadrill.store.errors import ReportedError

CONNECT_SECONDS = 5.0
"""Maximum seconds of an attempt to connect to a server."""
_PIECE = 1 << 16
"""Maximum bytes of one read from a response body."""
_PORTS = {"http": 80, "https": 443}

Parameters = Mapping[str, str | list[str]]
Body = str | bytes | Iterable[bytes] | None
"""Body of a request; an iterable is sent in chunks, because its length is unknown."""
HttpError = (OSError, http.client.HTTPException)
"""Exceptions that an HTTP request or the reading of its response may raise."""


class CutError(http.client.HTTPException):
    """Error that a connection was closed before the end of a response body."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """HTTP response whose whole body has been read."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The response body, decoded as UTF-8."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Parse the response body as JSON; raise ValueError when the body is not JSON."""
        return json.loads(self.body)


class HttpConnection:
    """Reusable connection to an HTTP server; paths of requests are relative to the server's address."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._base = parts.path.rstrip("/") + "/"
        self._headers = _authorised(parts) | {"User-Agent": "quadrill"} | dict(headers)
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection to the server; the next request opens a new connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        headers: Mapping[str, str] | None = None,
        content: Body = None,
        json: Any = None,
        silence: float | None = None,
    ) -> http.client.HTTPResponse:
        """Send one request and return the response, which must be read or closed before the next request.

        A parameter with a list of values is sent once for each value.
        ``silence`` is the maximum number of seconds without a byte of the response; None means no limit.
        """
        sent = self._headers | dict(headers or {})
        if json is not None:
            content, sent = _json(json), {"Content-Type": "application/json"} | sent
        body = content.encode() if isinstance(content, str) else content
        through = _proxy(self._parts)
        target = self._target(path, params)
        if through is not None and self._parts.scheme == "http":
            # A proxy needs the whole URL of an http request; an https request goes through a tunnel.
            target = f"http://{self._parts.netloc.rpartition('@')[2]}{target}"
            sent = _authorised(through, "Proxy-Authorization") | sent
        connection = self._open(through)
        assert connection.sock is not None
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            sent["Transfer-Encoding"] = "chunked"
        try:
            connection.sock.settimeout(silence)
            try:
                connection.request(method, target, body, sent, encode_chunked=chunked)
            except (BrokenPipeError, ConnectionResetError):
                # A server that rejects a body sends its response and closes before it has read the whole
                # body.
                if body is None:
                    raise
            return connection.getresponse()
        except BaseException:
            self.close()
            raise

    def _target(self, path: str, params: Parameters | None) -> str:
        query = f"?{urlencode(params, doseq=True)}" if params else ""
        return f"{self._base}{path}{query}"

    def _open(self, through: SplitResult | None) -> http.client.HTTPConnection:
        """Return the open connection to the server, or a new one if the server has closed the old one."""
        if self._kept is not None and self._kept.sock is not None:
            if not select.select([self._kept.sock], [], [], 0)[0]:
                return self._kept
            self.close()
        parts, there = self._parts, through or self._parts
        assert there.hostname is not None
        port = there.port or _PORTS[there.scheme]
        if parts.scheme == "https":
            opened: http.client.HTTPConnection = http.client.HTTPSConnection(
                there.hostname, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context()
            )
        else:
            opened = http.client.HTTPConnection(there.hostname, port, timeout=CONNECT_SECONDS)
        if through is not None and parts.scheme == "https":
            assert parts.hostname is not None
            opened.set_tunnel(parts.hostname, parts.port or 443, _authorised(through, "Proxy-Authorization"))
        opened.connect()
        self._kept = opened
        return opened


def read_whole(answer: http.client.HTTPResponse) -> HttpAnswer:
    """Read the whole body of a response, and return status, headers and body."""
    return HttpAnswer(answer.status, answer.reason, headers_of(answer), answer.read())


def pieces_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body of a response in pieces as they arrive; raise CutError when the body is incomplete."""
    try:
        while piece := answer.read1(_PIECE):
            yield piece
        if answer.length:
            raise CutError(f"{answer.length} bytes are missing")
    except http.client.IncompleteRead as error:
        raise CutError("the last piece is missing") from error
    finally:
        answer.close()


def headers_of(answer: http.client.HTTPResponse) -> dict[str, str]:
    """Return the header fields of a response, with names in lower case."""
    return {name.lower(): value for name, value in answer.headers.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _authorised(parts: SplitResult, field: str = "Authorization") -> dict[str, str]:
    """Return the Basic authentication header for a URL's user name and password; empty without a name."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {field: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _proxy(parts: SplitResult) -> SplitResult | None:
    """Return the http proxy that the environment sets for a URL; raise ReportedError for another scheme."""
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ):
        return None
    # `urllib.request` is imported here, because its import is slow and few environments set a proxy.
    from urllib.request import getproxies_environment, proxy_bypass

    found = getproxies_environment()
    named = found.get(parts.scheme) or found.get("all")
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http":
        raise ReportedError(
            f"the environment names a proxy with the unsupported scheme {proxy.scheme}://",
            hint="Name one of http:// by http_proxy or https_proxy, or the server's host in no_proxy.",
        )
    return proxy if proxy.hostname else None
