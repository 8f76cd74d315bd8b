"""Functions that build a client's requests and interpret responses, without any network access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from .answers import Answer
from .bodies import body_of
from .errors import QuadrillError
from .records import json_records

if TYPE_CHECKING:
    import httpx

Instant: TypeAlias = int | str | datetime
"""An event time: milliseconds since 1970, text of RFC 3339, or a datetime; without a time zone in UTC."""
DEFAULT_SERVER = "http://127.0.0.1:7878/"
TURTLE = "text/turtle"
RESULTS = "application/sparql-results+json, application/n-quads;q=0.9"


class ConnectionOptions(NamedTuple):
    """Options of a client's connections: bearer token, seconds that a request may wait, use of proxies."""

    token: str | None
    timeout: float
    trust_env: bool


@dataclass(frozen=True, slots=True)
class HttpCall:
    """HTTP request to the server, not sent yet."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    json: Any = None
    patient: bool = False
    """True if the response may take any time."""

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of this request for httpx."""
        found: dict[str, Any] = {"params": dict(self.params), "headers": dict(self.headers)}
        if self.content is not None:
            found["content"] = self.content
        if self.json is not None:
            found["json"] = self.json
        if self.patient:
            found["timeout"] = None
        return found


def base_of(url: str) -> str:
    """Return the address of a server with a scheme and a final slash."""
    return (url if "://" in url else f"http://{url}").rstrip("/") + "/"


def headers_of(token: str | None) -> dict[str, str]:
    """Return the headers that every request of a client has."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def query(text: str, timeout: float | None) -> HttpCall:
    """Build the request for a one-shot SPARQL query."""
    params = {} if timeout is None else {"timeout": f"{timeout:g}"}
    headers = {"Content-Type": "application/sparql-query", "Accept": RESULTS}
    return HttpCall("POST", "query", params, headers, text.encode())


def update(text: str) -> HttpCall:
    """Build the request for a SPARQL update."""
    return HttpCall(
        "POST", "update", headers={"Content-Type": "application/sparql-update"}, content=text.encode()
    )


def stream(method: str, name: str, what: str = "", **members: Any) -> HttpCall:
    """Build a request about one stream, given by name or IRI."""
    params = {}
    if ":" in name:
        path, params["iri"] = f"streams{what}", name
    else:
        path = f"streams/{quote(name, safe='')}{what}"
    return HttpCall(method, path, params, **members)


def push(
    name: str,
    data: Any,
    *,
    media_type: str | None,
    at: Instant | None,
    each: str | None,
    partial: bool,
    wait: bool,
    key: str | None,
) -> HttpCall:
    """Build the request that pushes elements to a stream.

    Raises: the errors of `body_of`.
    """
    content, kind = body_of(data, media_type)
    found = stream("POST", name)
    params = dict(found.params)
    params |= {} if at is None else {"at": instant(at)}
    params |= {} if each is None else {"each": each}
    params |= {word: "true" for word, wanted in (("partial", partial), ("wait", wait)) if wanted}
    headers = {"Content-Type": kind} | ({} if key is None else {"Idempotency-Key": key})
    return HttpCall("POST", found.path, params, headers, content)


def instant(at: Instant) -> str:
    """Return an event time as the value of a parameter."""
    return at.isoformat() if isinstance(at, datetime) else str(at)


def trial(
    records: Any, to: str | None, mapping: Mapping[str, Any] | None, media_type: str | None
) -> HttpCall:
    """Build the request that applies a mapping to records: a stream's mapping, or one in the request.

    Raises:
        ValueError: not exactly one of stream and mapping is given.
        TypeError, ValueError: the records cannot be sent, or a text lacks its media type.
    """
    if (to is None) == (mapping is None):
        raise ValueError("map needs a stream or a mapping")
    if to is None:
        given = records if isinstance(records, str) else list(json_records(records))
        return HttpCall("POST", "streams:map", json={"mapping": mapping, "records": given})
    content, kind = body_of(records, media_type)
    return stream("POST", to, ":map", headers={"Content-Type": kind}, content=content)


def connector(method: str, role: str, name: str, what: str = "", **given: Any) -> HttpCall:
    """Build a request about one source or sink."""
    return HttpCall(method, f"{role}/{quote(name, safe='')}{what}", **given)


def rules(method: str, name: str, **given: Any) -> HttpCall:
    """Build a request about one rule set."""
    return HttpCall(method, f"rules/{quote(name, safe='')}", **given)


def put_rules(name: str, given: Mapping[str, Any], *, wait: bool) -> HttpCall:
    """Build the request that creates or replaces a rule set."""
    params = {} if wait else {"wait": "false"}
    return rules("PUT", name, params=params, json=members(given), patient=wait)


def shapes(method: str, name: str, what: str = "", **given: Any) -> HttpCall:
    """Build a request about the shapes of one name."""
    return HttpCall(method, f"shapes/{quote(name, safe='')}{what}", **given)


def put_shapes(
    name: str, graph: Any, from_graph: str | None, media_type: str, given: Mapping[str, Any]
) -> HttpCall:
    """Build the request that creates or replaces shapes.

    Raises:
        ValueError: not exactly one of ``graph`` and ``from_graph`` is given.
        TypeError: the shapes graph is of a type that cannot be sent.
    """
    if (graph is None) == (from_graph is None):
        raise ValueError("put needs a shapes graph or from_graph")
    if from_graph is not None:
        return shapes("PUT", name, params=given, json={"graph": from_graph}, patient=True)
    content, kind = body_of(graph, media_type)
    return shapes("PUT", name, params=given, headers={"Content-Type": kind}, content=content, patient=True)


def report(name: str, limit: int | None) -> HttpCall:
    """Build the request for the validation report of shapes."""
    params = {} if limit is None else {"limit": str(limit)}
    return shapes("GET", name, "/report", params=params, headers={"Accept": TURTLE})


def validate(name: str, data: Any, media_type: str, *, with_data: bool) -> HttpCall:
    """Build the request that validates data without storing the data."""
    content, kind = body_of(data, media_type)
    params = {"shapes": name} | ({"with": "data"} if with_data else {})
    headers = {"Content-Type": kind, "Accept": TURTLE}
    return HttpCall("POST", "shapes:validate", params, headers, content)


def members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a declaration, without the final underscore of names such as ``from_``."""
    return {name.removesuffix("_"): value for name, value in given.items()}


