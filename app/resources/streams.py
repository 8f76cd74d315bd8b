"""Step 1 of 8 of query evaluation: ``/streams``, which receives elements and declarations of streams."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.decode import decode_mapped, of_records, sample
from quadrill.continuous.language.mapping.mapping import compile_mapping, compiled
from quadrill.store.documents.statements import lines_of
from quadrill.store.errors import InputError
from quadrill.store.pushes.client import waiting_client
from quadrill.store.pushes.decode import DecodeOptions
from quadrill.store.pushes.records import read_document, records_of_value

from ..describing.streams import describe_stream, describe_streams
from ..http.answers import NOT_SHORT, Later, NeedsWorker, WholeAnswer, json_answer, no_content, text_answer
from ..http.callers import NOBODY
from ..http.errors import HttpError
from ..http.parameters import check_name, json_object, whole_number
from ..http.request import Request
from ..server.body_stream import BodyStream
from ..server.request_client import departure_check
from ..server.takeover import Takeover
from ..wiring import Services
from . import live, pushes
from .links import base_url

N_QUADS = "application/n-quads"
MOST_ELEMENTS = 1_000
MOST_QUADS = 10_000
"""Maximum quads in a list of elements; an element's member ``size`` has its full number of quads."""


def list_streams(services: Services, request: Request) -> WholeAnswer:
    """Return all streams, or the stream ``?iri=``."""
    request.arguments.check({"iri"})
    if "iri" in request.arguments:
        return json_answer(describe_stream(services.engine, pushes.stream_iri(request.arguments)))
    return json_answer({"streams": describe_streams(services.engine)})


def get_stream(services: Services, request: Request) -> WholeAnswer:
    """Return one stream: its watermark, counts and readers."""
    request.arguments.check()
    return json_answer(describe_stream(services.engine, _name(request)))


def get_history_by_iri(services: Services, request: Request) -> WholeAnswer:
    """Return the last hour of the stream ``?iri=``; without ``?iri=``, the stream named ``history``."""
    if "iri" not in request.arguments:
        request.arguments.check()
        return json_answer(describe_stream(services.engine, "history"))
    request.arguments.check({"iri"})
    return json_answer(services.history.stream(pushes.stream_iri(request.arguments)))


def get_history(services: Services, request: Request) -> WholeAnswer:
    """Return the numbers of elements that arrived on a stream in the last hour, in columns."""
    request.arguments.check()
    return json_answer(services.history.stream(_name(request)))


def get_late(services: Services, request: Request) -> WholeAnswer:
    """Return the retained late elements of a stream, oldest first."""
    request.arguments.check()
    letters = services.engine.streams.dead_letters(_name(request))
    return json_answer({"elements": [each for each in letters if each["reason"] == "late"]})


def get_elements(services: Services, request: Request) -> WholeAnswer:
    """Return at most ``?limit=`` retained elements of a stream, newest first."""
    request.arguments.check({"limit"})
    limit = whole_number("limit", request.arguments.get("limit") or "20")
    if not 1 <= limit <= MOST_ELEMENTS:
        raise HttpError(400, f"limit is {limit}, it must be from 1 to {MOST_ELEMENTS:,}", code="parameter")
    iri = describe_stream(services.engine, _name(request))["iri"]
    room, listed = MOST_QUADS, []
    for each in services.engine.parts.streams.newest(iri, limit):
        shown, size = each.statements[:room], len(each.statements)
        room -= len(shown)
        listed.append({"seq": each.seq, "at": each.event_time, "size": size, "quads": lines_of(shown)})
    return json_answer({"elements": listed})


