"""The timeline: order of elements, instants and evaluations, with drawn timelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.query import WindowDeclaration, WindowSpec
from quadrill.continuous.algebra.reports import EmptyReportRun, Evaluation, Report
from quadrill.continuous.inputs import Advance, Arrival, Element, Idle, StreamTime
from quadrill.continuous.windows.encoded import ElementCoder, EncodedContent
from quadrill.continuous.windows.kinds import kind_of
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.dictionary import TermDictionary

from .windows.specs import SPECS

P = NamedNode("http://example.org/p")
CHANGE = Report("on-content-change")
CLOSE = Report("on-window-close")


class Streams:
    """Drives a timeline as the accept path does: one `StreamTime` per stream."""

    def __init__(self, timeline: QueryTimeline, lateness: int = 0) -> None:
        self.timeline = timeline
        self.lateness = lateness
        self.times: dict[str, StreamTime] = {}
        self.seq = 0
        self.evaluated: Callable[[], object] = lambda: None

    def push(self, stream: str, *events: tuple[int, str], admit: bool = False) -> list[tuple[object, ...]]:
        before = self.times.get(stream, StreamTime(lateness=self.lateness))
        found = []
        for at, name in events:
            self.seq += 1
            names = [NamedNode(f"http://example.org/{letter}") for letter in name]
            quads = tuple(Quad(each, P, Literal("x")) for each in names)
            found.append(Element.of(quads, at, self.seq))
        seen = max([at for at, _ in events] + ([before.seen] if before.seen is not None else []))
        after = self.times[stream] = StreamTime(seen, before.floor, self.lateness)
        return self._told(self.timeline.handle(Arrival(stream, tuple(found), before, after, admit)))

    def beat(self, stream: str, at: int) -> list[tuple[object, ...]]:
        before = self.times.get(stream, StreamTime(lateness=self.lateness))
        after = self.times[stream] = StreamTime(before.seen, at, self.lateness)
        return self._told(self.timeline.handle(Advance(stream, after)))

    def idle(self, stream: str) -> list[tuple[object, ...]]:
        before = self.times[stream]
        after = self.times[stream] = StreamTime(before.seen, before.seen, self.lateness)
        return self._told(self.timeline.handle(Idle(stream, after)))

    def _told(self, steps: Iterable[object]) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for step in steps:
            if isinstance(step, EmptyReportRun):
                found.append(("skipped", step.start, step.end, step.skipped))
                continue
            assert isinstance(step, Evaluation)
            self.evaluated()
            contents: dict[NamedNode, set[Quad]] = {}
            for (name, _), live in self.timeline.windows.contents:
                contents.setdefault(name, set()).update(live.content)
            names = [
                "".join(sorted(quad.subject.value[-1] for quad in each if isinstance(quad, Quad)))
                for each in contents.values()
            ]
            found.append((step.at, *names) if not step.revises else (step.at, *names, "revises"))
        return found


def window(spec: WindowSpec, stream: str | Var = "s", name: str = "w") -> WindowDeclaration:
    on = NamedNode(f"urn:{stream}") if isinstance(stream, str) else stream
    return WindowDeclaration(NamedNode(f"urn:{name}"), on, spec)


NOW = WindowSpec("now")


def range_of(width: int) -> WindowSpec:
    return WindowSpec("range", width_ms=width)


def grid(width: int, slide: int) -> WindowSpec:
    return WindowSpec("grid", width_ms=width, slide_ms=slide)


def test_a_range_is_evaluated_when_something_enters_and_when_it_leaves() -> None:
    """Drawn.

    event time   10    12                15   16      18
    RANGE 5      a-----------------------a    |
                       b----------------------b--b(17)
    evaluations  a     ab                     b       -
    """
    s = Streams(QueryTimeline([window(range_of(5))], CHANGE))
    assert s.push("urn:s", (10, "a")) == [(10, "a")]
    assert s.push("urn:s", (12, "b")) == [(12, "ab")]
    assert s.beat("urn:s", 15) == []
    assert s.beat("urn:s", 30) == [(16, "b"), (18, "")]


def test_an_expiry_is_merged_with_the_first_transaction_of_its_instant() -> None:
    """At 16 a leaves and b comes at 16: one evaluation. With a heartbeat first they are two."""
    s = Streams(QueryTimeline([window(range_of(5))], CHANGE))
    s.push("urn:s", (10, "a"))
    assert s.push("urn:s", (16, "b")) == [(16, "b")]
    s = Streams(QueryTimeline([window(range_of(5))], CHANGE))
    s.push("urn:s", (10, "a"))
    assert s.beat("urn:s", 16) == [(16, "")]
    assert s.push("urn:s", (16, "b")) == [(16, "b")]


def test_a_push_is_one_transaction_per_event_time_in_time_order() -> None:
    s = Streams(QueryTimeline([window(range_of(100))], CHANGE))
    assert s.push("urn:s", (12, "b"), (10, "a"), (12, "c")) == [(10, "a"), (12, "abc")]


def test_elements_wait_for_the_least_watermark_of_streams_that_have_spoken() -> None:
    """Drawn.

    s1   10 a          20 c            t2 is silent at first: it holds nothing back
    s2          15 b          17 d     from 15 on both count
    """
    both = [window(range_of(100), "s1", "w1"), window(range_of(100), "s2", "w2")]
    s = Streams(QueryTimeline(both, CHANGE))
    assert s.push("urn:s1", (10, "a")) == [(10, "a", "")]
    assert s.push("urn:s1", (20, "c")) == [(20, "ac", "")]
    # 15 is behind the query's instant 20: it is taken there, and counted.
    assert s.push("urn:s2", (15, "b")) == [(20, "ac", "b")]
    assert s.timeline.inputs.behind == 1
    assert s.push("urn:s1", (30, "e")) == []
    assert s.push("urn:s2", (17, "d")) == [(20, "ac", "bd")]
    assert s.push("urn:s2", (31, "f")) == [(30, "ace", "bd")]
    assert len(s.timeline.inputs) == 1


def test_equal_times_are_taken_in_the_order_of_the_streams_in_the_text() -> None:
    both = [window(range_of(100), "s1", "w1"), window(range_of(100), "s2", "w2")]
    s = Streams(QueryTimeline(both, CHANGE))
    s.push("urn:s1", (1, "x"))
    s.push("urn:s2", (1, "y"))
    s.push("urn:s2", (10, "b"))
    assert s.push("urn:s1", (10, "a")) == [(10, "ax", "y"), (10, "ax", "by")]


def test_an_idle_stream_holds_nothing_back() -> None:
    both = [window(range_of(100), "s1", "w1"), window(range_of(100), "s2", "w2")]
    s = Streams(QueryTimeline(both, CHANGE))
    s.push("urn:s1", (10, "a"))
    s.push("urn:s2", (10, "b"))
    assert s.push("urn:s1", (20, "c")) == []
    assert s.idle("urn:s2") == [(20, "ac", "b")]
    assert s.push("urn:s1", (21, "d")) == [(21, "acd", "b")]


def test_lateness_holds_back_until_the_stream_is_idle() -> None:
    s = Streams(QueryTimeline([window(range_of(100))], CHANGE), lateness=10)
    assert s.push("urn:s", (20, "a")) == []
    assert s.push("urn:s", (15, "b")) == []
    assert s.timeline.inputs.watermark == 10
    assert s.idle("urn:s") == [(15, "b"), (20, "ab")]


def test_a_registration_that_waits_longer_sees_disorder_in_order() -> None:
    patient = QueryTimeline([window(range_of(100))], CHANGE, lateness_ms=10)
    s = Streams(patient)
    assert s.push("urn:s", (20, "a")) == []
    assert s.push("urn:s", (12, "b")) == []
    assert s.push("urn:s", (40, "c")) == [(12, "b"), (20, "ab")]


def test_late_elements_are_dropped_with_a_count_or_admitted() -> None:
    s = Streams(QueryTimeline([window(range_of(10))], CHANGE))
    s.push("urn:s", (20, "a"))
    assert s.push("urn:s", (15, "b")) == []
    assert s.timeline.inputs.late == 1
    assert s.push("urn:s", (15, "c"), admit=True) == [(20, "ac")]
    assert s.push("urn:s", (9, "d"), admit=True) == []
    assert s.beat("urn:s", 26) == [(26, "a")]


def test_grid_windows_close_in_order_and_the_first_ends_after_the_first_input() -> None:
    """Drawn.

    grid 10/5    0----5----10---15---20---25
    :a at 7           a
    closes at    10 (a), 15 (a), 20 (-)
    """
    s = Streams(QueryTimeline([window(grid(10, 5))], CLOSE))
    assert s.push("urn:s", (7, "a")) == []
    assert s.beat("urn:s", 21) == [(10, "a"), (15, "a"), (20, "")]


def test_a_heartbeat_can_be_the_first_input_of_a_grid() -> None:
    s = Streams(QueryTimeline([window(grid(10, 10))], CLOSE))
    assert s.beat("urn:s", 12) == []
    assert s.beat("urn:s", 30) == [(20, ""), (30, "")]


def test_open_closed_windows_close_after_the_elements_at_their_end() -> None:
    s = Streams(QueryTimeline([window(grid(10, 10))], CLOSE, open_closed=True))
    s.push("urn:s", (4, "a"))
    assert s.push("urn:s", (10, "b")) == []
    assert s.push("urn:s", (10, "c")) == []
    assert s.push("urn:s", (11, "d")) == [(10, "abc")]
    assert s.beat("urn:s", 20) == []
    assert s.beat("urn:s", 21) == [(20, "d")]


def test_a_long_run_of_empty_windows_is_one_step_however_long() -> None:
    s = Streams(QueryTimeline([window(grid(10, 10))], CLOSE, max_empty_windows=5))
    s.push("urn:s", (4, "a"))
    year = 365 * 86_400_000
    told = s.push("urn:s", (year, "b"))
    assert told[0] == (10, "a")
    assert told[1] == (20, "")
    assert told[2] == ("skipped", 20, year, (year - 20) // 10 + 1)
    assert len(told) == 3
    assert s.beat("urn:s", year + 10) == [(year + 10, "b")]


def test_five_empty_windows_are_reported_one_by_one() -> None:
    s = Streams(QueryTimeline([window(grid(10, 10))], CLOSE, max_empty_windows=5))
    s.push("urn:s", (4, "a"))
    told = s.push("urn:s", (65, "b"))
    assert told == [(10, "a"), (20, ""), (30, ""), (40, ""), (50, ""), (60, "")]


def test_periodic_reports_skip_silence_too() -> None:
    timeline = QueryTimeline([window(grid(10, 10))], Report("periodic", 100), max_empty_windows=5)
    s = Streams(timeline)
    s.push("urn:s", (95, "a"))
    told = s.push("urn:s", (100_050, "b"))
    assert told == [(100, "a"), (200, ""), ("skipped", 200, 100_000, 999)]
    assert s.beat("urn:s", 100_100) == [(100_100, "")]


def test_periodic_reports_follow_t0() -> None:
    timeline = QueryTimeline([window(grid(10, 10))], Report("periodic", 100, t0_ms=5))
    s = Streams(timeline)
    s.push("urn:s", (95, "a"))
    assert s.beat("urn:s", 205) == [(105, "a"), (205, "")]


def test_batches_close_inside_a_transaction() -> None:
    s = Streams(QueryTimeline([window(WindowSpec("batch", count=2))], CLOSE))
    assert s.push("urn:s", (1, "a")) == []
    assert s.push("urn:s", (2, "b"), (2, "c"), (2, "d"), (2, "e")) == [(2, "ab"), (2, "cd")]


def test_windows_on_variables_read_the_streams_that_static_data_binds() -> None:
    bound = ["urn:s1"]
    timeline = QueryTimeline(
        [window(range_of(100), Var("s"))], CHANGE, variable_streams=lambda name: tuple(bound)
    )
    s = Streams(timeline)
    assert s.push("urn:s1", (1, "a")) == [(1, "a")]
    assert s.push("urn:s2", (2, "b")) == []
    bound.append("urn:s2")
    timeline.add_stream("urn:s2")
    assert s.push("urn:s2", (3, "c")) == []
    assert s.beat("urn:s1", 5) == [(3, "ac")]


def test_windows_on_unbound_variables_read_what_they_are_given() -> None:
    timeline = QueryTimeline([window(NOW, Var("s"))], CHANGE, variable_streams=lambda name: None)
    assert timeline.windows.reads_every_stream
    timeline.add_stream("urn:s1")
    s = Streams(timeline)
    assert s.push("urn:s1", (1, "a")) == [(1, "a")]


def test_the_changes_of_windows_follow_their_content() -> None:
    coder = ElementCoder(TermDictionary())
    coder.want(None)
    timeline = QueryTimeline([window(range_of(5))], CHANGE, content_of=lambda name: EncodedContent(coder))
    ((_, content),) = timeline.windows.contents
    s = Streams(timeline)
    taken: list[list[int]] = []
    s.evaluated = lambda: taken.append(list(content.take().keys.values()))
    s.push("urn:s", (10, "a"))
    s.push("urn:s", (11, "a"))
    s.beat("urn:s", 30)
    assert taken[:2] == [[1], []]
    assert [weight for weights in taken for weight in weights] == [1, -1]


def test_a_late_element_corrects_the_last_closed_window_only() -> None:
    s = Streams(QueryTimeline([window(grid(10, 10))], CLOSE))
    s.push("urn:s", (4, "a"))
    assert s.push("urn:s", (12, "b")) == [(10, "a")]
    assert s.push("urn:s", (5, "c"), admit=True) == [(10, "ac", "revises")]
    assert s.beat("urn:s", 20) == [(20, "b")]
    assert s.push("urn:s", (5, "d"), admit=True) == []


pushes = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 12), st.sampled_from("abc")), min_size=1, max_size=5),
        st.integers(0, 25),
    ),
    max_size=6,
)
SLIDING_SPECS = tuple(spec for spec in SPECS if not (kind_of(spec).closes or kind_of(spec).waits))


@pytest.mark.parametrize("spec", SLIDING_SPECS, ids=lambda spec: spec.kind)
@settings(deadline=None)
@given(pushes, st.lists(st.sampled_from(SLIDING_SPECS), max_size=2), st.booleans())
@example([[(at, name)] for at, name in zip((1, 2, 4, 8, 9), "abcab", strict=True)], [], False)
def test_elements_in_order_are_taken_as_others_are(
    spec: WindowSpec, given_: list[list[tuple[int, str]] | int], others: list[WindowSpec], ascending: bool
) -> None:
    declared = [window(each, name=f"w{number}") for number, each in enumerate((spec, *others))]
    quick, slow = (Streams(QueryTimeline(declared, CHANGE)) for _ in range(2))
    slow.timeline._slides = False
    last = 0
    for each in given_:
        if isinstance(each, int):
            assert quick.beat("urn:s", each) == slow.beat("urn:s", each)
            last = max(last, each)
        else:
            events = sorted((last + at, name) for at, name in each) if ascending else each
            last = max(last, *(at for at, _ in events))
            assert quick.push("urn:s", *events) == slow.push("urn:s", *events)
        assert quick.timeline.instant == slow.timeline.instant
        assert len(quick.timeline.inputs) == len(slow.timeline.inputs)
        for name in ("taken", "late", "behind", "watermark"):
            assert getattr(quick.timeline.inputs, name) == getattr(slow.timeline.inputs, name)
        assert quick.timeline.next_due() == slow.timeline.next_due()
        assert quick.timeline.inputs.views == slow.timeline.inputs.views


@settings(deadline=None)
@given(
    pushes,
    pushes,
    st.lists(st.sampled_from([NOW, range_of(3), range_of(9)]), min_size=1, max_size=2),
    st.sampled_from([0, 4]),
    st.booleans(),
)
def test_what_a_timeline_has_not_seen_is_of_no_account_once_its_windows_have_passed(
    earlier: list[list[tuple[int, str]] | int],
    later: list[list[tuple[int, str]] | int],
    specs: list[WindowSpec],
    lateness: int,
    admit: bool,
) -> None:
    declared = [window(spec, name=f"w{number}") for number, spec in enumerate(specs)]
    old, young = (Streams(QueryTimeline(declared, CHANGE), lateness) for _ in range(2))
    floor = 0
    for each in earlier:
        if isinstance(each, int):
            floor = max(each, floor)
            old.beat("urn:s", floor)
        else:
            old.push("urn:s", *each, admit=admit)
    young.times, young.seq = dict(old.times), old.seq
    same = False
    # Heartbeats and elements of later times go on where the earlier ones ended, late ones do not.
    for number, each in enumerate([*later, 30, [(31, "a")], [(28, "b"), (33, "c")], 60, [(61, "a")]]):
        if isinstance(each, int):
            floor = max(each, floor)
            told = [one.beat("urn:s", floor) for one in (old, young)]
        else:
            told = [one.push("urn:s", *each, admit=admit) for one in (old, young)]
        assert not same or told[0] == told[1], number
        known = [at for one in (old, young) if (at := one.timeline.complete_from()) is not None]
        instants = [at for one in (old, young) if (at := one.timeline.instant) is not None]
        if len(known) < 2 or len(instants) < 2:
            continue
        same = same or max(known) <= min(instants)
        if same:
            held = [[dict(live.content) for _, live in one.timeline.windows.contents] for one in (old, young)]
            assert held[0] == held[1] and instants[0] == instants[1]
    assert same
