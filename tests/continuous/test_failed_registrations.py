"""A registration that fails at any step leaves nothing behind, and a broken entry does not break lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe, describe_all
from quadrill.continuous.engine import Engine, Registration
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.lifecycle.lifecycle import QueryLifecycle
from quadrill.continuous.queries import running as running_module
from quadrill.continuous.queries.catalogue import QueryCatalogue
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.scheduler.attachments import Attachments
from quadrill.continuous.scheduler.router import Router
from quadrill.continuous.streams.registry import StreamRegistry
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.views import ViewRegistry
from quadrill.store.registry import Registry

from .engines import PREFIX, RANGE, E, bench

WINDOW = "FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT5S]"
UNUSED = [
    f"SELECT * {WINDOW} WHERE {{ :a :b ?c }}",
    f"SELECT * {WINDOW} WHERE {{ }}",
    f"ASK {WINDOW} {{ :a :b :c }}",
    f"CONSTRUCT {{ :x :y ?c }} {WINDOW} WHERE {{ :a :b ?c }}",
    f"SELECT * {WINDOW} WHERE {{ VALUES ?c {{ 1 2 }} }}",
    f"SELECT (1 AS ?one) {WINDOW} WHERE {{ }}",
    f"SELECT * {WINDOW} FROM NAMED WINDOW :v ON :t [RANGE PT10S STEP PT5S] WHERE {{ :a :b ?c }}",
    f"SELECT (COUNT(*) AS ?n) {WINDOW} WHERE {{ :a :b ?c OPTIONAL {{ ?c :d ?e }} }}",
    f"SELECT * {WINDOW} WHERE {{ {{ SELECT ?c {{ :a :b ?c }} ORDER BY ?c LIMIT 1 }} }}",
]


@pytest.mark.parametrize("text", UNUSED)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_declared_unused_window_is_a_warning(text: str, engine: str) -> None:
    store = QuadStore.open(None)
    store.writer.update(f"INSERT DATA {{ <{E}a> <{E}b> <{E}c> }}")

    def recomputing(prepared: Any, store: QuadStore, quoted: Any) -> ReferenceEvaluator:
        return ReferenceEvaluator(prepared.query, store, prepared.options(quoted))

    with bench(store=store, make_evaluator=recomputing if engine == "reference" else None) as b:
        document = b.register("q", text, dialect="rspql")
        assert any("is declared but not used" in warning for warning in document["warnings"])
        assert document["state"] == "running"
        b.push(1000, "x")
        b.push(20_000, "x")
        assert describe(b.engine, "q")["error"] is None
        assert b.engine.queries.feed("q").history.last_id > 0


FAULTS: list[tuple[Any, str]] = [
    (QueryCatalogue, "write_registration"),
    (QueryCatalogue, "add"),
    (QueryCatalogue, "index_flows"),
    (QueryLifecycle, "new_feed"),
    (QueryLifecycle, "run"),
    (QueryLifecycle, "make_running"),
    (StreamRegistry, "open_output"),
    (running_module, "emission_of"),
    (QueryTimeline, "__init__"),
    (RunningQuery, "__init__"),
    (Attachments, "read_sources"),
    (Attachments, "new_pending"),
    (ViewRegistry, "adopt"),
    (Router, "attach"),
    (Router, "_enter"),
]
MADE = "CONSTRUCT { ?x :was ?v } WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"
VIEW = "CONSTRUCT { ?x :was ?v } INTO GRAPH :g WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"


def _fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> None:
    """Have a function raise the first time it is called, before or after its work."""
    work: Callable[..., Any] = getattr(owner, name)
    left = [1]

    def faulty(*args: Any, **kwargs: Any) -> Any:
        failing = bool(left and left.pop())
        if failing and not after:
            raise ValueError("injected")
        found = work(*args, **kwargs)
        if failing:
            raise ValueError("injected")
        return found

    monkeypatch.setattr(owner, name, faulty)


def _held(engine: Engine) -> dict[str, Any]:
    """All that a registration may leave in an engine."""
    parts = engine.parts
    return {
        "queries": [entry.name for entry in parts.catalogue.entries()],
        "stored": [record.name for record in parts.catalogue.stored()],
        "dropped": parts.catalogue.was_dropped("q"),
        "streams": [(state.name, state.derived_from, state.reader_lateness) for state in parts.streams],
        "views": dict(parts.views.by_name),
        "attached": dict(parts.router._attached),
        "pending": dict(parts.router.pending),
        "readers": {iri: list(each) for iri, each in parts.router._readers.items() if each},
        "tables": len(parts.statics.tables()),
        "owned": dict(parts.store.queue.owned),
    }


@pytest.mark.always("select-*-before", "stream-*-after", "view-*-before")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[1])
@pytest.mark.parametrize("text", [RANGE, MADE, VIEW], ids=["select", "stream", "view"])
def test_a_fault_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, fault: tuple[Any, str], after: bool
) -> None:
    registry = Registry.open(f"sqlite:///{tmp_path}/registry.sqlite")
    body = text.replace("{ ?x :seen ?v }", "{ ?x :seen ?v } ?x a :Thing")
    members = {"query": PREFIX + body}
    with bench(registry=registry) as b:
        before = _held(b.engine)
        with monkeypatch.context() as patched:
            _fail_once(patched, *fault, after=after)
            try:
                b.engine.queries.register(Registration.from_json(members, name="q"))
            except ValueError:
                assert _held(b.engine) == before
                assert describe_all(b.engine) == []
            else:
                # What only views, or streams that a query makes, come by.
                unmet = {"adopt": text != VIEW, "open_output": text == RANGE}
                assert unmet.get(fault[1], False), "the fault was not met"
                return
        # The name is free, and the query begins as if nothing had been.
        assert b.engine.queries.register(Registration.from_json(members, name="q")) == ("q", True)
        b.store.writer.update(f"INSERT DATA {{ <{E}x> a <{E}Thing> }}")
        b.push(1000, "x")
        assert b.engine.queries.feed("q").history.last_id > 0
    registry.close()


@pytest.mark.parametrize("fault", FAULTS[2:], ids=lambda fault: fault[1])
def test_a_replacement_that_fails_leaves_the_query_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: tuple[Any, str]
) -> None:
    registry = Registry.open(f"sqlite:///{tmp_path}/registry.sqlite")
    with bench(registry=registry) as b:
        b.register("q", VIEW)
        text = b.engine.queries.inspect("q", lambda entry, _: entry.registration.query)
        changed = Registration.from_json({"query": PREFIX + VIEW.replace("10s", "20s")}, name="q")
        with monkeypatch.context() as patched:
            _fail_once(patched, *fault, after=False)
            try:
                b.engine.queries.register(changed, replace=True)
            except ValueError:
                pass
            else:
                assert fault[1] == "new_feed"
                return
        assert [record.text for record in registry.queries.all()] == [text]
        document = describe(b.engine, "q")
        assert (document["text"], document["state"], document["error"]) == (text, "running", None)
        before = b.engine.queries.feed("q").history.last_id
        b.push(1000, "x")
        assert b.engine.queries.feed("q").history.last_id > before
    registry.close()
