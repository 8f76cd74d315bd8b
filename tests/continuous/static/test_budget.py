"""Limits on the rows of static parts: who is refused, who goes on, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.app.describing.figures import engine_figures, query_figures
from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, explain, validate
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Registration
from quadrill.continuous.settings import StaticLimits
from quadrill.store.errors import LimitError, NotFoundError

from ..engines import PREFIX, Bench, E, bench
from ..test_recovery import Life, P

LABELLED = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :label ?l }"
OTHER = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :other ?l }"
BOTH = (
    "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } "
    "OPTIONAL { ?x :label ?l } OPTIONAL { ?x :other ?m } }"
)


EACH_ROW = StaticLimits(rows_each=1)
"""Whether there is room is looked at with each row."""


def fill(one: Bench, predicate: str, number: int) -> None:
    one.store.writer.apply(
        add=[
            Quad(NamedNode(f"{E}x{n}"), NamedNode(E + predicate), NamedNode(E + "l"), DefaultGraph())
            for n in range(number)
        ]
    )


def rows(one: Bench) -> tuple[int, int]:
    return engine_figures(one.engine).static_tables


def test_a_query_with_more_rows_than_one_may_have_is_refused_and_leaves_nothing() -> None:
    with bench(static_limits=EACH_ROW, static_rows_per_query=3) as one:
        fill(one, "label", 4)
        with pytest.raises(LimitError, match="of the query have 4 rows or more, the limit of a query is 3"):
            one.register("q", LABELLED, static_tables="table")
        assert rows(one) == (0, 0)
        with pytest.raises(NotFoundError):
            describe(one.engine, "q")


def test_as_many_rows_as_allowed_are_taken() -> None:
    with bench(static_limits=EACH_ROW, static_rows=4, static_rows_per_query=4) as one:
        fill(one, "label", 4)
        one.register("q", LABELLED, static_tables="table")
        assert rows(one) == (1, 4)


def test_the_parts_of_one_query_count_together() -> None:
    with bench(static_limits=EACH_ROW, static_rows_per_query=5) as one:
        fill(one, "label", 3)
        fill(one, "other", 3)
        with pytest.raises(LimitError, match="6 rows or more"):
            one.register("q", BOTH, static_tables="table")
        assert rows(one) == (0, 0)


def test_the_tables_of_all_queries_count_together_and_a_shared_one_once() -> None:
    with bench(static_limits=EACH_ROW, static_rows=5) as one:
        fill(one, "label", 3)
        fill(one, "other", 3)
        one.register("p", LABELLED, static_tables="table")
        one.register("q", LABELLED, static_tables="table")
        assert rows(one) == (1, 3)
        with pytest.raises(LimitError, match="of all queries .* 6 rows or more in memory, the limit is 5"):
            one.register("r", OTHER, static_tables="table")
        assert rows(one) == (1, 3)
        one.engine.queries.drop("p")
        one.engine.queries.drop("q")
        one.register("r", OTHER, static_tables="table")
        assert rows(one) == (1, 3)


def test_a_part_without_room_beside_the_others_is_looked_up_and_stays_so() -> None:
    with bench(static_limits=EACH_ROW, static_rows=5) as one:
        fill(one, "label", 3)
        fill(one, "other", 3)
        one.register("p", LABELLED, output="changes")
        one.register("q", OTHER, output="changes")
        (part,) = describe(one.engine, "q")["static_parts"]
        assert part["looked_up_because"] == (
            "the static parts of all queries would have 6 rows or more in memory, the limit is 5"
        )
        assert f"looked up, not held: {part['looked_up_because']}" in explain_text(explain(one.engine, "q"))
        assert rows(one) == (1, 3)
        one.engine.queries.drop("p")
        one.push(1, "x1", "x7")
        one.store.writer.update(f"INSERT DATA {{ <{E}x7> <{E}other> <{E}m> }}")
        assert [kind for kind, _, _ in one.told("q")] == ["insert", "insert"]
        assert sum(each.lookups for each in query_figures(one.engine)) == 1


def test_what_is_looked_up_for_a_limit_is_so_after_a_crash(tmp_path: Path) -> None:
    life = Life(tmp_path / "a", ManualClock(0), static_rows=5)
    for predicate, text in (("label", LABELLED), ("other", OTHER)):
        life.store.writer.update(P + f"INSERT DATA {{ :a :{predicate} 1, 2, 3 }}")
        life.register(predicate, text)
    for number in range(2):
        life.push(number + 1, "a")
        if number:
            life.checkpoint()
        before = [
            describe(life.engine, name)["static_parts"][0]["looked_up_because"] for name in ("label", "other")
        ]
        assert before[0] is None and "the limit is 5" in before[1]
        told = life.told()
        life.journal.log.sync()
        life = life.crash()
        parts = [describe(life.engine, name)["static_parts"][0] for name in ("label", "other")]
        assert [part["looked_up_because"] for part in parts] == before
        assert life.told() == told
    life.stop()


def test_validating_is_refused_as_registering_is() -> None:
    with bench(static_limits=EACH_ROW, static_rows_per_query=3) as one:
        fill(one, "label", 4)
        with pytest.raises(LimitError, match="limit of a query is 3"):
            validate(
                one.engine, Registration.from_json({"query": PREFIX + LABELLED, "static_tables": "table"})
            )
        assert rows(one) == (0, 0)


def test_a_table_that_commits_make_larger_goes_on_and_counts_for_the_next_registration() -> None:
    with bench(static_limits=EACH_ROW, static_rows=4, static_rows_per_query=4) as one:
        fill(one, "label", 4)
        one.register("q", LABELLED, static_tables="table")
        fill(one, "label", 6)
        one.push(1, "x5")
        assert rows(one) == (1, 6)
        (event,) = one.engine.queries.feed("q").subscribe(0).take()
        assert "x5" in event.data
        with pytest.raises(LimitError):
            one.register("p", LABELLED, static_tables="table")
        fill(one, "other", 1)
        with pytest.raises(LimitError, match="7 rows or more"):
            one.register("p", OTHER, static_tables="table")


def test_a_restart_brings_back_what_has_grown_beyond_the_limit(tmp_path: Path) -> None:
    life = Life(tmp_path / "a", ManualClock(0), static_rows=2, static_rows_per_query=2)
    life.register("q", LABELLED, static_tables="table")
    life.store.writer.update(P + "INSERT DATA { :a :label 1, 2, 3, 4 }")
    life.push(1, "a")
    told = life.told()["q"]
    life.journal.log.sync()
    life = life.crash()
    assert describe(life.engine, "q")["state"] == "running"
    assert describe(life.engine, "q")["static_parts"][0]["rows"] == 4
    assert len(told) == 1
    assert life.told()["q"] == told
    life.stop()
