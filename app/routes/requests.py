"""Reading of requests for all routes: the body within limits, parameters, JSON."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Container, Iterable, Mapping
from typing import Any, TypeAlias

from flask import Response, current_app, g, request
from werkzeug.datastructures import MultiDict

from quadrill.store.changes.commit import Commit
from quadrill.store.documents.members import NAME
from quadrill.store.network.unpacking import Unpacker

from ..evaluation.answer import Client, client_of
from ..http.bodies import too_large, utf8
from ..http.errors import HttpError
from ..wiring import Services

Json: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
_CHUNK = 1 << 16


def services() -> Services:
    """The store, the registry and the engine behind this application."""
    found: Services = current_app.extensions["quadrill"]
    return found


def client() -> Client:
    """The client's wishes in the present request."""
    headers = request.headers
    return client_of(
        services().settings,
        headers.get("Accept"),
        headers.get("Accept-Encoding"),
        head_only=request.method == "HEAD",
    )


def user() -> str:
    """The label of who asks."""
    identity = g.get("identity")
    return identity.label if identity is not None else ""


def body_bytes(limit: int, what: str = "the body") -> bytes:
    """The request body, unpacked when it says gzip or deflate.

    Raises: HttpError 413 when it has more than ``limit`` bytes, 415 for another Content-Encoding.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(what, limit, length)
    unpacker = _unpacker(request.headers.get("Content-Encoding", "identity").strip().lower())
    # One growing block: many small ones would stay with the thread's memory arena when they are freed.
    body = bytearray()
    while chunk := request.stream.read(_CHUNK):
        try:
            piece = unpacker.unpack(chunk, limit - len(body) + 1) if unpacker else chunk
        except zlib.error as error:
            raise HttpError(
                400, f"{what} says it is packed but cannot be unpacked", code="bad-encoding"
            ) from error
        body += piece
        if len(body) > limit:
            raise too_large(what, limit, None)
    if unpacker and not unpacker.complete and body:
        raise HttpError(400, f"{what} is packed and ends early", code="bad-encoding")
    return bytes(body)


def body_text(limit: int, what: str) -> str:
    """The request body as UTF-8 text.

    Raises: HttpError 400 when it is not UTF-8.
    """
    return utf8(body_bytes(limit, what), what)


def json_body(limit: int, what: str = "the body") -> dict[str, Any]:
    """The request body as a JSON object; an empty body is an empty object.

    Raises: HttpError 400 with line and column when it is not one.
    """
    text = body_text(limit, what)
    if not text.strip():
        return {}
    return json_object(text, what)


def json_object(text: str, what: str) -> dict[str, Any]:
    """A JSON text that must be an object."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise HttpError(
            400, f"{what} is not JSON: {error.msg}", code="json-syntax", line=error.lineno, column=error.colno
        ) from error
    except RecursionError as error:
        raise HttpError(400, f"{what} is nested too deeply", code="json-syntax") from error
    except ValueError as error:
        raise HttpError(400, f"{what} is not JSON: {error}", code="json-syntax") from error
    if not isinstance(value, dict):
        raise HttpError(
            400, f"{what} must be a JSON object, it is {type(value).__name__}", code="json-syntax"
        )
    return value


def json_response(value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer, text kept readable."""
    response = Response(json.dumps(value, ensure_ascii=False, default=str) + "\n", status=status)
    response.headers["Content-Type"] = "application/json"
    response.headers.update(headers or {})
    return response


def commit_response(commit: Commit, status: int) -> Response:
    """The answer to a write: its version, and for who prefers a representation how many quads changed.

    Source: RFC 7240, section 4.2.
    """
    headers = {"ETag": f'"{commit.version}"'}
    if "return=representation" not in request.headers.get("Prefer", "").replace(" ", ""):
        return Response(status=status, headers=headers)
    changes = commit.graphs.values()
    document = {
        "version": commit.version,
        "added": sum(each.added for each in changes),
        "removed": sum(each.removed for each in changes),
    }
    headers["Preference-Applied"] = "return=representation"
    return json_response(document, 200 if status == 204 else status, headers)


def flag(name: str, default: bool = False) -> bool:
    """A parameter that is true or false; given without a value it is true.

    Raises: HttpError 400 for other words.
    """
    return flag_of(request.args, name, default)


def flag_of(parameters: Mapping[str, str], name: str, default: bool = False) -> bool:
    """As `flag`, of parameters that are given."""
    value = parameters.get(name)
    if value is None:
        return default
    words = {"": True, "true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if value.lower() not in words:
        raise HttpError(400, f"the parameter {name} must be true or false, it is {value!r}", code="parameter")
    return words[value.lower()]


def whole_number(name: str, text: str) -> int:
    """A parameter or header that must be a whole number of at least 0.

    Raises: HttpError 400.
    """
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise HttpError(400, f"{name} must be a whole number, it is {text!r}", code="parameter")
    return int(text)


def known_parameters(
    allowed: Iterable[str], given: Iterable[str] | None = None, *, several: Container[str] = ()
) -> None:
    """Refuse parameters that a resource does not have: a misspelt one would be ignored silently.

    So would the second of two with one name, but for ``several``, which may be repeated. ``given`` are the
    parameters that came, or only their names, without it those of the address.

    Raises: HttpError 400.
    """
    names, came = frozenset(allowed), request.args if given is None else given
    if isinstance(came, MultiDict):
        for name, values in came.lists():
            if len(values) > 1 and name not in several:
                raise HttpError(400, f"the parameter {name} is given {len(values)} times", code="parameter")
    unknown = sorted(name for name in came if name not in names)
    if unknown:
        raise HttpError(
            400,
            f"unknown parameter {unknown[0]}",
            code="parameter",
            hint=f"This resource takes {', '.join(sorted(names)) or 'none'}.",
        )


def check_name(name: str, what: str) -> str:
    """A name as it may stand in a path.

    Raises: HttpError 400.
    """
    if not NAME.match(name):
        raise HttpError(
            400,
            f"{what} {name!r} is not a name",
            code="name",
            hint="A name is a letter or digit and up to 127 letters, digits, dots, underscores, hyphens.",
        )
    return name


def base_url() -> str:
    """The address of this server as the client sees it, with a slash at its end."""
    configured = services().settings.public_url
    return configured.rstrip("/") + "/" if configured else request.host_url


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unpacker(encoding: str) -> Unpacker | None:
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpError(
            415,
            f"bodies packed as {encoding} are not read here",
            code="unsupported-encoding",
            hint="Send the body as it is, or packed with gzip.",
            headers={"Accept-Encoding": "gzip, deflate"},
        )
    return Unpacker()
