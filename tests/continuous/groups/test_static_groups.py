"""Templates, tables of groups and limits of memory together: nobody can tell from feeds and answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quadrill.continuous.static import commit_delta as effects
from quadrill.continuous.static import groups, lookup, residence
from quadrill.continuous.static.base import BaseTable, MemberTable

from ..engines import Bench, bench
from ..static.test_groups import near, populate
from ..static.test_residence import held, look
from ..test_recovery import Life
from . import test_template_recovery as recovery
from .test_template_groups import TEMPLATES, joined, run

STATIC = [place for place, text in enumerate(TEMPLATES) if "} ?x :" in text or "SELECT DISTINCT ?x" in text]
ALONE: dict[str, Any] = {"templates": False, "static_group_factor": 0}
TOGETHER: dict[str, Any] = {"templates": True, "static_group_factor": 1000}
WAYS = [ALONE, TOGETHER, ALONE | {"templates": True}, ALONE | {"static_group_factor": 1000}]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables are enough for a group, parts come back soon, and no clock says what is read anew."""
    monkeypatch.setattr(groups, "LEAST_MEMBERS", 2)
    monkeypatch.setattr(effects, "QUICK_S", 1e9)
    monkeypatch.setattr(residence, "RETURN_MISSES", 1)
    monkeypatch.setattr(residence, "IDLE_MS", 2_000)
    monkeypatch.setattr(residence, "LOOK_MS", 400)
    monkeypatch.setattr(lookup, "MOST_REMEMBERED", 2)


def members(b: Bench | Life) -> int:
    """How many parts are selections of a table of their group."""
    return sum(
        isinstance(table, MemberTable)
        for entry in b.engine.parts.catalogue.entries()
        if entry.running is not None and entry.running.statics is not None
        for table in entry.running.statics.tables
    )


class Seen:
    """What there was in some runs; the engine looks at what is in memory after each step."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()

    def __call__(self, b: Bench | Life) -> None:
        b.clock.advance(residence.CHECK_MS)
        b.engine.tick()
        figures = b.engine.figures()
        both = [members(b), joined(b.engine)]
        now = {"members": both[0], "joined": both[1], "both": min(both)}
        now |= dict(zip(("left", "returned"), figures.static_moves, strict=True))
        self.most = self.most | Counter(now)


@pytest.mark.parametrize("rows", [0, 6])
def test_feeds_and_answers_are_those_of_queries_with_tables_and_plans_of_their_own(rows: int) -> None:
    seen = Seen()

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.sampled_from(STATIC), st.integers(0, 2), st.sampled_from([0, 0, 2]))
    def law(seed: int, template: int, window: int, lateness: int) -> None:
        fixed: dict[str, Any] = {"static_delta_share": 0, "idle_timeout_ms": 0}
        told = [
            run(seed, template, window, "admit", lateness, seen=seen, **fixed, **way)[:2] for way in WAYS[:1]
        ]
        told += [
            run(seed, template, window, "admit", lateness, seen=seen, static_rows=rows, **fixed, **way)[:2]
            for way in WAYS[1:]
        ]
        assert told[1:] == [told[0]] * 3

    law()
    assert min(seen.most["members"], seen.most["joined"]) > 1
    assert seen.most["both"] > 1
    if rows:
        assert min(seen.most["left"], seen.most["returned"]) > 0


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("seed", [10, 26])
def test_a_crash_changes_nothing_that_is_told(tmp_path: Path, seed: int, rows: int) -> None:
    seen = Seen()
    fixed: dict[str, Any] = {"static_delta_share": 0, "seen": seen}
    alone = recovery.run(tmp_path / "alone", seed, 0, **fixed, **ALONE)
    calm = recovery.run(tmp_path / "calm", seed, 0, static_rows=rows, **fixed, **TOGETHER)
    stormy = recovery.run(tmp_path / "stormy", seed, 4, static_rows=rows, **fixed, **TOGETHER)
    assert seen.most["members"] > 1
    assert (seen.most["left"] > 0) == bool(rows)
    assert calm[:2] == alone[:2]
    assert stormy[:2] == alone[:2]


def test_the_table_of_a_group_leaves_memory_with_all_its_members() -> None:
    with bench(static_rows=8) as one:
        populate(one)
        for place in range(3):
            one.register(f"q{place}", near(f"p{place}"), output="changes")
        one.push(1, *"abcdef")
        (base,) = one.engine.parts.statics.tables()
        assert isinstance(base, BaseTable) and base.count == 6
        assert (joined(one.engine), members(one)) == (3, 3)
        one.store.update("PREFIX : <http://example.org/> INSERT DATA { :g :label 1,2,3 ; :in :p3 }")
        look(one)
        assert held(one) == dict.fromkeys(("q0", "q1", "q2"), False)
        assert one.engine.figures().static_tables == (0, 0)
        assert (joined(one.engine), members(one)) == (0, 0)
        one.store.update("PREFIX : <http://example.org/> INSERT DATA { :a :label 7 . :b :in :p0 }")
        one.push(2, "g", "h")
        kinds = [[(kind, at) for kind, at, _ in one.told(f"q{k}")] for k in range(3)]
        assert kinds == [[("insert", 1), ("insert", 1)], [("insert", 1)], [("insert", 1)]]
        look(one, residence.LOOK_MS)
        look(one)
        assert True in held(one).values()


def test_members_that_wait_for_their_common_table_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "MOST_KEYS", 2)
    text = (
        "SELECT ?x ?l ?m WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } STREAM :s [NOW] { ?y :seen ?w }"
        " ?x :label ?l . ?x :in :p%d . ?y :label ?m }"
    )

    def told(**how: Any) -> Any:
        with bench(static_delta_share=0, static_group_factor=1000, **how) as one:
            populate(one)
            for place in range(4):
                one.register(f"q{place}", text % place, output="changes")
            one.push(1, *"abcdef")
            together = []
            for change in (":a :in :p1 , :p2 , :p3", ":b :label 1", ":c :in :p0 , :p1 . :d :label 2 , 3"):
                one.store.update(f"PREFIX : <http://example.org/> INSERT DATA {{ {change} }}")
                together.append((members(one), joined(one.engine)))
            one.push(2, "a", "c")
            return [one.engine.feed(f"q{k}").subscribe(0).take() for k in range(4)], together

    feeds, together = told(templates=True)
    assert together == [(4, 4)] * 3
    assert feeds == told(templates=False)[0]
    assert sum(map(len, feeds)) > 10
