"""Routes of shapes."""

from __future__ import annotations

from ..front.route import Route
from ..front.vocabulary import EVENTS, GRAPH_TYPES, JSON, RDF_TYPES, RESULT_TYPES
from ..resources import feeds, shapes

SHAPES: tuple[Route, ...] = (
    Route("GET", "/shapes", shapes.list_shapes, "all shapes", (200,), answers=JSON),
    Route("GET", "/shapes/{name}", shapes.get_shapes, "shapes, their state and counts", (200,), answers=JSON),
    Route(
        "PUT",
        "/shapes/{name}",
        shapes.put_shapes,
        "create or replace shapes",
        (200, 201),
        ("mode", "data", "into", "max_time", "max_results", "dry_run"),
        (*RDF_TYPES, *JSON),
        JSON,
        "write",
    ),
    Route(
        "DELETE",
        "/shapes/{name}",
        shapes.remove_shapes,
        "remove shapes and their report",
        (204,),
        role="write",
    ),
    Route(
        "GET",
        "/shapes/{name}/report",
        shapes.get_report,
        "the validation report of the store's version",
        (200,),
        ("limit",),
        answers=GRAPH_TYPES,
    ),
    Route(
        "GET",
        "/shapes/{name}/results",
        feeds.shape_results,
        "the results that come and go as events, or all results as rows; 204 after a DELETE",
        (200, 204),
        ("from", "snapshot", "format", "follow"),
        answers=(*EVENTS, *JSON, *RESULT_TYPES),
    ),
    Route("GET", "/shapes/{name}/results", feeds.open_shape_results, websocket=True),
    Route(
        "POST",
        "/shapes:validate",
        shapes.validate,
        "validate the body, which is not stored",
        (200,),
        ("shapes", "with"),
        RDF_TYPES,
        GRAPH_TYPES,
        "read",
    ),
)
