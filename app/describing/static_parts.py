"""Descriptions of a query's static parts as JSON: patterns, rows, and whether rows are looked up by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrill.continuous.algebra.printer import write_pattern
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.algebra.static import needed_tables
from quadrill.continuous.evaluate.evaluator import Evaluator
from quadrill.continuous.static.lookup import Lookup
from quadrill.continuous.static.static_inputs import StaticInputs


def describe_static(
    query: ContinuousQuery, evaluator: Evaluator, last: dict[str, Any] | None, now_ms: int
) -> list[dict[str, Any]]:
    """Describe a query's static parts: pattern, rows, and the time of the last refresh."""
    statics, needed = evaluator.statics, needed_tables(evaluator.rest)
    at = None if last is None else last["at"]
    return [
        {
            "name": part.name,
            "pattern": write_pattern(part.pattern, query.prefixes, query.dialect),
            "variables": sorted(var.name for var in part.vars),
            "needed": part.name in needed,
            "age_ms": None if at is None else max(0, now_ms - at),
            "last_refresh": at,
            "cause": None if last is None else last["cause"],
            **_facts(statics, place),
        }
        for place, part in enumerate(statics.parts)
    ]


def _facts(statics: StaticInputs, place: int) -> dict[str, Any]:
    """Return the number, store version and source of a static part's rows."""
    table, steps = statics.tables[place], statics.steps
    lookup: dict[str, Any] | None = None
    if not table.is_held:
        lookup = _cache_figures([each for each in statics.arrangements[place] if isinstance(each, Lookup)])
    reading, choices = table.reading, statics.background.choices
    choice = reading.choice if table.follows else choices.get(statics.parts[place].name)
    return {
        # A static part's table also has rows of store versions that the query has not reached and does not
        # read yet.
        "rows": table.count - steps.rows_ahead(place) if lookup is None else lookup["rows"],
        "version": statics.version if table.follows else table.version,
        "engine": "oxigraph" if choice is None else choice.engine,
        "engine_reason": None if choice is None else choice.reason,
        "follows": table.follows and not steps.held,
        "shared_with": sorted({each.name for each in table.readers if each is not steps}),
        "behind_since": table.behind,
        "problem": reading.problem,
        "origin": reading.origin,
        "lookup": lookup,
        "held_because": statics.held_because.get(place),
        "looked_up_because": None
        if lookup is None
        else statics.looked_up[place] or "the registration asks for it",
        "anew_because": reading.reread_because,
        "read_ms": round(reading.took_s * 1000, 3) if table.follows else None,
    }


def _cache_figures(lookups: Sequence[Lookup]) -> dict[str, Any]:
    """Return counts of a looked-up static part's cache: cached keys and rows, look-ups, and cache hits."""
    asked, found = sum(each.asked for each in lookups), sum(each.found for each in lookups)
    return {
        "keys": sum(each.keys for each in lookups),
        "rows": sum(map(len, lookups)),
        "asked": asked,
        "found": found,
        "hit_rate": round(found / asked, 4) if asked else None,
    }
