"""Queries that look into one table give what they give when each holds the rows, however late they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import Quad

from benchmarks.policies import by_operators, replanned
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.plan.plan import Plan
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.static.table_registry import TableRegistry
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads
from tests.continuous.whole_contents import move_to
from tests.examples import examples

from ..engines import Bench, bench
from ..plan.random_queries import W1, W2, query_of
from ..plan.test_native_oracle import History, has_zero_steps
from .test_following import LABELLED, quad, told
from .test_lookup import shapes, tasks


def evaluator(query: ContinuousQuery, store: QuadStore, statics: TableRegistry) -> Any:
    options = EvaluationOptions(name="q", static_tables="table")
    made = NativeEvaluator(query, store, options, statics.terms, statics=statics)
    made.take(made.statics.begin())
    return made


def take(evaluator: NativeEvaluator) -> None:
    for step in evaluator.statics.steps.ready():
        evaluator.take(step.changes)


def step(evaluator: NativeEvaluator, at: int, contents: Any) -> tuple[Any, Any, Any]:
    change = move_to(evaluator, at, contents)
    return Counter(change.rows), Counter(change.inserted), Counter(change.deleted)


def agree(query: ContinuousQuery, history: History, late: list[bool]) -> None:
    assume(not has_zero_steps(query.root))
    store = QuadStore.open(None)
    shared, apart = [TableRegistry(store, EngineTerms(), threads=Threads(threaded=False)) for _ in range(2)]
    try:
        looking = [replanned(evaluator(query, store, shared)), by_operators(evaluator(query, store, shared))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Plan, "unshared", lambda *_: "it is to hold its rows")
            holding = [replanned(evaluator(query, store, apart)) for _ in looking]
    except (UnsupportedError, QueryTextError):
        assume(False)
    assume(any(each.views for each in shared.tables()))
    assert not any(each.views for each in apart.tables())
    held: set[Quad] = set()
    number = 0
    for first, second, static in history:
        if static is not None:
            store.writer.apply(add=static - held, remove=held - static)
            held = static
            shared.advance(store.reader.version)
            apart.advance(store.reader.version)
        contents = {W1: dict.fromkeys(first, 500 * number), W2: dict.fromkeys(second, 500 * number)}
        for one, other in zip(looking, holding, strict=True):
            if late[number % len(late)]:
                event("a query is behind its table")
            else:
                take(one)
                take(other)
            number += 1
            assert step(one, 500 * number, contents) == step(other, 500 * number, contents)
    tables = shared.tables()
    for each in (*looking, *holding):
        each.close()
    assert not any(table.views or table.indexes for table in tables)
    store.close()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(shapes.map(query_of), tasks, st.lists(st.booleans(), min_size=1, max_size=5))
def test_what_queries_look_into_together_is_what_each_would_hold(
    query: ContinuousQuery, history: History, late: list[bool]
) -> None:
    agree(query, history, late)


def test_an_index_is_made_once_for_all_queries_and_goes_with_the_last() -> None:
    with bench(templates=False) as one:
        one.store.writer.apply(add=[quad("a", "1"), quad("b", "2")])
        for name in "pqr":
            one.register(name, LABELLED)
        (table,) = one.engine.parts.statics.tables()
        (index,) = table.indexes.values()
        assert (index.users, len(index.rows), len(table.views)) == (3, 2, 3)
        for left, name in enumerate("pq"):
            one.engine.queries.drop(name)
            one.store.writer.apply(add=[quad("c", str(left))])
            assert (index.users, len(table.views)) == (2 - left, 2 - left)
        assert sorted(len(index.get(key)) for key in index.rows) == [1, 1, 2]
        one.push(1, "c")
        assert _rows(one, "r") == ["0", "1"]


def test_a_query_that_reads_by_hand_sees_its_own_version_through_the_shared_index() -> None:
    with bench() as one:
        one.store.writer.apply(add=[quad("a", "1")])
        one.register("now", LABELLED)
        one.register("later", LABELLED, refresh="manual")
        one.store.writer.apply(add=[quad("a", "2")], remove=[quad("a", "1")])
        one.push(1, "a")
        assert (_rows(one, "now"), _rows(one, "later")) == (["2"], ["1"])
        one.engine.queries.refresh("later")
        assert _rows(one, "later") == ["1", "2"]


def _rows(one: Bench, name: str) -> list[str]:
    """The second column of all rows of a feed."""
    return sorted(row for _, _, rows in told(one.engine, name) for row in rows)
