"""The decision whether a registered query stays when a registration of its name comes."""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import replace as changed

from quadrill.store.errors import ConflictError, ReportedError

from ..queries.catalogue import QueryEntry
from ..queries.prepare import PreparedQuery
from ..queries.same import QueryDifference, costs_of, differences, differences_as_written
from .lifecycle import QueryLifecycle


def stays(lifecycle: QueryLifecycle, entry: QueryEntry, prepared: PreparedQuery, *, replace: bool) -> bool:
    """Return True if a registered query equals a registration of its name and therefore stays.

    A failed query does not stay if it is to be replaced, because its replacement restarts it.

    Raises:
        ConflictError: the two differ, and the registered query is not to be replaced. The error's details are
            the differences and what a replacement costs.
    """
    found = _differences(lifecycle, entry, prepared)
    if not found:
        return not replace or entry.state != "failed"
    if replace:
        return False
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
