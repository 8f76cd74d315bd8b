"""The OpenAPI document of the HTTP interface, built from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin, get_type_hints
from typing import Literal as OneOf

from quadrill.continuous.language.registration import registration_members

from ..http.negotiation import graph_offers, result_offers
from .route import Route
from .vocabulary import PARAMETERS, REGISTRATION


def document(routes: Iterable[Route], version: str, server: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document for a table of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if not route.summary:
            continue
        # OpenAPI 3.1 has no field for the method QUERY, so the document has an extension field.
        method = route.method.lower() if route.method != "QUERY" else "x-query"
        of_path = paths.setdefault(route.path, {})
        of_path[method] = _operation(route)
        if route.head:
            parameters = route.parameters
            of_path["head"] = _operation(
                Route("HEAD", route.path, route.handler, route.head, parameters=parameters)
            )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Quadrill",
            "version": version,
            "summary": "A SPARQL triple store whose queries can stay open.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM, "Registration": _registration()},
            "securitySchemes": _SCHEMES,
        },
        "security": [{}, {"bearer": []}, {"cookie": []}],
    }


def _operation(operation: Route) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "x-role": operation.described_role or operation.needed,
        "parameters": [],
        "responses": {},
    }
    for part in operation.path.split("{")[1:]:
        name = part.partition("}")[0]
        described["parameters"].append(
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        )
    for name in operation.parameters:
        kind, meaning = PARAMETERS[name]
        schema: dict[str, Any] = {"type": kind}
        if kind == "array":
            schema["items"] = {"type": "string"}
        described["parameters"].append(
            {"name": name, "in": "query", "description": meaning, "schema": schema}
        )
    if operation.body:
        described["requestBody"] = {"content": {media_type: {} for media_type in operation.body}}
        if operation.body == REGISTRATION:
            registration = {"schema": {"$ref": "#/components/schemas/Registration"}}
            described["requestBody"]["content"]["application/json"] = registration
    for status in operation.statuses:
        answer: dict[str, Any] = {"description": operation.summary}
        if operation.answers and status not in (204, 302, 303):
            answer["content"] = {media_type: {} for media_type in _spelt_out(operation.answers)}
        described["responses"][str(status)] = answer
    described["responses"]["default"] = {
        "description": "a problem",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    return described


def _registration() -> dict[str, Any]:
    """Return the JSON schema of a registration; a member with fixed values has an ``enum``."""
    properties: dict[str, Any] = {}
    for name, (owner, _) in registration_members().items():
        hint = get_type_hints(owner)[name]
        words = [get_args(each) for each in (hint, *get_args(hint)) if get_origin(each) is OneOf]
        properties[name] = {"enum": list(words[0])} if words else {}
    return {"type": "object", "required": ["query"], "properties": properties, "additionalProperties": False}


def _spelt_out(types: Iterable[str]) -> Iterator[str]:
    offers = {"graphs": graph_offers, "solutions": result_offers}
    for each in types:
        if each in offers:
            yield from (offer.media_type for offer in offers[each]())
        else:
            yield each


_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "hint": {"type": "string"},
        "line": {"type": "integer", "description": "in query texts and RDF, from 1"},
        "column": {"type": "integer", "description": "in query texts and RDF, from 1"},
        "excerpt": {"type": "string", "description": "the line with a caret under the place"},
        "faults": {"type": "array", "items": {"type": "object"}},
    },
}
_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "quadrill_session"},
}
