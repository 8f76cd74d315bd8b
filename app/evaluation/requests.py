"""A client's query as a request to the store, within the limits on the values that its functions make."""

from __future__ import annotations

from quadrill.store.sparql.query import QueryRequest, both

from ..config import Settings
from ..http.protocol import WHOLE, DatasetScope
from .columns import with_ordered_columns
from .extensions import Extended
from .growth import limited, limited_results


def request_of(
    text: str, scope: DatasetScope, extension: Extended | None, grows: bool, settings: Settings
) -> QueryRequest:
    """The request that is evaluated within the server.

    Args:
        text: the query as the client sent it.
        scope: its dataset and time.
        extension: how it is written for the store, where that differs.
        grows: it could make long values of short ones.
        settings: the limits.
    """
    written = text if extension is None else extension.text
    if "*" in written:
        written = with_ordered_columns(written)
    request = QueryRequest(written, settings.base_iri)
    if scope[1:] != WHOLE:
        _, default_graphs, named_graphs, union = scope
        request = request._replace(default_graphs=default_graphs, named_graphs=named_graphs, union=union)
    longest, together = settings.max_text_length, settings.max_evaluation_bytes
    if extension is not None:
        request = request._replace(
            custom_functions=extension.functions, custom_aggregates=extension.aggregates
        )
        results = limited_results(extension.functions, longest, together)
        if results is not None:
            request = request._replace(custom_functions=results.functions, check=results.check)
    if grows or extension is not None:
        counted = limited(written, longest, together, corrected=True)
        if counted is not None:
            functions = {**(request.custom_functions or {}), **counted.functions}
            check = counted.check if request.check is None else both(request.check, counted.check)
            request = request._replace(text=counted.text, custom_functions=functions, check=check)
    return request