def push(services: Services, request: Request) -> WholeAnswer | Later | Takeover | NeedsWorker:
    """Push elements to the stream in the path or in ``?iri=``."""
    stream = request.stream
    if isinstance(stream, BodyStream) and stream.lines:
        return live.lines(services, request, stream)
    call, acknowledges = pushes.push_call(request)
    if acknowledges:
        raise HttpError(
            400,
            "ack is for a chunked body of lines, which is answered while it comes",
            code="parameter",
            hint="Send application/x-ndjson chunked, without wait and Idempotency-Key.",
        )
    engine = services.engine
    if request.lane is not None and (not call.is_quick or engine.streams.validates(call.stream)):
        return NOT_SHORT
    body = request.read(services.settings.max_push_bytes, "a push")
    with _until_departure(call.media_type):
        if not call.is_quick:
            return json_answer(engine.streams.push(call, body))
        answer, _task, number = engine.streams.accept(call, body)

    def complete() -> WholeAnswer:
        engine.parts.tasks.wait_durable(number)
        return json_answer(answer)

    return Later(complete)


def open_pushes(services: Services, request: Request) -> Takeover:
    """Open a WebSocket whose messages are pushes to the stream in the path or in ``?iri=``."""
    return live.messages(services, request)


def heartbeat(services: Services, request: Request) -> WholeAnswer:
    """Advance the watermark of the stream in the path or in ``?iri=`` without elements."""
    if pushes.heartbeat_call(request).give(services.engine):
        return no_content()
    return json_answer(pushes.NOT_WAITED)


def reset_time(services: Services, request: Request) -> WholeAnswer:
    """Reset the time of the stream in the path or in ``?iri=``; queries that read it begin a new epoch."""
    found = services.engine.streams.reset_time(_name_or_iri(request))
    return json_answer({"streams": found.streams, "queries": found.queries})


def drop(services: Services, request: Request) -> WholeAnswer:
    """Drop the stream in the path or in ``?iri=``; 409 while a query reads or produces the stream."""
    services.engine.streams.drop(_name_or_iri(request))
    return no_content()


def declare(services: Services, request: Request) -> WholeAnswer:
    """Declare the stream that the path, ``?iri=`` or the declaration names."""
    name = None if request.name is None else _name(request)
    request.arguments.check({"iri", "dry_run"})
    members = request.json(services.settings.max_query_bytes, "the declaration")
    iri = _one_of(members.pop("iri", None), request.arguments.get("iri"), "iri")
    name = _one_of(members.pop("name", None), name, "name")
    if iri is None and name is None:
        raise HttpError(400, "the declaration does not say which stream: iri is missing", code="member")
    if request.arguments.flag("dry_run"):
        change = services.engine.streams.change(iri, name=name, **members)
        return json_answer({"change": change})
    stream, created = services.engine.streams.declare(iri, name=name, **members)
    headers = {"Location": f"{base_url(services, request)}streams/{stream.name}"} if created else None
    return json_answer(describe_stream(services.engine, stream.iri), 201 if created else 200, headers)


def _one_of(given: Any, asked: str | None, member: str) -> str | None:
    """Return the value of a member in a declaration or in the URL; raise an error if the values differ."""
    if given is not None and not isinstance(given, str):
        raise HttpError(400, f"the member {member} must be a text", code="member")
    if given is not None and asked is not None and given != asked:
        raise HttpError(400, f"the declaration names two streams, {given} and {asked}", code="member")
    return given or asked


def map_records(services: Services, request: Request) -> WholeAnswer:
    """Map sample records to N-Quads by the mapping of a stream, or by the mapping in the body."""
    name = None if request.name is None else _name(request)
    request.arguments.check({"iri"} if name is None else ())
    limit, stream = services.settings.max_push_bytes, name or request.arguments.get("iri")
    if stream is None:
        _require_writer(request)
        text = request.text(limit, "a mapping with records")
        members = json_object(text, "a mapping with records") if text.strip() else {}
        missing = [each for each in ("mapping", "records") if each not in members]
        unknown = sorted(set(members) - {"mapping", "records"})
        if missing or unknown:
            fault = (
                f"has no {' and no '.join(missing)}" if missing else f"has {unknown[0]!r}, which is no member"
            )
            raise HttpError(
                400,
                f"the request names no stream, and its body {fault}",
                code="parameter",
                hint='Use ?iri= with records as the body, or send {"mapping": {…}, "records": […]}.',
            )
        with waiting_client(departure_check()):
            lines = _tried(services.engine, text)
    else:
        body = request.read(limit, "a sample")
        _require_records(request, body)
        media_type = request.headers.get("Content-Type", "application/json")
        with waiting_client(departure_check()):
            lines = _mapped(services.engine, stream, body, media_type)
    return text_answer(lines, N_QUADS)


