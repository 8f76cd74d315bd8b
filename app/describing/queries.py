"""Descriptions, EXPLAIN documents and validations of queries for ``/queries``."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import Any

from quadrill.continuous.algebra.show import show
from quadrill.continuous.engine import Engine
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.language.write import write
from quadrill.continuous.queries.catalogue import PendingQuery, QueryEntry
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.scale_out.split import split_of
from quadrill.store.errors import NotFoundError

from .documents import (
    describe_failed,
    describe_graphs,
    describe_pending,
    describe_prepared,
    describe_running,
)
from .operators import measured, tree

log = logging.getLogger("quadrill.app")


def describe(engine: Engine, name: str) -> dict[str, Any]:
    """Return the description of a query; raises NotFoundError for an unknown name."""
    now_ms = engine.clock.now_ms()

    def describe_entry(
        entry: QueryEntry, query: PendingQuery | RunningQuery | None
    ) -> tuple[dict[str, Any], PreparedQuery | None]:
        if isinstance(query, PendingQuery):
            return describe_pending(query, entry.created_ms), None
        if query is None:
            return describe_failed(entry, starting=engine.parts.starting.active), None
        document = describe_running(query, engine.parts.streams.find, now_ms)
        document["backlog"] = engine.parts.router.shares.backlog_figures(query)
        return document, query.prepared

    document, prepared = engine.queries.inspect(name, describe_entry)
    if engine.parts.starting.active:
        document["starting"] = engine.parts.starting.to_json()
    if prepared is not None:
        document["graphs"] = describe_graphs(prepared, engine.rates, now_ms)
    return document


def describe_listed(engine: Engine, name: str) -> dict[str, Any]:
    """Return a query's description for a list; a query whose description fails is listed with the error.

    Raises NotFoundError.
    """
    try:
        return describe(engine, name)
    except NotFoundError:
        raise
    except Exception as problem:
        log.exception("The query %s cannot be described", name)
        entry = engine.queries.inspect_all(partial(_entries_of, name))
        for each in entry:
            text = f"the query cannot be described: {type(problem).__name__}: {problem}"
            return describe_failed(each) | {"state": "failed", "error": each.error or text}
        raise NotFoundError(f"no query named {name} is registered", code="unknown-query") from None


def _entries_of(name: str, entries: list[QueryEntry]) -> list[QueryEntry]:
    return [entry for entry in entries if entry.name == name]


def describe_all(engine: Engine) -> list[dict[str, Any]]:
    """Return the descriptions of all queries in the order of their registration."""
    found = []
    for name in engine.queries.names():
        with suppress(NotFoundError):  # the query was dropped after the names were read
            found.append(describe_listed(engine, name))
    return found


def explain(engine: Engine, name: str, *, analyze: bool = False) -> dict[str, Any]:
    """Return a query's description, its plan, and the plan's generated source (None without one).

    With ``analyze``, the plan has measured row counts and times of each operator.
    """
    document = describe(engine, name) | {"plan": None, "code": None, "written": None}
    prepared, plan = engine.queries.inspect(name, partial(_plan_of, analyze))
    if prepared is None:
        return document | {"algebra": f"none: {document['error'] or document['state']}"}
    return document | plan | _texts_of(engine, prepared)


def _plan_of(
    analyze: bool, _: QueryEntry, query: PendingQuery | RunningQuery | None
) -> tuple[PreparedQuery | None, dict[str, Any]]:
    if not isinstance(query, RunningQuery):
        return None, {}
    plan = query.plan_state
    if plan is None:
        return query.prepared, {"operators": [], "steps": 0, "timed_steps": 0}
    shown = {"plan": tree(plan.plan, analyze=analyze), "code": plan.compiled.text}
    return query.prepared, shown | measured(plan.plan)


def _texts_of(engine: Engine, prepared: PreparedQuery) -> dict[str, Any]:
    texts = {"algebra": show(prepared.query.root), "written": write(prepared.query)}
    if not prepared.query.windows:
        return texts
    return texts | {"scale_out": split_of(prepared, engine.lifecycle.self_contained(prepared)).to_json()}


def validate(engine: Engine, registration: Registration, *, code: bool = False) -> dict[str, Any]:
    """Return description, plan and warnings of a query without registering it.

    With ``code``, the answer also has the plan's generated source (None without one).
    """
    trial = engine.queries.validate(registration)
    try:
        document = describe_prepared(trial.prepared)
        shown = describe_running(trial, engine.parts.streams.find, engine.clock.now_ms())
        for member in ("engine", "filter_place", "streams", "windows", "version", "static_parts"):
            document[member] = shown[member]
        plan = trial.plan_state
        document |= _texts_of(engine, trial.prepared)
        document["plan"] = None if plan is None else tree(plan.plan)
        if code:
            document["code"] = None if plan is None else plan.compiled.text
    finally:
        trial.evaluator.close()
    return document
