"""Step 1 of 8: ``/streams``, where elements come in; the declarations of streams beside it."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response, g, request

from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.decode import decode_mapped, of_records, sample
from quadrill.continuous.language.mapping.mapping import compile_mapping, compiled
from quadrill.store.documents.statements import lines_of
from quadrill.store.errors import InputError
from quadrill.store.pushes.client import waiting_client
from quadrill.store.pushes.decode import DecodeOptions
from quadrill.store.pushes.records import of_values, read_document

from ..describing.streams import describe_stream, describe_streams
from ..http.errors import HttpError
from ..http.gateway import BODY
from ..http.recipient import departure_check
from ..security import Identity, needs
from . import live, pushes
from . import requests as incoming
from .requests import services

blueprint = Blueprint("streams", __name__)
N_QUADS = "application/n-quads"
MOST_ELEMENTS = 1_000
MOST_QUADS = 10_000
"""In all elements of an answer; `size` tells how many an element has."""


@blueprint.get("/streams")
def list_streams() -> Response:
    """All streams, or the one with ``?iri=``."""
    incoming.known_parameters({"iri"})
    if "iri" in request.args:
        return incoming.json_response(describe_stream(services().engine, _iri()))
    return incoming.json_response({"streams": describe_streams(services().engine)})


@blueprint.get("/streams/<part:name>")
def get_stream(name: str) -> Response:
    """One stream: watermark, counts, readers."""
    incoming.known_parameters(())
    return incoming.json_response(
        describe_stream(services().engine, incoming.check_name(name, "the stream name"))
    )


@blueprint.get("/streams/history")
def get_history_by_iri() -> Response:
    """What came on the stream with ``?iri=`` in the last hour; without it the stream of that name."""
    if "iri" not in request.args:
        return get_stream("history")
    incoming.known_parameters({"iri"})
    return incoming.json_response(services().history.stream(_iri()))


@blueprint.get("/streams/<part:name>/history")
def get_history(name: str) -> Response:
    """What came on a stream in the last hour, in columns."""
    incoming.known_parameters(())
    return incoming.json_response(services().history.stream(incoming.check_name(name, "the stream name")))


@blueprint.get("/streams/<part:name>/late")
def get_late(name: str) -> Response:
    """The late elements that a stream still keeps, oldest first."""
    incoming.known_parameters(())
    incoming.check_name(name, "the stream name")
    letters = services().engine.dead_letters(name)
    return incoming.json_response({"elements": [each for each in letters if each["reason"] == "late"]})


@blueprint.get("/streams/<part:name>/elements")
def get_elements(name: str) -> Response:
    """The newest elements that a stream keeps, the newest first; at most so many as ``?limit=`` says."""
    incoming.known_parameters({"limit"})
    limit = incoming.whole_number("limit", request.args.get("limit", "20"))
    if not 1 <= limit <= MOST_ELEMENTS:
        raise HttpError(400, f"limit is {limit}, it must be from 1 to {MOST_ELEMENTS:,}", code="parameter")
    iri = describe_stream(services().engine, incoming.check_name(name, "the stream name"))["iri"]
    room, told = MOST_QUADS, []
    for each in services().engine.newest_elements(iri, limit):
        shown, size = each.statements[:room], len(each.statements)
        room -= len(shown)
        told.append({"seq": each.seq, "at": each.event_time, "size": size, "quads": lines_of(shown)})
    return incoming.json_response({"elements": told})


@blueprint.put("/streams")
def declare_by_iri() -> Response:
    """Declare the stream with ``?iri=``."""
    return _declare(None)


@blueprint.put("/streams/<part:name>")
def declare_by_name(name: str) -> Response:
    """Declare a stream under a name."""
    return _declare(incoming.check_name(name, "the stream name"))


@blueprint.post("/streams")
@needs("push")
def push_by_iri() -> Response:
    """Push elements to the stream with ``?iri=``."""
    return _push(None)


@blueprint.post("/streams/<part:name>")
@needs("push")
def push_by_name(name: str) -> Response:
    """Push elements to a stream."""
    return _push(incoming.check_name(name, "the stream name"))


@blueprint.get("/streams", websocket=True)
@needs("push")
def open_by_iri() -> Response:
    """A WebSocket whose messages are pushes to the stream with ``?iri=``."""
    return live.messages(services(), None)


@blueprint.get("/streams/<part:name>", websocket=True)
@needs("push")
def open_by_name(name: str) -> Response:
    """A WebSocket whose messages are pushes to a stream."""
    return live.messages(services(), incoming.check_name(name, "the stream name"))


@blueprint.post("/streams:heartbeat")
@needs("push")
def heartbeat_by_iri() -> Response:
    """Move the watermark of the stream with ``?iri=``."""
    return _heartbeat(None)


@blueprint.post("/streams/<part:name>:heartbeat")
@needs("push")
def heartbeat_by_name(name: str) -> Response:
    """Move a stream's watermark without data."""
    return _heartbeat(incoming.check_name(name, "the stream name"))


