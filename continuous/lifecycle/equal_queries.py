"""The check that a registered query equals a registration of its name, which then changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import replace as changed

from quadrill.store.errors import ConflictError, ReportedError

from ..queries.catalogue import QueryEntry
from ..queries.prepare import PreparedQuery
from ..queries.same import QueryDifference, costs_of, differences, differences_as_written
from .lifecycle import QueryLifecycle


def require_equal(lifecycle: QueryLifecycle, entry: QueryEntry, prepared: PreparedQuery) -> None:
    """Raise ConflictError if a registered query differs from a registration of its name.

    The details of the error are the differences and what a replacement of the query costs.
    """
    found = _differences(lifecycle, entry, prepared)
    if not found:
        return
    is_text = any(each.member in ("query", "parameters") for each in found)
    raise ConflictError(
        f"a query named {entry.name} is registered with another text"
        if is_text
        else f"the query {entry.name} is registered with other options: "
        + ", ".join(each.member for each in found),
        code="query-exists",
        hint="Choose another name, drop the query, or PUT with ?replace=true (register --replace)",
        name=entry.name,
        differences=[asdict(each) for each in found],
        costs=[asdict(each) for each in costs_of(entry.running, (entry.prepared or prepared).query)],
    )


def _differences(
    lifecycle: QueryLifecycle, entry: QueryEntry, prepared: PreparedQuery
) -> tuple[QueryDifference, ...]:
    """Return the members in which a registered query and a registration of its name differ."""
    registered = entry.registration
    if registered == prepared.registration:
        return ()
    old = entry.prepared
    try:
        # A client may have changed options of the query since its preparation.
        old = lifecycle.prepare(registered) if old is None else changed(old, registration=registered)
    except ReportedError:
        # The query cannot run, for instance because its rule set was deleted.
        return differences_as_written(registered, prepared.registration)
    return differences(old.under_name(entry.name), prepared)
