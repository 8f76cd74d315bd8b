"""Routes of streams, and of the sources and sinks that feed and read them."""

from __future__ import annotations

from ..front.route import Route
from ..front.vocabulary import ACKNOWLEDGED, DECLARE, EVENTS, JSON, PUSH, PUSH_TYPES, RECORD_TYPES
from ..resources import connectors, dead_letters, streams

STREAMS: tuple[Route, ...] = (
    Route(
        "GET",
        "/streams",
        streams.list_streams,
        "all streams, or one by its IRI",
        (200,),
        ("iri",),
        answers=JSON,
    ),
    Route(
        "PUT",
        "/streams",
        streams.declare,
        "declare a stream by its IRI",
        (200, 201),
        DECLARE,
        JSON,
        JSON,
        "write",
    ),
    Route(
        "POST",
        "/streams",
        streams.push,
        "push elements to a stream by its IRI",
        (200,),
        ("iri", *PUSH),
        PUSH_TYPES,
        ACKNOWLEDGED,
        "push",
        short=True,
    ),
    Route("DELETE", "/streams", streams.drop, "drop a stream by its IRI", (204,), ("iri",), role="write"),
    Route(
        "POST",
        "/streams:map",
        streams.map_records,
        "map sample records to N-Quads by the mapping of a stream, or by a mapping in the body",
        (200,),
        ("iri",),
        RECORD_TYPES,
        ("application/n-quads",),
        "read",
    ),
    Route(
        "POST",
        "/streams/{name}:map",
        streams.map_records,
        "map sample records to N-Quads by the mapping of a stream",
        (200,),
        (),
        RECORD_TYPES,
        ("application/n-quads",),
        "read",
    ),
    Route(
        "GET",
        "/streams/history",
        streams.get_history_by_iri,
        "the elements that arrived in the last hour, counted in columns",
        (200,),
        ("iri",),
        answers=JSON,
    ),
    Route(
        "GET",
        "/streams/{name}/history",
        streams.get_history,
        "the elements that arrived in the last hour, counted in columns",
        (200,),
        answers=JSON,
    ),
    Route("GET", "/streams/{name}", streams.get_stream, "one stream", (200,), answers=JSON),
    Route(
        "PUT",
        "/streams/{name}",
        streams.declare,
        "declare a stream",
        (200, 201),
        DECLARE,
        JSON,
        JSON,
        "write",
    ),
    Route(
        "POST",
        "/streams/{name}",
        streams.push,
        "push elements to a stream",
        (200,),
        PUSH,
        PUSH_TYPES,
        ACKNOWLEDGED,
        "push",
        short=True,
    ),
    Route(
        "GET",
        "/streams/{name}/late",
        streams.get_late,
        "the retained late elements",
        (200,),
        answers=JSON,
    ),
    Route(
        "GET",
        "/streams/{name}/dead-letters",
        dead_letters.get_dead_letters,
        "late elements and elements at which a query failed; as an event stream, also future ones",
        (200,),
        answers=(*JSON, *EVENTS),
    ),
    Route(
        "POST",
        "/streams/{name}/dead-letters:retry",
        dead_letters.retry_dead_letters,
        "retry one dead letter, or all with one reason",
        (200,),
        ("id", "reason"),
        answers=JSON,
        role="push",
    ),
    Route(
        "DELETE",
        "/streams/{name}/dead-letters",
        dead_letters.drop_dead_letters,
        "drop one dead letter, or all with one reason",
        (200,),
        ("id", "reason"),
        answers=JSON,
        role="write",
    ),
    Route(
        "GET",
        "/streams/{name}/elements",
        streams.get_elements,
        "the newest retained elements",
        (200,),
        ("limit",),
        answers=JSON,
    ),
    Route(
        "DELETE", "/streams/{name}", streams.drop, "drop a stream that no query reads", (204,), role="write"
    ),
    Route(
        "POST",
        "/sources/{name}",
        connectors.send_to_source,
        "push to a source of the kind webhook; the body must be signed if the source has a secret",
        (200,),
        (),
        PUSH_TYPES,
        JSON,
        connectors.role_of_sender,
        public_bytes="max_signed_push_bytes",
        described_role="push",
    ),
    Route("GET", "/streams", streams.open_pushes, role="push", websocket=True),
    Route("GET", "/streams/{name}", streams.open_pushes, role="push", websocket=True),
    *(
        Route(
            "POST", f"/streams{name}{word}", handler, f"{does} {what}", codes, (*iri, *asked), (), JSON, role
        )
        for name, what, iri in (("", "a stream by its IRI", ("iri",)), ("/{name}", "a stream", ()))
        for word, handler, does, codes, asked, role in (
            (":heartbeat", streams.heartbeat, "move the watermark of", (200, 204), ("at", "wait"), "push"),
            (":reset-time", streams.reset_time, "reset the time of", (200,), (), "write"),
        )
    ),
    *(
        route
        for which, one, of in (("sources", "source", connectors.SOURCES), ("sinks", "sink", connectors.SINKS))
        for route in (
            Route("GET", f"/{which}", of.list, f"all {which}", answers=JSON),
            Route("GET", f"/{which}:kinds", of.kinds, f"kinds of {which} with their members", answers=JSON),
            Route("GET", f"/{which}/{{name}}", of.get, f"one {one}: state, position, rate", answers=JSON),
            Route(
                "GET",
                f"/{which}/{{name}}/dead-letters",
                of.dead_letters,
                f"what a {one} could not read or deliver",
                answers=JSON,
            ),
            Route(
                "DELETE",
                f"/{which}/{{name}}/dead-letters",
                of.drop_dead_letters,
                f"forget what a {one} could not read or deliver",
                answers=JSON,
                role="admin",
            ),
            Route(
                "PUT",
                f"/{which}/{{name}}",
                of.put,
                f"declare a {one}",
                (200, 201),
                ("dry_run",),
                JSON,
                JSON,
                "admin",
            ),
            Route(
                "POST", f"/{which}/{{name}}:start", of.start, f"let a {one} run", answers=JSON, role="admin"
            ),
            Route("POST", f"/{which}/{{name}}:stop", of.stop, f"stop a {one}", answers=JSON, role="admin"),
            Route("DELETE", f"/{which}/{{name}}", of.drop, f"forget a {one}", (204,), role="admin"),
        )
    ),
)
