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
"""Method, path, query string of a request line, and the target that holds the latter two."""
SERVER_NAME = "Quadrill"


class FastLaneThread(Protocol):
    """The thread of the fast lane, which answers short requests one after the other."""

    def step_aside(self) -> None:
        """Release the connections that wait for the fast lane, because the current answer is not short."""


class Request:
    """One request. ``path``, ``query_string`` and ``target`` are as received, not decoded.

    Attributes:
        fields: the parsed header fields.
        headers: the values of the header by name, each word of a name with one capital.
        body_at: offset of the body in the bytes that contain the head.
        body: the whole body, unless it is large.
        stream: a large body, received while it is read.
        client: the client's address.
        port: the port that the server listens on.
        trusted: True if a trusted proxy has sent the request.
        lent: True if the answer has taken over the connection and returns the connection later.
        caller: the sender, after the authorisation.
        found: the result of the search in the table of routes, or None before the search.
        names: the values of the placeholders in the route's path.
        needed: the role that the request needs, after the authorisation.
        most_body_bytes: limit of the body of a request that needs no token; 0 for none.
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
        """The name of the resource in the path; None if the path has no name."""
        return self.names.get("name")

    @property
    def arguments(self) -> Arguments:
        """The parameters of the address.

        Raises: HttpError 400 when they are not UTF-8 or too many.
        """
        return arguments_of(self.query_string)

    # --- header ---------------------------------------------------------------------------------------------

    @property
    def accept(self) -> str | None:
        """The header ``Accept``."""
        return self.headers.get("Accept")

    @property
    def media_type(self) -> str:
        """The type of the body without parameters, in lower case; empty without one."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name."""
        return parse_cookie(self.headers.get("Cookie"))

    @property
    def head_only(self) -> bool:
        """True for HEAD."""
        return self.method == "HEAD"

    @property
    def user(self) -> str:
        """The label of the sender's token."""
        return "" if self.caller is None else self.caller.label

    # --- body -----------------------------------------------------------------------------------------------

    def read(self, limit: int, what: str = "the body") -> bytes:
        """Return the body, decompressed if it is encoded with gzip or deflate.

        Raises: HttpError 413 when it has more than ``limit`` bytes, 415 for another Content-Encoding.
        """
        if self.stream is None and not self.most_body_bytes and "Content-Encoding" not in self.headers:
            if len(self.body) <= limit:
                return self.body  # nearly always
        return read_body(self, limit, what)

    def text(self, limit: int, what: str) -> str:
        """The body as UTF-8 text.

        Raises: as `read`; HttpError 400 when it is not UTF-8.
        """
        return utf8(self.read(limit, what), what)

    def json(self, limit: int, what: str) -> dict[str, Any]:
        """The body as a JSON object; an empty body is an empty object.

        Raises: as `text`; HttpError 400 with line and column when it is not one.
        """
        text = self.text(limit, what)
        return json_object(text, what) if text.strip() else {}


def decoded(path: str) -> str:
    """A path percent-decoded, but for slashes that are part of a name, and with one slash at its beginning.

    Clients join addresses with two. Whatever decides by a path decides by this one, as the routes do.
    """
    if "%" in path:
        kept = path.replace("%2F", "%252F").replace("%2f", "%252F")
        path = unquote_to_bytes(kept).decode("utf-8", "replace")
    return f"/{path.lstrip('/')}"
