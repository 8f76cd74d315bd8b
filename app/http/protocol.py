"""Parsed requests of the SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/)."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import NamedTuple

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import GraphName
from quadrill.store.sparql.codepoints import without_escapes

from ..config import Settings
from . import negotiation
from .bodies import too_large, utf8
from .errors import HttpError
from .forms import fields_of
from .request import Request

FORM = "application/x-www-form-urlencoded"
QUERY = "application/sparql-query"
UPDATE = "application/sparql-update"

QUERY_PARAMETERS = frozenset(
    {
        "query",
        "update",
        "default-graph-uri",
        "named-graph-uri",
        "union-default-graph",
        "entailment",
        "timeout",
    }
)
UPDATE_PARAMETERS = frozenset({"query", "update", "using-graph-uri", "using-named-graph-uri", "timeout"})
"""The parameters of an update request; ``query`` is included because it has a separate error message."""
IGNORED_PARAMETERS = frozenset({"format", "output", "results"})
"""Parameters that SPARQLWrapper always sends; the server takes the format from the header Accept instead."""
IGNORED_VALUES = frozenset({("default-graph-uri", ""), ("timeout", "0")})
"""Pairs of parameter and value without a meaning, which some clients send by default."""


class SparqlCall(NamedTuple):
    """A SPARQL Protocol request: its parameters in order, and the text that is the body of a direct POST."""

    fields: tuple[tuple[str, str], ...]
    direct: str | None = None
    direct_type: str = ""

    def values(self, name: str) -> list[str]:
        """Return every value of a SPARQL Protocol parameter except the ignored values."""
        return [value for key, value in self.fields if key == name and (key, value) not in IGNORED_VALUES]

    def check_parameters(self, known: frozenset[str]) -> None:
        """Reject a SPARQL Protocol parameter that is neither known nor ignored.

        Raises: HttpError 400.
        """
        given = {name for name, value in self.fields if (name, value) not in IGNORED_VALUES}
        unknown = sorted(given - known - IGNORED_PARAMETERS)
        if unknown:
            raise HttpError(
                400,
                f"unknown parameter {unknown[0]}",
                code="parameter",
                hint=f"This operation takes {', '.join(sorted(known))}.",
            )

    def one(self, name: str) -> str | None:
        """Return the value of a parameter that a request may give at most once, or None.

        Raises: HttpError 400 when the parameter is given several times.
        """
        found = self.values(name)
        if len(found) > 1:
            raise HttpError(400, f"the parameter {name} is given {len(found)} times", code="parameter")
        return found[0] if found else None

    def graphs(self, name: str) -> list[NamedNode] | None:
        """Return the graph IRIs that a repeatable parameter lists; None if the parameter is missing."""
        found = self.values(name)
        return [graph_iri(value, name) for value in found] if found else None

    @property
    def is_update(self) -> bool:
        """True if the SPARQL request is an update, by its media type or by its parameter ``update``."""
        return self.direct_type == UPDATE or (bool(self.fields) and bool(self.values("update")))


def posted(direct_types: tuple[str, ...], request: Request, settings: Settings) -> SparqlCall:
    """Parse a SPARQL request with a body: a form, or a text of one of the media types ``direct_types``.

    Raises: HttpError 400 for an invalid form, 413 for a large body, 415 for another media type.
    """
    essence = _posted_type(direct_types, request.method, request.headers.get("Content-Type"))
    fields = fields_of(request.query_string) if request.query_string else ()
    limit = settings.max_body_bytes if UPDATE in direct_types else settings.max_query_bytes * 4
    if essence == FORM:
        return SparqlCall((*fields, *fields_of(request.read(limit, "the form"))))
    return SparqlCall(fields, utf8(request.read(limit, "the text"), "the text"), essence)


@lru_cache(maxsize=256)
def _posted_type(direct_types: tuple[str, ...], method: str, content_type: str | None) -> str:
    essence = negotiation.content_media_type(content_type).essence
    if essence in direct_types:
        if method == "QUERY" and essence != QUERY:
            raise HttpError(400, "the method QUERY only reads: it cannot carry an update", code="method")
        return essence
    if essence == FORM and method == "POST":
        return FORM
    raise HttpError(
        415,
        f"a text cannot be read from {essence}",
        code="unsupported-media-type",
        hint=f"Send it as {' or '.join(direct_types)}, or as a form of type {FORM}.",
    )


def query_text(call: SparqlCall, settings: Settings) -> str:
    """Return the query text of a SPARQL Protocol request.

    Raises: HttpError 400 when the query text is missing, given twice or given with an update; 413 when it is
        too long.
    """
    direct = call.direct
    if direct is not None and not call.fields and len(direct) <= settings.max_query_bytes:
        return without_escapes(direct) if "\\" in direct else direct
    return _text(call, "query", "the query", settings.max_query_bytes)


def update_text(call: SparqlCall, settings: Settings) -> str:
    """Return the update text of a SPARQL request; raise HttpError 413 if it needs too much memory.

    One character beyond U+00FF makes Python store every character of a text in two bytes, one beyond U+FFFF
    in four bytes, and the parser needs several times as much. The bound of 1.5 times the body limit in bytes
    accepts an update text whose characters all need two bytes, or all need four. `update_text` raises the
    same HTTP errors as `query_text`: 400 for a missing or repeated text.
    """
    limit = settings.max_body_bytes
    text = _text(call, "update", "the update", limit)
    if not text.isascii() and sys.getsizeof(text) - sys.getsizeof("") > limit * 3 // 2:
        raise HttpError(
            413,
            f"the update takes more than {limit * 3 // 2} bytes of memory as a text",
            code="body-too-large",
            hint="One character beyond U+00FF makes all take 2 bytes, one beyond U+FFFF 4: send these apart.",
        )
    return text


def _text(call: SparqlCall, parameter: str, what: str, limit: int) -> str:
    if call.fields:
        call.check_parameters(QUERY_PARAMETERS if parameter == "query" else UPDATE_PARAMETERS)
    given = call.one(parameter)
    if given is not None and call.direct is not None:
        raise HttpError(400, f"{what} is given twice, as the body and as a parameter", code="parameter")
    other = "update" if parameter == "query" else "query"
    if call.values(other):
        raise HttpError(
            400, f"the request has the parameter {other}, which is not for this operation", code="parameter"
        )
    text = call.direct if given is None else given
    if text is None:
        raise HttpError(400, f"{what} is missing", code="parameter", hint=f"Give the parameter {parameter}.")
    if len(text) > limit:
        raise too_large(what, limit, len(text))
    return without_escapes(text)


def graph_iri(text: str, parameter: str) -> NamedNode:
    """Parse a parameter that must be an absolute IRI.

    Raises: HttpError 400 when the parameter is not an absolute IRI.
    """
    try:
        return NamedNode(text)
    except ValueError as error:
        raise HttpError(
            400, f"the parameter {parameter} is not an absolute IRI: {text!r}", code="parameter"
        ) from error


class DatasetScope(NamedTuple):
    """The parameters of a request in addition to its text: the dataset and the time limit ``seconds``.

    Attributes:
        seconds: the time limit.
        default_graphs, named_graphs, union: as in `query.QueryRequest`.
        entailment: the value of the parameter: the name of a rule set, ``none``, or None if it is missing.
        added_graphs, hidden_graphs: as in `query.QueryRequest`; they follow from ``entailment``.
    """

    seconds: float
    default_graphs: list[NamedNode] | None = None
    named_graphs: list[NamedNode] | None = None
    union: bool = False
    entailment: str | None = None
    added_graphs: tuple[NamedNode, ...] = ()
    hidden_graphs: frozenset[GraphName] = frozenset()


WHOLE = DatasetScope(0.0)[1:]
"""The fields of a `DatasetScope` for the whole dataset: no default graphs, no named graphs, no union."""
_whole_dataset = lru_cache(maxsize=8)(DatasetScope)


def scope_of(call: SparqlCall, settings: Settings) -> DatasetScope:
    """Return the dataset and the time limit that the parameters of a SPARQL query give.

    Raises: HttpError 400 when a SPARQL Protocol parameter is invalid.
    """
    if not call.fields:
        return _whole_dataset(settings.query_timeout)
    found = DatasetScope(
        _seconds(call.one("timeout"), settings.query_timeout),
        call.graphs("default-graph-uri"),
        call.graphs("named-graph-uri"),
        call.one("union-default-graph") is not None,
        call.one("entailment"),
    )
    if found.union and found.default_graphs:
        raise HttpError(
            400,
            "union-default-graph and default-graph-uri cannot both say what the default graph is",
            code="parameter",
        )
    return found


def update_seconds(call: SparqlCall) -> float:
    """Return the time limit of an update in seconds: the parameter ``timeout``, or infinity.

    Raises: HttpError 400.
    """
    return _seconds(call.one("timeout"), math.inf)


def _seconds(text: str | None, most: float) -> float:
    """Parse the parameter ``timeout`` of a SPARQL request in seconds; the result is at most ``most``."""
    if text is None:
        return most
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise HttpError(
            400, f"the parameter timeout must be seconds, more than 0, it is {text!r}", code="parameter"
        )
    return min(seconds, most)
