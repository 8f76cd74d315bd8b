"""Checks of a SPARQL text for an editor, without evaluation of the text."""

from __future__ import annotations

from typing import Any

from quadrill.continuous.analysis.prepared import prepared
from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QueryTextError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.skeletons import split_constants
from quadrill.store.sparql.update_plan import UpdateRequest, parse_all, plan_update

from .extensions import aggregates_of, functions_of
from .query_faults import refuse_unchecked
from .where_parts import ServerWherePart


def faults_of_query(text: str, base_iri: str) -> list[dict[str, Any]]:
    """Return the faults of a query text with their places; an empty list if the parser cannot judge it."""
    try:
        refuse_unchecked(text, base_iri, prepared(text, split_constants(text)))
        parse(text, dialect="sparql", base_iri=base_iri)
    except QueryTextError as error:
        # Only the store parses texts longer than the limit of continuous queries, so the check does not judge
        # them.
        return _shown(error) if error.code == QueryTextError.code else []
    except ReportedError:
        pass
    return []


def faults_of_update(text: str, base_iri: str, store: QuadStore) -> list[dict[str, Any]]:
    """Return the faults of an update's text, with line and column where the place is known."""
    request = UpdateRequest(
        text,
        base_iri,
        custom_functions=functions_of(text),
        where_parts=ServerWherePart,
        custom_aggregates=aggregates_of(text),
    )
    try:
        parse_all(plan_update(request, store.limits, store.allowed_hosts))
    except QueryTextError as error:
        return _shown(error)
    except ReportedError as error:
        return [_without_none(message=error.message, hint=error.hint)]
    return []


def _shown(error: QueryTextError) -> list[dict[str, Any]]:
    if error.faults:
        return list(error.faults)
    return [_without_none(message=error.message, line=error.line, column=error.column, hint=error.hint)]


def _without_none(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