def register(name: str | None, text: str, replace: bool, options: Mapping[str, Any]) -> HttpCall:
    """Build the request that registers a continuous query."""
    document = {"query": text, **options}
    if name is None:
        return HttpCall("POST", "queries", json=document)
    return HttpCall("PUT", _query(name), {"replace": "true"} if replace else {}, json=document)


def one_query(method: str, name: str, what: str = "", **members: Any) -> HttpCall:
    """Build a request about one registered query."""
    return HttpCall(method, _query(name) + what, **members)


def feed(name: str, last: int | None, snapshot: bool) -> HttpCall:
    """Build the request that subscribes to a feed, after the event with the id ``last``."""
    headers = {"Accept": "text/event-stream"}
    params = {}
    if last is not None and last > 0:
        headers["Last-Event-ID"] = str(last)
    elif last == 0:
        params["from"] = "0"
    elif snapshot:
        params["snapshot"] = "true"
    return HttpCall("GET", f"{_query(name)}/results", params, headers)


def _query(name: str) -> str:
    return f"queries/{quote(name, safe='')}"


def answer_of(media_type: str, text: str, document: Any) -> Answer:
    """Return the answer in a response body; the function ``document`` parses the body as JSON."""
    return Answer(document() if "json" in media_type else {"quads": text})


def problem(status: int, reason: str, document: Any) -> QuadrillError:
    """Build the exception for an error response; ``document`` is its problem document, or None."""
    if isinstance(document, dict) and "detail" in document:
        return QuadrillError(str(document["detail"]), status=status, problem=document)
    return QuadrillError(f"the server answered {status} {reason}", status=status)


def lost(url: str, error: httpx.HTTPError) -> QuadrillError:
    """Build the exception for a request without a response."""
    return QuadrillError(f"no server answers at {url}: {error or type(error).__name__}")


def refused(answer: httpx.Response) -> QuadrillError:
    """Build the exception for a response with an error status."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    error = problem(answer.status_code, answer.reason_phrase, document)
    seconds = answer.headers.get("Retry-After", "")
    error.retry_after = float(seconds) if seconds.isascii() and seconds.isdigit() else None
    return error
