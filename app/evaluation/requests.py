"""Conversion of a client's query into a `QueryRequest` to the store, with limits on values of functions."""

from __future__ import annotations

from quadrill.continuous.algebra.scalar_functions import EXTENSION_FUNCTIONS
from quadrill.continuous.analysis.growth import counting
from quadrill.continuous.expressions.choices import LimitedCalls
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.store.sparql.query import QueryRequest

from ..config import Settings
from ..http.protocol import WHOLE, DatasetScope
from .columns import with_ordered_columns
from .extensions import Extended


def request_of(
    text: str, scope: DatasetScope, extension: Extended | None, counts: bool, settings: Settings
) -> QueryRequest:
    """Return the request to the store with which the server evaluates a query in its own process.

    Args:
        text: the query text of the client.
        scope: the dataset and the time limit of the query.
        extension: the rewritten text with its custom functions; None if the text needs no change.
        counts: True if the rewritten text calls functions that limit the size of values.
        settings: the server's settings, with the limits on values.
    """
    written = text if extension is None else extension.text
    if "*" in written:
        written = with_ordered_columns(written)
    request = QueryRequest(written, settings.base_iri)
    if scope[1:] != WHOLE:
        request = request._replace(
            default_graphs=scope.default_graphs,
            named_graphs=scope.named_graphs,
            union=scope.union,
            added_graphs=scope.added_graphs,
            hidden_graphs=scope.hidden_graphs,
        )
    if extension is not None:
        functions, check = extension.functions, None
        if counts or (functions and EXTENSION_FUNCTIONS):
            calls = limited_calls(settings)
            functions, check = calls.results(functions or {}), calls.begun()
            if counts:
                functions.update(counting(calls))
        request = request._replace(
            custom_functions=functions, custom_aggregates=extension.aggregates, check=check
        )
    return request


def limited_calls(settings: Settings) -> LimitedCalls:
    """Return the limits on text values that the functions of one evaluation in the server make."""
    return LimitedCalls(
        Budget(QueryLimits(text=settings.max_text_length, bytes=settings.max_evaluation_bytes))
    )
