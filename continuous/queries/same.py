"""Comparison of a registered query with a registration of the same name, by what both mean.

Two registrations are equal if their texts have the same algebra and the same effective dialect and options.
Prefixes, the base of relative IRIs, white space, comments, the case of keywords and labels of blank nodes do
not count. An effective option may come from a clause of the text, from a member of the registration or from
the default: a text with ``REGISTER ISTREAM`` equals the text without it and ``"output": "istream"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.documents.times import show_duration

from ..algebra.canonical import with_numbered_hidden_variables
from ..algebra.nodes import Call
from ..algebra.print_triples import parts_of
from ..algebra.query import ContinuousQuery, ResultDeclaration, WindowDeclaration
from ..algebra.reports import show_report
from ..language.registration import Registration
from .prepare import PreparedQuery
from .running import RunningQuery


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """One registration member that differs: its effective value before and after, as JSON values."""

    member: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class ReplacementCost:
    """What a replacement of a query costs: ``windows-empty``, ``feed-reset`` or ``keys-forgotten``.

    ``text`` says the same as a sentence without its final dot.
    """

    cost: str
    text: str


def differences(old: PreparedQuery, new: PreparedQuery) -> tuple[QueryDifference, ...]:
    """Return the members in which two registrations of one name differ; empty if the two are equal."""
    before, after = _options(old), _options(new)
    found = [
        QueryDifference(name, value, after[name]) for name, value in before.items() if value != after[name]
    ]
    if _meaning(old.query) != _meaning(new.query):
        texts, parameters = (
            QueryDifference(name, getattr(old.registration, name), getattr(new.registration, name))
            for name in ("query", "parameters")
        )
        changed = [each for each in (texts, parameters) if each.old != each.new]
        # Equal texts of two dialects have different algebras; the member `dialect` then says the reason.
        found = changed + found if changed or found else [texts]
    return tuple(found)


def differences_as_written(old: Registration, new: Registration) -> tuple[QueryDifference, ...]:
    """Return the members in which two registrations differ as clients wrote them, without their meaning."""
    before, after = ({"query": each.query, "dialect": each.dialect} | each.options() for each in (old, new))
    return tuple(
        QueryDifference(name, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    )


def costs_of(running: RunningQuery | None, query: ContinuousQuery) -> tuple[ReplacementCost, ...]:
    """Return what a replacement of a query costs; ``running`` is None for a query that does not run."""
    found = []
    if query.windows:
        quads = "" if running is None else f" (quads in them now: {running.timeline.state_size():,})"
        found.append(ReplacementCost("windows-empty", f"its windows begin empty{quads}"))
    found.append(ReplacementCost("feed-reset", "its feed gets a reset event, and subscribers begin again"))
    if query.emission.once_per is not None:
        found.append(ReplacementCost("keys-forgotten", "ONCE PER forgets the keys of rows emitted before"))
    return tuple(found)


def _options(prepared: PreparedQuery) -> dict[str, Any]:
    """Return the effective options of a query by registration member, as JSON values."""
    asked, report, limits = prepared.registration, prepared.report, prepared.limits
    every, start, evaluation = prepared.refresh, asked.start, asked.evaluation
    return {
        "dialect": prepared.query.dialect,
        "profile": prepared.profile,
        "output": prepared.output,
        "report": show_report(report),
        "strict": report.strict,
        "t0": prepared.t0_ms,
        "after": _duration(report.after_ms or 0),
        "non_empty": report.non_empty,
        "refresh": {"every": show_duration(every)} if isinstance(every, int) else every,
        # A window kind has only one other value of `bounds`, which is its default.
        "bounds": "open-closed" if asked.bounds == "open-closed" else None,
        "lateness": _lateness(prepared),
        "start": {"from": start} if isinstance(start, int) else start,
        "result_iri": prepared.result_iri,
        "into_graph": None if prepared.into_graph is None else prepared.into_graph.value,
        "memory": asked.costs.memory,
        "max_rows": limits.rows or None,
        "max_time": _duration(limits.ms),
        "max_rows_per_minute": limits.minute_rows or None,
        "max_cpu_per_minute": _duration(limits.minute_ms),
        "max_bytes_per_minute": limits.minute_bytes or None,
        "strict_dataset": evaluation.strict_dataset,
        "window_default_graph": evaluation.window_default_graph,
        "static_engine": evaluation.static_engine,
        "static_tables": evaluation.static_tables,
        "uncertain_filters": evaluation.uncertain_filters,
        "entailment": evaluation.entailment,
    }


def _duration(ms: int) -> str | None:
    return show_duration(ms) if ms else None


def _lateness(prepared: PreparedQuery) -> Any:
    """Return the lateness of a query's streams: one duration, or durations by stream if they differ."""
    everywhere, found = prepared.registration.lateness, dict[str, int]()
    for window in prepared.query.windows:
        stream = window.stream.value if isinstance(window.stream, NamedNode) else f"?{window.stream.name}"
        found[stream] = max(found.get(stream, everywhere), window.lateness_ms or 0)
    values = set(found.values())
    if len(values) <= 1:
        return show_duration(values.pop() if values else 0)
    return {stream: show_duration(ms) for stream, ms in found.items()}


def _meaning(query: ContinuousQuery) -> tuple[Any, ...]:
    """Return a parsed query without its spelling and its options, in a form that can be compared.

    Every clause that is neither spelling nor an option is compared, also one that a later version adds. The
    graphs of rule sets are left out, because the option ``entailment`` stands for them.
    """
    clauses = replace(
        query.emission, computed_every_ms=None, t0_ms=None, report=None, emit=None, after_ms=None
    )
    bare = replace(
        query,
        text="",
        dialect="sparql",
        dataset=replace(query.dataset, added=(), asserted=False),
        windows=tuple(_windows(query)),
        output=None,
        result=ResultDeclaration(),
        emission=clauses,
        refresh_every_ms=None,
        into_graph=None,
        prefixes={},
        base_iri=None,
        parameters=(),
        named_aliases=(),
        warnings=(),
    )
    bounds = tuple(window.bounds for window in query.windows)
    calls = (each.name for each in parts_of(bare) if isinstance(each, Call))
    # Only the function IRI uses the base when the query is evaluated; all other IRIs are absolute.
    base = query.base_iri if "IRI" in calls else None
    return base, with_numbered_hidden_variables((bare, bounds))


def _windows(query: ContinuousQuery) -> Iterator[WindowDeclaration]:
    """Yield a query's windows without their lateness, which is an option, and without the base of SEQ."""
    for window in query.windows:
        spec = window.spec
        if spec.sequence is not None:
            spec = replace(spec, sequence=replace(spec.sequence, base_iri=None))
        yield replace(window, spec=spec, lateness_ms=None)