@blueprint.post("/streams:reset-time")
def reset_time_by_iri() -> Response:
    """Let the time of the stream with ``?iri=`` begin anew."""
    incoming.known_parameters({"iri"})
    return _reset_time(_iri())


@blueprint.post("/streams/<part:name>:reset-time")
def reset_time_by_name(name: str) -> Response:
    """Let the time of a stream begin anew; its readers begin a new epoch."""
    incoming.known_parameters(())
    return _reset_time(incoming.check_name(name, "the stream name"))


@blueprint.post("/streams:map")
@needs("read")
def map_by_iri() -> Response:
    """What records would be by the mapping of the stream with ``?iri=``, or by the one in the body."""
    return _map(None)


@blueprint.post("/streams/<part:name>:map")
@needs("read")
def map_by_name(name: str) -> Response:
    """What records would be by a stream's mapping."""
    return _map(incoming.check_name(name, "the stream name"))


@blueprint.delete("/streams")
def drop_by_iri() -> Response:
    """Drop the stream with ``?iri=``; 409 while a query reads it."""
    incoming.known_parameters({"iri"})
    services().engine.drop_stream(_iri())
    return Response(status=204)


@blueprint.delete("/streams/<part:name>")
def drop_by_name(name: str) -> Response:
    """Drop a stream; 409 while a query reads it."""
    incoming.known_parameters(())
    services().engine.drop_stream(incoming.check_name(name, "the stream name"))
    return Response(status=204)


def _declare(name: str | None) -> Response:
    incoming.known_parameters({"iri", "dry_run"})
    members = incoming.json_body(services().settings.max_query_bytes, "the declaration")
    iri = _one_of(members.pop("iri", None), request.args.get("iri"), "iri")
    name = _one_of(members.pop("name", None), name, "name")
    if iri is None and name is None:
        raise HttpError(400, "the declaration does not say which stream: iri is missing", code="member")
    if incoming.flag("dry_run"):
        change = services().engine.stream_change(iri, name=name, **members)
        return incoming.json_response({"change": change})
    stream, created = services().engine.declare_stream(iri, name=name, **members)
    status = 201 if created else 200
    headers = {"Location": f"{incoming.base_url()}streams/{stream.name}"} if created else None
    return incoming.json_response(describe_stream(services().engine, stream.iri), status, headers)


def _one_of(given: Any, asked: str | None, member: str) -> str | None:
    """What a member of the declaration and the address say, which must not differ."""
    if given is not None and not isinstance(given, str):
        raise HttpError(400, f"the member {member} must be a text", code="member")
    if given is not None and asked is not None and given != asked:
        raise HttpError(400, f"the declaration names two streams, {given} and {asked}", code="member")
    return given or asked


def _push(name: str | None) -> Response:
    call = pushes.push_call(name, request.args, request.headers)
    stream = request.environ.get(BODY)
    if stream is not None and stream.lines:
        return live.lines(services(), call, stream.chunks)
    if call.ack:
        raise HttpError(
            400,
            "ack is for a chunked body of lines, which is answered while it comes",
            code="parameter",
            hint="Send application/x-ndjson chunked, without wait and Idempotency-Key.",
        )
    body = incoming.body_bytes(services().settings.max_push_bytes, "a push")
    with waiting_client(departure_check()):
        return incoming.json_response(call.give(services().engine, body))


