"""Templates, tables of groups and limits of memory together: nobody can tell from feeds and answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quadrill.continuous.static import commit_delta as effects
from quadrill.continuous.static import groups, lookup
from quadrill.continuous.static.base import MemberTable

from ..engines import Bench, bench
from ..static.test_groups import populate
from ..test_recovery import Life
from . import test_template_recovery as recovery
from .test_template_groups import TEMPLATES, joined, run

STATIC = [place for place, text in enumerate(TEMPLATES) if "} ?x :" in text or "SELECT DISTINCT ?x" in text]
ALONE: dict[str, Any] = {"templates": False, "static_group_factor": 0}
TOGETHER: dict[str, Any] = {"templates": True, "static_group_factor": 1000}
WAYS = [ALONE, TOGETHER, ALONE | {"templates": True}, ALONE | {"static_group_factor": 1000}]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables are enough for a group, and no clock says what is read anew."""
    monkeypatch.setattr(groups, "LEAST_MEMBERS", 2)
    monkeypatch.setattr(effects, "QUICK_S", 1e9)
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
    """What there was in some runs."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()

    def __call__(self, b: Bench | Life) -> None:
        b.engine.tick()
        both = [members(b), joined(b.engine)]
        now = {"members": both[0], "joined": both[1], "both": min(both)}
        now["looked up"] = b.engine.figures().static_lookups
        self.most = self.most | Counter(now)


@pytest.mark.parametrize("rows", [0, 6])
def test_feeds_and_answers_are_those_of_queries_with_tables_and_plans_of_their_own(rows: int) -> None:
    seen = Seen()

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.sampled_from(STATIC), st.integers(0, 2), st.sampled_from([0, 0, 2]))
    def law(seed: int, template: int, window: int, lateness: int) -> None:
        fixed: dict[str, Any] = {"idle_timeout_ms": 0}
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
        assert seen.most["looked up"] > 0


@pytest.mark.parametrize("seed", [10, 26])
def test_a_crash_changes_nothing_that_is_told(tmp_path: Path, seed: int) -> None:
    seen = Seen()
    fixed: dict[str, Any] = {"seen": seen}
    alone = recovery.run(tmp_path / "alone", seed, 0, **fixed, **ALONE)
    calm = recovery.run(tmp_path / "calm", seed, 0, **fixed, **TOGETHER)
    stormy = recovery.run(tmp_path / "stormy", seed, 4, **fixed, **TOGETHER)
    assert seen.most["members"] > 1
    assert calm[:2] == alone[:2]
    assert stormy[:2] == alone[:2]


def test_members_that_wait_for_their_common_table_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "MOST_KEYS", 2)
    text = (
        "SELECT ?x ?l ?m WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } STREAM :s [NOW] { ?y :seen ?w }"
        " ?x :label ?l . ?x :in :p%d . ?y :label ?m }"
    )

    def told(**how: Any) -> Any:
        with bench(static_group_factor=1000, **how) as one:
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
