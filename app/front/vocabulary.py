"""Parameters and media types to which the routes refer by name."""

from __future__ import annotations

from quadrill.store.formats import RDF_TYPES as READABLE

from ..http.codecs import READABLE as CONVERTED

SPARQL_TEXTS = ("application/sparql-query",)
# Extensions may register RDF and result formats later, so the OpenAPI document expands `graphs` and
# `solutions` for each request.
GRAPH_TYPES = ("graphs",)
RESULT_TYPES = ("solutions", "graphs")
READ_TYPES = tuple(kind.media_type for kind in READABLE)
RDF_TYPES = (*READ_TYPES, *CONVERTED)
JSON = ("application/json",)
# With ``?ack=true``, the answer to a push is one line for each acknowledgement.
ACKNOWLEDGED = (*JSON, "application/x-ndjson")
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
    # name of a query-string parameter: (JSON type, meaning)
    "query": ("string", "SPARQL query text"),
    "update": ("string", "SPARQL update text"),
    "default-graph-uri": ("array", "graphs that make the default graph"),
    "named-graph-uri": ("array", "named graphs of the dataset"),
    "using-graph-uri": ("array", "graphs that make the default graph of the update's patterns"),
    "using-named-graph-uri": ("array", "named graphs of the update's patterns"),
    "union-default-graph": ("boolean", "the default graph is the union of all graphs"),
    "entailment": (
        "string",
        "rule set whose graph is added to the default graph; `none` hides the graphs of all rule sets",
    ),
    "timeout": ("number", "seconds that the evaluation may take"),
    "graph": ("string", "IRI of the graph"),
    "default": ("string", "given without a value: the default graph"),
    "after": ("integer", "version after which to begin"),
    "patch": ("boolean", "with the exact change set as RDF Patch"),
    "inferred": ("boolean", "with the quads that rule sets infer"),
    "prefix": ("string", "a prefix without its colon"),
    "uri": ("string", "the IRI of a prefix"),
    "iri": ("string", "IRI of the stream"),
    "at": ("string", "event time: milliseconds since the epoch or xsd:dateTime"),
    "each": ("string", "`triple` makes one element of each triple"),
    "partial": ("boolean", "accept the good elements and list the bad"),
    "wait": ("boolean", "answer once all results are in the feeds, or once the rule set is complete"),
    "id": ("string", "name of a dead letter"),
    "reason": ("string", "late, failed, budget, shape or unreadable"),
    "limit": ("integer", "maximum number of entries in the answer"),
    "offset": ("integer", "number of entries to skip"),
    "contains": ("string", "only queries whose name contains this text, in upper or lower case"),
    "state": ("string", "only queries in this state: running, materialising, paused or failed"),
    "ack": ("boolean", "acknowledge the lines of a chunked body while it arrives"),
    "durable": ("boolean", "`false` answers without waiting for the input log"),
    "name": ("string", "name of the query"),
    "quad": ("string", "a quad as a line of N-Quads"),
    "mode": ("string", "what a violation does to its commit: watch, warn or reject"),
    "data": ("array", "graphs whose union the shapes check; default for the default graph"),
    "into": ("string", "IRI of the graph that holds the report"),
    "max_time": ("string", "maximum time of the validation of one commit, `10s` for instance"),
    "max_results": ("integer", "maximum number of results of the whole report"),
    "shapes": ("string", "name of shapes"),
    "with": ("string", "`data`: the results that an insertion into the data would add"),
    "row": ("integer", "number of a row of the event, from 0"),
    "replace": ("boolean", "drop the query that has the name"),
    "dry_run": ("boolean", "return what the request would change, without changing anything"),
    "compact": ("boolean", "apply later commits to the existing files of the mirror, if that is possible"),
    "drop_graph": ("boolean", "also drop the graph of the query's view"),
    "analyze": ("boolean", "JSON with live figures per operator"),
    "code": ("boolean", "the generated source of the plan; as JSON in the member code"),
    "from": (
        "string",
        "event id after which the feed begins, 0 for the oldest event; of a replay, its first event time",
    ),
    "last": ("string", "duration of the newest event time of the streams, for instance `5m`"),
    "follow": ("boolean", "return the feed in the format that Accept names, for instance CSV"),
    "snapshot": ("boolean", "begin with the current answer"),
    "format": ("string", "short name of a format, instead of the header Accept"),
}

DATASET = ("default-graph-uri", "named-graph-uri", "union-default-graph", "entailment", "timeout")
USING = ("using-graph-uri", "using-named-graph-uri")
GRAPH = ("graph", "default")
PREFIX = ("prefix", "uri")
DECLARE = ("iri", "dry_run")
PUSH = ("at", "each", "partial", "wait", "durable", "ack")
PREVIEW = ("name", "last", "limit")
REGISTRATION = ("text/plain", "application/sparql-query", "application/json")