def _map(name: str | None) -> Response:
    incoming.known_parameters({"iri"} if name is None else ())
    limit, stream = services().settings.max_push_bytes, name or request.args.get("iri")
    if stream is None:
        _require_writer()
        text = incoming.body_text(limit, "a mapping with records")
        members = incoming.json_object(text, "a mapping with records") if text.strip() else {}
        missing = [each for each in ("mapping", "records") if each not in members]
        unknown = sorted(set(members) - {"mapping", "records"})
        if missing or unknown:
            told = (
                f"has no {' and no '.join(missing)}" if missing else f"has {unknown[0]!r}, which is no member"
            )
            raise HttpError(
                400,
                f"the request names no stream, and its body {told}",
                code="parameter",
                hint='Use ?iri= with records as the body, or send {"mapping": {…}, "records": […]}.',
            )
        with waiting_client(departure_check()):
            lines = _tried(text)
    else:
        body = incoming.body_bytes(limit, "a sample")
        _require_records(body)
        media_type = request.headers.get("Content-Type", "application/json")
        with waiting_client(departure_check()):
            lines = _mapped(stream, body, media_type)
    return Response(lines, content_type=N_QUADS)


def _require_records(body: bytes) -> None:
    """Refuse a mapping as the body of a request that names a stream, whose own mapping would be used.

    A record may have a field ``mapping``: it is a mapping only as an object with ``construct`` or ``jsonld``.
    """
    if not body.lstrip().startswith(b"{"):
        return
    try:
        mapping = json.loads(body).get("mapping")
    except (ValueError, RecursionError):
        return  # several records, or an error that is told with its place
    if isinstance(mapping, dict) and not mapping.keys().isdisjoint(("construct", "jsonld")):
        _require_writer()
        raise HttpError(
            400,
            "the request names a stream, and its body has a mapping",
            code="parameter",
            hint='Send records for the mapping of the stream, or {"mapping", "records"} without a stream.',
        )


def _require_writer() -> None:
    """Raise HttpError 403 for a role that may only use the mapping that a stream has.

    The view itself needs ``read``: trying a mapping changes nothing, so a read-only server allows it.
    """
    identity: Identity | None = g.get("identity")
    if identity is None or not identity.may("write"):
        role = "none" if identity is None else identity.role
        raise HttpError(
            403,
            f"a mapping in the body needs the role write, the token has the role {role}",
            code="forbidden",
            hint="Use ?iri= with records as the body: that needs the role read.",
        )


def _mapped(name_or_iri: str, body: bytes, media_type: str) -> str:
    """N-Quads of what a body would be by the mapping of a stream."""
    engine = services().engine
    record = engine.look_at_stream(name_or_iri, lambda stream, _: stream.record)
    if record.mapping is None:
        raise InputError(f"stream {record.name} has no mapping", hint="PUT /streams/{name} declares one")
    base_iri = engine.settings.base_iri
    options = DecodeOptions(base_iri=base_iri, at=0)
    mapping = compiled(record.mapping, base_iri, False, engine.settings.records)
    return sample(decode_mapped(body, media_type, mapping, options), record.iri)


def _tried(text: str) -> str:
    """N-Quads of the ``records`` in a JSON object by its ``mapping``, which no stream has yet."""
    settings, options = services().engine.settings, DecodeOptions(at=0)
    base_iri, members = settings.base_iri, read_document(text)
    # Compiled for this request alone: texts that are tried must not fill the memory.
    mapping = compile_mapping(read_declaration(members["mapping"]), base_iri, settings.records)
    records = members["records"]
    if isinstance(records, str):
        return sample(decode_mapped(records.encode(), "text/csv", mapping, options), base_iri)
    return sample(of_records(of_values(records), mapping, options), base_iri)


def _heartbeat(name: str | None) -> Response:
    if pushes.heartbeat_call(name, request.args).give(services().engine):
        return Response(status=204)
    return incoming.json_response(pushes.NOT_WAITED)


def _reset_time(stream: str) -> Response:
    found = services().engine.reset_time(stream)
    return incoming.json_response({"streams": found.streams, "queries": found.queries})


def _iri() -> str:
    return pushes.stream_iri(request.args)
