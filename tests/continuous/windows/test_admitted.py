"""Late elements that are admitted, over several streams: no window ever holds an element of its future."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra.query import WindowDeclaration, WindowSpec
from quadrill.continuous.algebra.reports import EmptyReportRun, Report
from quadrill.continuous.inputs import Advance, Arrival, Element, Idle, StreamInput, StreamTime
from quadrill.continuous.windows.timeline import QueryTimeline

P = NamedNode("urn:p")
CHANGE, CLOSE = Report("on-content-change"), Report("on-window-close")


def window(spec: WindowSpec, number: int) -> WindowDeclaration:
    return WindowDeclaration(NamedNode(f"urn:w{number}"), NamedNode(f"urn:s{number}"), spec)


def range_of(width: int) -> WindowSpec:
    return WindowSpec("range", width_ms=width)


def grid(width: int, slide: int) -> WindowSpec:
    return WindowSpec("grid", width_ms=width, slide_ms=slide)


@dataclass
class World:
    """Streams, one window on each, and what has come: each element is a number and its time."""

    specs: list[WindowSpec]
    admit: list[bool]
    report: Report
    non_empty: bool = False
    max_empty: int = 1000
    times: list[StreamTime] = field(default_factory=list)
    come: list[dict[int, int]] = field(default_factory=list)
    number: int = 0
    told: dict[int, list[set[int]]] = field(default_factory=dict)
    start: int | None = None

    def __post_init__(self) -> None:
        declared = [window(spec, number) for number, spec in enumerate(self.specs)]
        self.timeline = QueryTimeline(
            declared, replace(self.report, non_empty=self.non_empty), max_empty_windows=self.max_empty
        )
        self.times = [StreamTime() for _ in self.specs]
        self.come = [{} for _ in self.specs]

    def push(self, stream: int, *events: int) -> list[tuple[Any, ...]]:
        before = self.times[stream]
        late = before.watermark()
        elements = []
        for at in events:
            self.number += 1
            elements.append(
                Element.of((Quad(NamedNode(f"urn:{self.number}"), P, Literal("x")),), at, self.number)
            )
            if late is None or at >= late or self.admit[stream]:
                self.come[stream][self.number] = at
        seen = max([*events, *([] if before.seen is None else [before.seen])])
        after = self.times[stream] = StreamTime(seen, before.floor)
        return self.give(Arrival(f"urn:s{stream}", tuple(elements), before, after, self.admit[stream]))

    def beat(self, stream: int, at: int) -> list[tuple[Any, ...]]:
        before = self.times[stream]
        after = self.times[stream] = StreamTime(before.seen, max(at, before.newest))
        return self.give(Advance(f"urn:s{stream}", after))

    def idle(self, stream: int) -> list[tuple[Any, ...]]:
        return self.give(Idle(f"urn:s{stream}", self.times[stream]))

    def give(self, event: StreamInput) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for step in self.timeline.handle(event):
            self.begin()
            if isinstance(step, EmptyReportRun):
                found.append(("skipped", step.start, step.end))
                self.told[step.end] = self.held()
                continue
            held = self.held()
            found.append((step.at, *map(sorted, held), *(["revises"] if step.revises else [])))
            self.told[step.at] = held
            for number, numbers in enumerate(held):
                # A transaction may have others behind it, of the same push or instant.
                assert numbers <= self.wanted(number, step.at), (step, number)
        self.begin()
        return found

    def begin(self) -> None:
        """The first instant is that of the first element taken, or of a heartbeat before it."""
        watermark = self.timeline.inputs.watermark
        if self.start is None and watermark is not None:
            times = [at for each in self.come for at in each.values() if at <= watermark]
            if times or self.timeline.instant is not None:
                self.start = min(times, default=watermark)

    def held(self) -> list[set[int]]:
        contents = [live.content for _, live in self.timeline.windows.contents]
        return [{int(quad.subject.value[4:]) for quad in content} for content in contents]

    def wanted(self, number: int, at: int) -> set[int]:
        """What the window holds at an instant, by definition, of all that has come."""
        spec, come = self.specs[number], self.come[number]
        if spec.kind == "grid":
            close = at // spec.slide_ms * spec.slide_ms
            # The first window that closes ends behind the first element.
            begun = close > (close if self.start is None else self.start)
            return {each for each, time in come.items() if begun and close - spec.width_ms <= time < close}
        least = -(1 << 60) if spec.kind == "all" else at - spec.width_ms
        return {each for each, time in come.items() if least <= time <= at}


def test_an_element_ahead_of_the_query_waits_for_its_time() -> None:
    world = World([range_of(100), range_of(100)], [True, True], CHANGE)
    world.push(0, 20)
    world.push(1, 20)
    world.beat(0, 30)
    assert world.push(0, 25) == []
    assert world.push(0, 19) == [(20, [1, 4], [2])]
    assert world.beat(1, 27) == [(25, [1, 3, 4], [2])]


def test_a_report_is_not_revised_by_what_came_after_it() -> None:
    """A window that slides has gone on: what it holds now is nothing that the report could have told."""
    world = World([range_of(10)], [True], Report("periodic", 10))
    world.push(0, 5)
    assert world.beat(0, 10) == [(10, [1])]
    assert world.push(0, 8) == [(10, [1, 2], "revises")]
    world = World([range_of(10)], [True], Report("periodic", 10))
    world.push(0, 5)
    world.beat(0, 10)
    assert world.beat(0, 14) == []
    assert world.push(0, 12) == []
    assert world.beat(0, 20) == [(20, [2])]


def test_a_report_that_was_not_told_is_told_and_revises_nothing() -> None:
    world = World([grid(10, 10)], [True], CLOSE, non_empty=True)
    world.push(0, 5)
    assert world.beat(0, 20) == [(10, [1])]
    assert world.push(0, 15) == [(20, [2])]
    assert world.push(0, 16) == [(20, [2, 3], "revises")]


def test_the_last_report_of_a_run_of_empty_ones_is_corrected_at_its_own_instant() -> None:
    world = World([grid(10, 10)], [True], CLOSE, max_empty=3)
    world.push(0, 5)
    assert world.beat(0, 90) == [(10, [1]), (20, []), ("skipped", 20, 90)]
    assert world.push(0, 85) == [(90, [2], "revises")]


SPECS = st.sampled_from(
    [WindowSpec("now"), range_of(3), range_of(9), WindowSpec("all"), grid(5, 5), grid(6, 3)]
)
INPUTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.lists(st.integers(0, 30), min_size=1, max_size=3), st.integers(0, 40), st.just("idle")),
    ),
    max_size=12,
)
REPORTS = st.sampled_from([CHANGE, CLOSE, Report("periodic", 4)])


def play(world: World, inputs: Iterable[tuple[int, Any]]) -> Iterable[None]:
    for stream, given_ in inputs:
        number = stream % len(world.specs)
        if given_ == "idle":
            world.idle(number)
        elif isinstance(given_, int):
            world.beat(number, given_)
        else:
            world.push(number, *given_)
        yield


@settings(deadline=None, max_examples=300)
@given(
    st.lists(SPECS, min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    REPORTS,
    st.booleans(),
    st.sampled_from([2, 1000]),
    INPUTS,
)
def test_windows_hold_what_has_come_of_their_time(
    specs: list[WindowSpec],
    admit: list[bool],
    report: Report,
    non_empty: bool,
    max_empty: int,
    inputs: list[tuple[int, Any]],
) -> None:
    world = World(specs, admit, report, non_empty, max_empty)
    for _ in play(world, inputs):
        at = world.timeline.instant
        if at is not None:
            watermark = world.timeline.inputs.watermark
            for number, held in enumerate(world.held()):
                missing = world.wanted(number, at) - held
                # One of the current instant may wait for a stream that came later.
                assert not missing or {world.come[number][each] for each in missing} == {at} != {watermark}
            if report is CLOSE and all(spec.kind == "grid" for spec in specs) and world.told:
                last = max(world.told)
                closes = [at // spec.slide_ms * spec.slide_ms for spec in specs]
                if last == max(closes):
                    assert world.told[last] == world.held()
