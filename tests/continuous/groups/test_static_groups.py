"""Templates, commits worked out for many tables and look-ups together: no feed or answer tells of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quadrill.app.describing.figures import query_figures
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static import table_registry
from tests.examples import examples

from ..engines import Bench, bench, tick
from ..static.test_groups import groups, populate
from ..test_recovery import Life
from . import test_template_recovery as recovery
from .test_template_groups import TEMPLATES, joined, run

STATIC = [place for place, text in enumerate(TEMPLATES) if "} ?x :" in text or "SELECT DISTINCT ?x" in text]


LIMITS = StaticLimits(quick_s=1e9, remembered=2)
"""No clock says what is read anew, and little is remembered."""


@contextmanager
def each_alone() -> Iterator[None]:
    """Changes of tables that differ in constants are worked out one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_registry, "lifted", lambda form: None)
        yield


class Seen:
    """What there was in some runs."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()

    def __call__(self, b: Bench | Life) -> None:
        tick(b.engine)
        largest = max((len(each.tables) for each in groups(b.engine.parts.statics)), default=0)
        now = {"members": largest, "joined": joined(b.engine), "both": min(largest, joined(b.engine))}
        now["looked up"] = sum(each.lookups for each in query_figures(b.engine))
        self.most = self.most | Counter(now)


@pytest.mark.always("0")
@pytest.mark.parametrize("rows", [0, 6])
def test_feeds_and_answers_are_those_of_queries_with_deltas_and_plans_of_their_own(rows: int) -> None:
    seen = Seen()

    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.sampled_from(STATIC), st.integers(0, 2), st.sampled_from([0, 0, 2]))
    @example(seed=2, template=2, window=1, lateness=0)  # has all that is asked for below
    def law(seed: int, template: int, window: int, lateness: int) -> None:
        def told(**how: Any) -> Any:
            how |= {"idle_timeout_ms": 0, "seen": seen, "static_limits": LIMITS}
            return run(seed, template, window, "admit", lateness, **how)[:2]

        with each_alone():
            expected = told(templates=False)
            assert told(templates=True, static_rows=rows) == expected
        for templates in (True, False):
            assert told(templates=templates, static_rows=rows) == expected

    law()
    assert min(seen.most["members"], seen.most["joined"]) > 1
    assert seen.most["both"] > 1
    if rows:
        assert seen.most["looked up"] > 0


@pytest.mark.always("26")
@pytest.mark.parametrize("seed", [10, 26])
def test_a_crash_changes_nothing_that_is_told(tmp_path: Path, seed: int) -> None:
    seen = Seen()
    fixed: dict[str, Any] = {"seen": seen, "static_limits": LIMITS}
    with each_alone():
        alone = recovery.run(tmp_path / "alone", seed, 0, **fixed, templates=False)
    calm = recovery.run(tmp_path / "calm", seed, 0, **fixed, templates=True)
    stormy = recovery.run(tmp_path / "stormy", seed, 4, **fixed, templates=True)
    assert seen.most["members"] > 1
    assert calm[:2] == alone[:2]
    assert stormy[:2] == alone[:2]


def test_queries_whose_tables_are_read_anew_together_stay_together() -> None:
    text = (
        "SELECT ?x ?l ?m WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } STREAM :s [NOW] { ?y :seen ?w }"
        " ?x :label ?l . ?x :in :p%d . ?y :label ?m }"
    )

    def told(**how: Any) -> Any:
        with bench(static_limits=replace(LIMITS, keys=2), **how) as one:
            populate(one)
            for place in range(4):
                one.register(f"q{place}", text % place, output="changes")
            one.push(1, *"abcdef")
            together = []
            for change in (":a :in :p1 , :p2 , :p3", ":b :label 1", ":c :in :p0 , :p1 . :d :label 2 , 3"):
                one.store.writer.update(f"PREFIX : <http://example.org/> INSERT DATA {{ {change} }}")
                together.append(joined(one.engine))
            one.push(2, "a", "c")
            return [one.engine.queries.feed(f"q{k}").subscribe(0).take() for k in range(4)], together

    feeds, together = told(templates=True)
    assert together == [4] * 3
    assert feeds == told(templates=False)[0]
    assert sum(map(len, feeds)) > 10
