"""Requests of commands over `http.client`, which begins in a tenth of the time of an HTTP library.

Connections are kept and taken up again, bodies may be pieces, proxies are those of the environment.
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
_PIECE = 1 << 16
_PORTS = {"http": 80, "https": 443}

Body = str | bytes | Iterable[bytes] | None
HttpError = (OSError, http.client.HTTPException)
"""What a request, or the reading of its answer, raises."""


class CutError(http.client.HTTPException):
    """Error that a connection was closed before the end of a response body."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that has been read as a whole."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The value of the body; raises ValueError when it is no JSON."""
        return json.loads(self.body)


class HttpConnection:
    """A connection to the server at an address, whose path stands before that of each request."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._base = parts.path.rstrip("/") + "/"
        self._headers = _authorised(parts) | {"User-Agent": "quadrill"} | dict(headers)
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Body = None,
        json: Any = None,
        silence: float | None = None,
    ) -> http.client.HTTPResponse:
        """One request and the head of its answer, which has to be read or closed before the next one.

        ``silence`` is how many seconds may pass without a byte of the answer; None is for ever.
        """
        sent = self._headers | dict(headers or {})
        if json is not None:
            content, sent = _json(json), {"Content-Type": "application/json"} | sent
        body = content.encode() if isinstance(content, str) else content
        through = _proxy(self._parts)
        target = self._target(path, params)
        if through is not None and self._parts.scheme == "http":
            # Of https the proxy sees the tunnel alone.
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
                # Who refuses a body does not read all of it, and has answered before.
                if body is None:
                    raise
            return connection.getresponse()
        except BaseException:
            self.close()
            raise

    def _target(self, path: str, params: Mapping[str, str] | None) -> str:
        query = f"?{urlencode(params)}" if params else ""
        return f"{self._base}{path}{query}"

    def _open(self, through: SplitResult | None) -> http.client.HTTPConnection:
        """The connection, a new one where the server has ended the old one meanwhile."""
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
    """Read the body of a response and return both."""
    return HttpAnswer(answer.status, answer.reason, headers_of(answer), answer.read())


def pieces_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body of an answer as it comes; raises CutError when it ends early."""
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
    """The fields of a head, their names in small letters."""
    return {name.lower(): value for name, value in answer.headers.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _authorised(parts: SplitResult, field: str = "Authorization") -> dict[str, str]:
    """The header for the name and password that an address has."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {field: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _proxy(parts: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for an address; raises ReportedError for another kind."""
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ):
        return None
    # Few have a proxy, and this takes long to begin.
    from urllib.request import getproxies_environment, proxy_bypass

    found = getproxies_environment()
    named = found.get(parts.scheme) or found.get("all")
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http":
        raise ReportedError(
            f"the environment names a proxy whose address begins with {proxy.scheme}://, which is not known",
            hint="Name one of http:// by http_proxy or https_proxy, or the server's host in no_proxy.",
        )
    return proxy if proxy.hostname else None
