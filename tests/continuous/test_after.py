"""AFTER: nothing is told before the first instant + d; then what stands, and what follows from it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.store.errors import InputError, QueryTextError

from .engines import S, bench, reference_evaluator
from .test_engine_law import EVENTS, QUERIES, Beat, Place, Push, said
from .test_once_per import take

Row = tuple[str, str]


def standing(changes: list[tuple[str, int, tuple[Row, ...]]], until: int) -> Counter[Row]:
    """The rows of an answer after all that it told at instants up to ``until``."""
    rows: Counter[Row] = Counter()
    for kind, at, told in changes:
        if at <= until:
            (rows.update if kind == "insert" else rows.subtract)(told)
    return +rows


@pytest.mark.parametrize("kind", ["now", "range", "self", "grid"])
@settings(max_examples=15, deadline=None)
@given(events=EVENTS, after=st.integers(1, 15))
def test_what_is_told_is_the_rest_of_what_would_be(
    kind: str, events: list[Push | Beat | Place], after: int
) -> None:
    ending = f" AFTER {after}ms"
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        b.register("plain", QUERIES[kind], output="changes")
        b.register("quiet", QUERIES[kind] + ending, output="changes")
        recomputed.register("quiet", QUERIES[kind], after=f"{after}ms", output="changes")
        time, first = 0, None
        for event in events:
            time += 0 if isinstance(event, Place) else getattr(event, "at", 0)
            first = time if first is None and not isinstance(event, Place) else first
            take(b, event, time)
            take(recomputed, event, time)
        plain, quiet = said(b, "plain"), said(b, "quiet")
        opens = (first or 0) + after
        assert all(at >= opens for _, at, _ in quiet)
        for at in {at for _, at, _ in plain if at >= opens}:
            assert standing(quiet, at) == standing(plain, at)
        assert said(recomputed, "quiet") == quiet
        # Behind the first instant that is told, both say the same.
        began = min((at for _, at, _ in plain if at > opens), default=None)
        if began is not None:
            assert [e for e in quiet if e[1] >= began] == [e for e in plain if e[1] >= began]


def test_what_stands_is_told_when_the_quiet_time_ends() -> None:
    text = "SELECT ?x { STREAM :s [RANGE 1h] { ?x ?p ?y } } AFTER 10ms"
    with bench() as b:
        b.register("q", text)
        b.push(100, "a")
        b.push(105, "b")
        b.engine.streams.heartbeat(S, 109)
        assert not b.told("q")
        b.engine.streams.heartbeat(S, 120)
        b.push(121, "c")
        assert b.told("q") == [("insert", 110, "ab"), ("insert", 121, "c")]


@pytest.mark.parametrize("gap", [2_000, 100_000])
def test_runs_of_empty_windows_are_told_from_the_end_of_the_quiet_time_on(gap: int) -> None:
    text = "SELECT (COUNT(*) AS ?n) { STREAM :s [RANGE 1ms SLIDE 1ms] { ?x ?p ?y } } AFTER 1500ms"
    with bench() as b:
        b.register("q", text, report="on-window-close", output="rstream")
        b.push(0, "a")
        b.engine.streams.heartbeat(S, gap)
        events = b.engine.queries.feed("q").subscribe(0).take()
        assert events[0].kind == "answer" and '"at":1500' in events[0].data


@pytest.mark.parametrize(
    ("text", "after", "error", "message"),
    [
        (QUERIES["now"] + " AFTER 5s", "6s", InputError, "AFTER is 5 s in the text, after is 6 s in the"),
        (QUERIES["now"] + " AFTER 5s AFTER 5s", None, QueryTextError, "twice"),
        (QUERIES["now"] + " AFTER 0s", None, QueryTextError, "longer than 0"),
        ("SELECT * { ?s ?p ?o }", "6s", InputError, "has no window"),
    ],
)
def test_what_cannot_be_is_refused(
    text: str, after: str | None, error: type[Exception], message: str
) -> None:
    with bench() as b, pytest.raises(error, match=message):
        b.register("q", text, after=after)


def test_text_and_option_may_say_the_same() -> None:
    with bench() as b:
        b.register("q", QUERIES["now"] + " AFTER 5s", after="5s")
