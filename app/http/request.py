"""An HTTP request, with readers of its parameters, headers and JSON body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote_to_bytes

from werkzeug.http import parse_cookie

from .bodies import read_body, utf8
from .callers import Caller
from .fields import Fields, LargeBody
from .parameters import Arguments, arguments_of, json_object

Line: TypeAlias = tuple[str, str, bytes, str]
"""The first line of a request: method, path, query string, and target (the path with the query string)."""
SERVER_NAME = "Quadrill"
FORWARDED_PROTO = "X-Forwarded-Proto"


class FastLaneThread(Protocol):
    """The thread of the fast lane, which answers short requests one after the other."""

    def step_aside(self) -> None:
        """Release the connections in the fast lane, because the lane's current answer is not short."""


class Request:
    """One HTTP request; ``path``, ``query_string`` and ``target`` are not percent-decoded.

    Attributes:
        fields: the parsed header fields of the request.
        headers: the header values by name, with names written like ``Content-Type``.
        body_at: offset of the request body in the bytes that start with the request's head.
        body: the request body, unless it is large.
        stream: a large request body, which is received while it is read; None for a small body.
        client: the IP address of the client.
        port: the port that the server listens on.
        trusted: True if a trusted proxy has sent the request.
        prefix: the path below which the client sees the server, such as ``/kg``; empty for none. After the
            search in the table of routes, ``path`` is without the prefix; ``target`` stays as received.
        lent: True if the answer has taken over the connection and returns the connection later.
        caller: the sender of the request; None before the authorisation.
        found: the result of the search in the table of routes; None before the search.
        names: the values of the placeholders in the route's path.
        needed: the role that the request needs; known after the authorisation.
        most_body_bytes: limit in bytes of the body of a request that needs no token; 0 for no such limit.
        lane: the fast lane, if its thread processes this request; else None.
    """

    __slots__ = (
        *("body", "body_at", "caller", "client", "fields", "found", "headers", "lane", "lent"),
        *(
            "method",
            "most_body_bytes",
            "names",
            "needed",
            "path",
            "port",
            "prefix",
            "query_string",
            "stream",
            "target",
            "trusted",
        ),
    )

    def __init__(self, line: Line, fields: Fields, body_at: int = 0, body: bytes = b"") -> None:
        self.method, self.path, self.query_string, self.target = line
        self.fields = fields
        self.headers = fields.values
        self.body_at = body_at
        self.body = body
        self.stream: LargeBody | None = None
        self.client = ""
        self.port = 0
        self.trusted = False
        self.prefix = ""
        self.lent = False
        self.caller: Caller | None = None
        self.needed = ""
        self.found: Any = None
        self.names: Mapping[str, str] = {}
        self.most_body_bytes = 0
        self.lane: FastLaneThread | None = None

    # --- address --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name of the query, stream or other resource in the request's path; None if it has no name."""
        return self.names.get("name")

    @property
    def arguments(self) -> Arguments:
        """The parameters of the request's query string.

        Raises: HttpError 400 when the query string is not UTF-8 or has too many parameters.
        """
        return arguments_of(self.query_string)

    @property
    def encrypted(self) -> bool:
        """True if a trusted proxy says in ``X-Forwarded-Proto`` that the client uses HTTPS."""
        proto = self.headers.get(FORWARDED_PROTO, "") if self.trusted else ""
        return proto.rpartition(",")[2].strip().lower() == "https"

    # --- header ---------------------------------------------------------------------------------------------

    @property
    def accept(self) -> str | None:
        """The value of the header ``Accept``; None without the header."""
        return self.headers.get("Accept")

    @property
    def media_type(self) -> str:
        """The media type of the request body without parameters, in lower case; empty if unknown."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies of the request by name."""
        return parse_cookie(self.headers.get("Cookie"))

    @property
    def head_only(self) -> bool:
        """True if the HTTP method of the request is HEAD."""
        return self.method == "HEAD"

    @property
    def user(self) -> str:
        """The label of the sender's access token; empty before the authorisation."""
        return "" if self.caller is None else self.caller.label

    # --- body -----------------------------------------------------------------------------------------------

    def read(self, limit: int, what: str = "the body") -> bytes:
        """Return the request body, decompressed if it is encoded with gzip or deflate.

        Raises: HttpError 413 when the body has more than ``limit`` bytes, 415 for another Content-Encoding;
            400 when the body cannot be decompressed or, as a large body, is malformed or ends early, 408 when
            a large body arrives too slowly.
        """
        if self.stream is None and not self.most_body_bytes and "Content-Encoding" not in self.headers:
            if len(self.body) <= limit:
                return self.body  # most request bodies need no decompression
        return read_body(self, limit, what)

    def text(self, limit: int, what: str) -> str:
        """Return the request body as text, decoded from UTF-8.

        Raises: the errors of `read`, and HttpError 400 when the request body is not UTF-8.
        """
        return utf8(self.read(limit, what), what)

    def json(self, limit: int, what: str) -> dict[str, Any]:
        """Return the request body as a JSON object; an empty body gives an empty object.

        Raises: the errors of `text`, and HttpError 400 with line and column when the request body is not a
            JSON object.
        """
        text = self.text(limit, what)
        return json_object(text, what) if text.strip() else {}


def decoded(path: str) -> str:
    """Return a path percent-decoded, except for encoded slashes, and with exactly one slash at its start.

    Some clients join a base URL and a path with two slashes. Routes, roles and all other rules about paths
    use the decoded path of a request.
    """
    if "%" in path:
        kept = path.replace("%2F", "%252F").replace("%2f", "%252F")
        path = unquote_to_bytes(kept).decode("utf-8", "replace")
    return f"/{path.lstrip('/')}"
