"""The operations of the HTTP interface, one line each, checked against the routes by a test."""

from __future__ import annotations

from dataclasses import dataclass

from quadrill.store.formats import RDF_TYPES as READABLE

from .http.codecs import READABLE as CONVERTED

SPARQL_TEXTS = ("application/sparql-query",)
# Formats may be registered later: the document says which there are when it is asked for.
GRAPH_TYPES = ("graphs",)
RESULT_TYPES = ("solutions", "graphs")
READ_TYPES = tuple(kind.media_type for kind in READABLE)
RDF_TYPES = (*READ_TYPES, *CONVERTED)
JSON = ("application/json",)
RECORD_TYPES = (*JSON, "application/x-ndjson", "text/csv")
PUSH_TYPES = (
    *(each for each in READ_TYPES if each != "application/rdf+xml"),
    *RECORD_TYPES,
    "application/x-ld+ndjson",
    "application/rdfm+yaml",
    "application/rdfm+xml",
)
EVENTS = ("text/event-stream", "application/x-ndjson")
FORM = ("application/x-www-form-urlencoded",)
UPDATE_TEXTS = ("application/sparql-update", *FORM)

PARAMETERS: dict[str, tuple[str, str]] = {
    # name: (JSON type, meaning)
    "query": ("string", "SPARQL query text"),
    "update": ("string", "SPARQL update text"),
    "default-graph-uri": ("array", "graphs that make the default graph"),
    "named-graph-uri": ("array", "named graphs of the dataset"),
    "using-graph-uri": ("array", "graphs that make the default graph of the update's patterns"),
    "using-named-graph-uri": ("array", "named graphs of the update's patterns"),
    "union-default-graph": ("boolean", "the default graph is the union of all graphs"),
    "timeout": ("number", "seconds that the evaluation may take"),
    "graph": ("string", "IRI of the graph"),
    "default": ("string", "given without a value: the default graph"),
    "after": ("integer", "version after which to begin"),
    "patch": ("boolean", "with the exact change set as RDF Patch"),
    "prefix": ("string", "a prefix without its colon"),
    "uri": ("string", "the IRI of a prefix"),
    "iri": ("string", "IRI of the stream"),
    "at": ("string", "event time: milliseconds since the epoch or xsd:dateTime"),
    "each": ("string", "`triple` makes one element of each triple"),
    "partial": ("boolean", "accept the good elements and list the bad"),
    "wait": ("boolean", "answer once all results are in the feeds"),
    "id": ("string", "name of a dead letter"),
    "reason": ("string", "late, failed, budget or unreadable"),
    "limit": ("integer", "at most so many"),
    "offset": ("integer", "so many are passed over first"),
    "contains": ("string", "names with this text in them, in any case of letters"),
    "state": ("string", "those of this state: running, materialising, paused, failed"),
    "ack": ("boolean", "acknowledge the lines of a chunked body while it comes"),
    "durable": ("boolean", "`false` answers without waiting for the input log"),
    "name": ("string", "name of the query"),
    "replace": ("boolean", "drop the query that has the name"),
    "dry_run": ("boolean", "tell what it would do, and do nothing"),
    "compact": ("boolean", "take commits into the files that are there, where that can be"),
    "drop_graph": ("boolean", "drop the graph of the query's view, too"),
    "analyze": ("boolean", "JSON with live figures per operator"),
    "code": ("boolean", "the generated source of the plan; as JSON in the member code"),
    "from": ("string", "event id after which to begin, 0 is the oldest kept; of a replay the event time"),
    "last": ("string", "how much of the streams' event time, `5m` for instance"),
    "follow": ("boolean", "go on with the feed in the form of Accept, as CSV for instance"),
    "snapshot": ("boolean", "begin with the current answer"),
    "format": ("string", "short name of a format, in place of Accept"),
}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One method on one path. ``statuses`` are the good ones; problems are described once for all."""

    method: str
    path: str
    summary: str
    statuses: tuple[int, ...] = (200,)
    parameters: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    role: str = "read"


_DATASET = ("default-graph-uri", "named-graph-uri", "union-default-graph", "timeout")
_USING = ("using-graph-uri", "using-named-graph-uri")
GRAPH = ("graph", "default")
_PREFIX = ("prefix", "uri")
_DECLARE = ("iri", "dry_run")
_PUSH = ("at", "each", "partial", "wait", "durable", "ack")
_PREVIEW = ("name", "last", "limit")
REGISTRATION = ("text/plain", "application/sparql-query", "application/json")

OPERATIONS: tuple[ApiCall, ...] = (
    ApiCall(
        "get",
        "/query",
        "SPARQL query; without a query the service description",
        (200,),
        ("query", *_DATASET),
        answers=RESULT_TYPES,
    ),
    ApiCall("post", "/query", "SPARQL query", (200,), _DATASET, (*SPARQL_TEXTS, *FORM), RESULT_TYPES),
    ApiCall(
        "query",
        "/query",
        "SPARQL query in the body of an HTTP QUERY",
        (200,),
        _DATASET,
        SPARQL_TEXTS,
        RESULT_TYPES,
    ),
    ApiCall(
        "post", "/update", "SPARQL update", (200, 204), (*_USING, "timeout"), UPDATE_TEXTS, JSON, "write"
    ),
    ApiCall(
        "get",
        "/sparql",
        "SPARQL query; without a query the service description",
        (200,),
        ("query", *_DATASET),
        answers=RESULT_TYPES,
    ),
    ApiCall(
        "post",
        "/sparql",
        "SPARQL query or update, by content type or parameter",
        (200, 204),
        (*_DATASET, *_USING),
        (*SPARQL_TEXTS, "application/sparql-update", *FORM),
        RESULT_TYPES,
        role="read or write",
    ),
    ApiCall(
        "query",
        "/sparql",
        "SPARQL query in the body of an HTTP QUERY",
        (200,),
        _DATASET,
        SPARQL_TEXTS,
        RESULT_TYPES,
    ),
    ApiCall("post", "/query:validate", "the faults of a query", (200,), (), (*SPARQL_TEXTS, *FORM), JSON),
    ApiCall("post", "/update:validate", "the faults of an update", (200,), (), UPDATE_TEXTS, JSON),
    ApiCall("get", "/store", "a graph, or the whole dataset", (200,), GRAPH, answers=GRAPH_TYPES),
    ApiCall(
        "put", "/store", "replace a graph, or the whole dataset", (201, 204), GRAPH, RDF_TYPES, role="write"
    ),
    ApiCall(
        "post",
        "/store",
        "add to a graph; without a graph a new one is made",
        (201, 204),
        GRAPH,
        (*RDF_TYPES, "multipart/form-data"),
        role="write",
    ),
    ApiCall("delete", "/store", "drop a graph, or empty the dataset", (204,), GRAPH, role="write"),
    ApiCall("get", "/store/{path}", "the graph named by this address", (200,), answers=GRAPH_TYPES),
    ApiCall(
        "put",
        "/store/{path}",
        "replace the graph named by this address",
        (201, 204),
        body=RDF_TYPES,
        role="write",
    ),
    ApiCall(
        "post",
        "/store/{path}",
        "add to the graph named by this address",
        (201, 204),
        body=(*RDF_TYPES, "multipart/form-data"),
        role="write",
    ),
    ApiCall("delete", "/store/{path}", "drop the graph named by this address", (204,), role="write"),
    ApiCall("get", "/stored-queries", "all stored one-shot queries", (200,), answers=JSON),
    ApiCall("get", "/stored-queries/{name}", "one stored query", (200,), answers=JSON),
    ApiCall(
        "put",
        "/stored-queries/{name}",
        "keep a one-shot query under a name",
        (200, 201),
        (),
        REGISTRATION,
        JSON,
        "write",
    ),
    ApiCall("delete", "/stored-queries/{name}", "forget a stored query", (204,), role="write"),
    ApiCall(
        "get", "/stored-queries/{name}/results", "run a stored query", (200,), _DATASET, answers=RESULT_TYPES
    ),
    ApiCall("get", "/prefixes", "the prefixes that graphs are written with", (200,), _PREFIX, answers=JSON),
    ApiCall("post", "/prefixes", "keep a prefix", (204,), _PREFIX, FORM, role="write"),
    ApiCall("delete", "/prefixes", "forget a prefix", (204,), ("prefix",), role="write"),
    ApiCall(
        "get", "/changes", "the store's change feed", (200,), ("after", "patch", "graph"), answers=EVENTS
    ),
    ApiCall("get", "/streams", "all streams, or one by its IRI", (200,), ("iri",), answers=JSON),
    ApiCall("put", "/streams", "declare a stream by its IRI", (200, 201), _DECLARE, JSON, JSON, "write"),
    ApiCall(
        "post", "/streams", "push to a stream by its IRI", (200,), ("iri", *_PUSH), PUSH_TYPES, JSON, "push"
    ),
    ApiCall("delete", "/streams", "drop a stream by its IRI", (204,), ("iri",), role="write"),
    ApiCall(
        "post",
        "/streams:map",
        "what records would be by the mapping of a stream, or by one in the body",
        (200,),
        ("iri",),
        RECORD_TYPES,
        ("application/n-quads",),
    ),
    ApiCall(
        "post",
        "/streams/{name}:map",
        "what records would be by a stream's mapping",
        (200,),
        (),
        RECORD_TYPES,
        ("application/n-quads",),
    ),
    ApiCall("get", "/streams/history", "what came in the last hour", (200,), ("iri",), answers=JSON),
    ApiCall("get", "/streams/{name}/history", "what came in the last hour", (200,), answers=JSON),
    ApiCall("get", "/streams/{name}", "one stream", (200,), answers=JSON),
    ApiCall("put", "/streams/{name}", "declare a stream", (200, 201), _DECLARE, JSON, JSON, "write"),
    ApiCall("post", "/streams/{name}", "push elements to a stream", (200,), _PUSH, PUSH_TYPES, JSON, "push"),
    ApiCall("get", "/streams/{name}/late", "the late elements that are kept", (200,), answers=JSON),
    ApiCall(
        "get",
        "/streams/{name}/dead-letters",
        "late elements and those at which a query failed; as events they go on",
        (200,),
        answers=(*JSON, *EVENTS),
    ),
    ApiCall(
        "post",
        "/streams/{name}/dead-letters:retry",
        "try a dead letter once more, or all of a reason",
        (200,),
        ("id", "reason"),
        answers=JSON,
        role="push",
    ),
    ApiCall(
        "delete",
        "/streams/{name}/dead-letters",
        "drop a dead letter, or all of a reason",
        (200,),
        ("id", "reason"),
        answers=JSON,
        role="write",
    ),
    ApiCall(
        "get",
        "/streams/{name}/elements",
        "the newest elements that are kept",
        (200,),
        ("limit",),
        answers=JSON,
    ),
    ApiCall("delete", "/streams/{name}", "drop a stream that no query reads", (204,), role="write"),
    *(
        ApiCall("post", f"/streams{name}{word}", f"{does} {what}", codes, (*iri, *asked), (), JSON, role)
        for name, what, iri in (("", "a stream by its IRI", ("iri",)), ("/{name}", "a stream", ()))
        for word, does, codes, asked, role in (
            (":heartbeat", "move the watermark of", (200, 204), ("at", "wait"), "push"),
            (":reset-time", "reset the time of", (200,), (), "write"),
        )
    ),
    *(
        call
        for which, one in (("sources", "source"), ("sinks", "sink"))
        for call in (
            ApiCall("get", f"/{which}", f"all {which}", (200,), answers=JSON),
            ApiCall("get", f"/{which}:kinds", f"kinds of {which} with their members", (200,), answers=JSON),
            ApiCall("get", f"/{which}/{{name}}", f"one {one}: state, position, rate", (200,), answers=JSON),
            ApiCall(
                "get",
                f"/{which}/{{name}}/dead-letters",
                f"what a {one} could not read or deliver",
                (200,),
                answers=JSON,
            ),
            ApiCall(
                "delete",
                f"/{which}/{{name}}/dead-letters",
                f"forget what a {one} could not read or deliver",
                (200,),
                answers=JSON,
                role="admin",
            ),
            ApiCall(
                "put",
                f"/{which}/{{name}}",
                f"declare a {one}",
                (200, 201),
                ("dry_run",),
                JSON,
                JSON,
                "admin",
            ),
            ApiCall("post", f"/{which}/{{name}}:start", f"let a {one} run", answers=JSON, role="admin"),
            ApiCall("post", f"/{which}/{{name}}:stop", f"stop a {one}", answers=JSON, role="admin"),
            ApiCall("delete", f"/{which}/{{name}}", f"forget a {one}", (204,), role="admin"),
        )
    ),
    ApiCall(
        "post",
        "/sources/{name}",
        "push to a source of the kind webhook, signed where it has a secret",
        (200,),
        (),
        PUSH_TYPES,
        JSON,
        "push",
    ),
    ApiCall(
        "get",
        "/queries",
        "all continuous queries, or a part of them",
        (200,),
        ("contains", "state", "offset", "limit"),
        answers=JSON,
    ),
    ApiCall(
        "post", "/queries", "register a continuous query", (200, 201), ("name",), REGISTRATION, JSON, "write"
    ),
    ApiCall(
        "post",
        "/queries:validate",
        "what registering would give",
        (200,),
        ("name", "code"),
        REGISTRATION,
        JSON,
    ),
    ApiCall("post", "/queries:preview", "what it would have told", (200,), _PREVIEW, REGISTRATION, JSON),
    ApiCall("get", "/queries/{name}", "one continuous query", (200,), answers=JSON),
    ApiCall(
        "put",
        "/queries/{name}",
        "register a continuous query under a name",
        (200, 201),
        ("name", "replace"),
        REGISTRATION,
        JSON,
        "write",
    ),
    ApiCall("patch", "/queries/{name}", "pause, resume or change settings", (200,), (), JSON, JSON, "write"),
    ApiCall("delete", "/queries/{name}", "drop a continuous query", (204,), ("drop_graph",), role="write"),
    ApiCall(
        "get",
        "/queries/{name}/explain",
        "the plan",
        (200,),
        ("analyze", "code"),
        answers=("text/plain", *JSON),
    ),
    ApiCall("get", "/queries/{name}/history", "what it did in the last hour", (200,), answers=JSON),
    ApiCall(
        "post", "/queries/{name}/refresh", "refresh the static parts now", (200,), answers=JSON, role="write"
    ),
    ApiCall(
        "post",
        "/queries/{name}/replay",
        "evaluate once more over the retained elements, into a new epoch of the feed",
        (200,),
        ("from",),
        answers=JSON,
        role="write",
    ),
    ApiCall(
        "get",
        "/queries/{name}/results",
        "the feed as events, or the current answer; 204 after a drop",
        (200, 204),
        ("from", "snapshot", "format", "follow"),
        answers=(*EVENTS, *RESULT_TYPES),
    ),
    ApiCall("post", "/loads", "load a file below the load folders as a job", (202,), (), JSON, JSON, "write"),
    ApiCall("get", "/jobs", "all jobs, or their progress as events", (200,), answers=(*JSON, *EVENTS)),
    ApiCall("get", "/jobs/{job_id}", "one job, or its progress as events", (200,), answers=(*JSON, *EVENTS)),
    ApiCall("delete", "/jobs/{job_id}", "cancel a load", (202,), answers=JSON, role="write"),
    ApiCall(
        "post",
        "/backups",
        "a copy of all that is kept, into an empty folder of the server or as an archive",
        (201, 200),
        (),
        JSON,
        JSON,
        "admin",
    ),
    ApiCall("post", "/optimize", "compact the database files as a job", (202,), answers=JSON, role="admin"),
    ApiCall(
        "get", "/mirror", "the Parquet mirror, and how far the store is ahead of it", (200,), answers=JSON
    ),
    ApiCall(
        "post",
        "/mirror",
        "make the Parquet mirror as a job",
        (202,),
        ("compact",),
        answers=JSON,
        role="admin",
    ),
    ApiCall(
        "post",
        "/restores",
        "replace the dataset by that of a backup, as one commit and as a job",
        (202,),
        (),
        JSON,
        JSON,
        "admin",
    ),
    ApiCall("get", "/processes", "the one-shot queries that run now", (200,), answers=JSON),
    ApiCall("delete", "/processes/{process_id}", "stop a running query", (204,), role="admin"),
    ApiCall("get", "/health/live", "liveness", (200,), answers=JSON, role="public"),
    ApiCall(
        "get",
        "/health/ready",
        "readiness of store, registry and engine",
        (200, 503),
        answers=JSON,
        role="public",
    ),
    ApiCall("get", "/metrics", "figures for Prometheus", (200,), answers=("text/plain",)),
    ApiCall(
        "post",
        "/login",
        "exchange a token for the page's cookie",
        (204, 303),
        (),
        (*FORM, *JSON),
        role="public",
    ),
    ApiCall("post", "/logout", "end the page's session", (204, 303), role="public"),
    ApiCall("get", "/openapi.json", "this document", (200,), answers=JSON, role="public"),
)