def _require_records(request: Request, body: bytes) -> None:
    """Reject a body with a mapping if the request names a stream, which has its own mapping.

    A record to be mapped may have a field ``mapping``. The field ``mapping`` counts as a mapping only if its
    value is an object with ``construct`` or ``jsonld``.
    """
    if not body.lstrip().startswith(b"{"):
        return
    try:
        mapping = json.loads(body).get("mapping")
    except (ValueError, RecursionError):
        return  # the body has several records, or an error that the mapping reports with its place
    if isinstance(mapping, dict) and not mapping.keys().isdisjoint(("construct", "jsonld")):
        _require_writer(request)
        raise HttpError(
            400,
            "the request names a stream, and its body has a mapping",
            code="parameter",
            hint='Send records for the mapping of the stream, or {"mapping", "records"} without a stream.',
        )


def _require_writer(request: Request) -> None:
    """Raise HttpError 403 if the sender lacks the role ``write``, which a mapping in the body needs.

    The route that tests a mapping needs only the role ``read``, because the test changes nothing and a
    read-only server allows it.
    """
    caller = request.caller or NOBODY
    if not caller.may("write"):
        role = caller.role or "none"
        raise HttpError(
            403,
            f"a mapping in the body needs the role write, the token has the role {role}",
            code="forbidden",
            hint="Use ?iri= with records as the body: that needs the role read.",
        )


def _mapped(engine: Engine, name_or_iri: str, body: bytes, media_type: str) -> str:
    """Map the records in a body to N-Quads by the mapping of a stream."""
    record = engine.streams.inspect(name_or_iri, lambda stream, _: stream.record)
    if record.mapping is None:
        raise InputError(f"stream {record.name} has no mapping", hint="PUT /streams/{name} declares one")
    base_iri = engine.settings.base_iri
    options = DecodeOptions(base_iri=base_iri, at=0)
    mapping = compiled(record.mapping, base_iri, False, engine.settings.records)
    return sample(decode_mapped(body, media_type, mapping, options), record.iri)


def _tried(engine: Engine, text: str) -> str:
    """Map the ``records`` in a JSON object to N-Quads by the ``mapping`` in the same object."""
    settings, options = engine.settings, DecodeOptions(at=0)
    base_iri, members = settings.base_iri, read_document(text)
    # The compiled mapping is not cached, because mappings that users try must not fill the cache.
    mapping = compile_mapping(read_declaration(members["mapping"]), base_iri, settings.records)
    records = members["records"]
    if isinstance(records, str):
        return sample(decode_mapped(records.encode(), "text/csv", mapping, options), base_iri)
    return sample(of_records(records_of_value(records), mapping, options), base_iri)


def _name(request: Request) -> str:
    return check_name(request.name, "the stream name")


def _name_or_iri(request: Request) -> str:
    """Return the stream in the path or in ``?iri=``; reject all other parameters."""
    if request.name is not None:
        request.arguments.check()
        return _name(request)
    request.arguments.check({"iri"})
    return pushes.stream_iri(request.arguments)


def _until_departure(content_type: str) -> contextlib.AbstractContextManager[None]:
    """Return a context that cancels the mapping of records, which may take long, when the client has left."""
    if "json" in content_type or "csv" in content_type:
        return waiting_client(departure_check())
    return contextlib.nullcontext()
