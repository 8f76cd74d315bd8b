"""Each window gives, at every instant, what the table of docs/semantics.md says: drawn at random."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.inputs import Element
from quadrill.continuous.rows import IdRow
from quadrill.continuous.windows.counting import BatchWindow, ElementsWindow, TriplesWindow
from quadrill.continuous.windows.encoded import ElementCoder, EncodedContent
from quadrill.continuous.windows.grid import GridWindow
from quadrill.continuous.windows.live import LiveQuads
from quadrill.continuous.windows.operator import AllWindow, PastWindow, RangeWindow, WindowOperator
from quadrill.continuous.windows.timed import TimedContent
from quadrill.store.dictionary import TermDictionary
from tests.examples import examples

P = NamedNode("http://example.org/p")


def quad(name: int) -> Quad:
    return Quad(NamedNode(f"http://example.org/{name}"), P, Literal("x"))


@st.composite
def elements(draw: st.DrawFn) -> list[Element]:
    """Elements in the order of time, few names so that quads repeat."""
    times = sorted(draw(st.lists(st.integers(-30, 60), min_size=1, max_size=12)))
    found = []
    for seq, time in enumerate(times, start=1):
        names = draw(st.lists(st.integers(0, 4), min_size=0, max_size=3, unique=True))
        found.append(Element.of(tuple(quad(name) for name in names), time, seq))
    return found


def merged(items: list[Element]) -> dict[Quad, int]:
    content: dict[Quad, int] = {}
    for element in items:
        for one in element.quads:
            content[one] = max(element.event_time, content.get(one, element.event_time))
    return content


@given(elements(), st.lists(st.integers(0, 3), max_size=12), st.booleans())
def test_a_timed_content_gives_the_latest_occurrence_of_each_triple(
    items: list[Element], leaving: list[int], taken_over: bool
) -> None:
    coder = ElementCoder(TermDictionary())
    coder.want(None)
    live, content = LiveQuads(), TimedContent(coder)
    told: dict[IdRow, int] = {}
    inside: list[Element] = []
    for number, element in enumerate(items):
        live.add(element)
        inside.append(element)
        if taken_over and number == len(items) // 2:
            content = TimedContent(coder)
            content.restore(live.snapshot())
            assert not content.take().keys and not content.take_times()
            told = content.times()
        else:
            content.add(element)
        for _ in range(leaving[number] if number < len(leaving) else 0):
            if inside:
                live.remove(inside[0])
                content.remove(inside.pop(0))
        for row, (before, now) in content.take_times().items():
            assert told.pop(row, None) == before
            if now is not None:
                told[row] = now
        expected = {coder.key(quad): time for quad, time in live.content.items()}
        assert told == content.times() == content.times_before() == expected
        assert content.occurrences == live.occurrences


class Both(LiveQuads):
    """A content as quads that also lets elements enter and leave one of term ids."""

    def __init__(self) -> None:
        super().__init__()
        self.coder = ElementCoder(TermDictionary())
        self.coder.want(None)
        self.encoded = EncodedContent(self.coder)

    def add(self, *elements: Element) -> None:
        super().add(*elements)
        self.encoded.add(*elements)

    def remove(self, *elements: Element) -> None:
        super().remove(*elements)
        self.encoded.remove(*elements)


class Follower:
    """Keeps a copy of a window's content from its changes alone."""

    def __init__(self, window: WindowOperator) -> None:
        self.window = window
        self.live = window.live = Both()
        self.quads: set[Quad] = set()

    def check(self) -> None:
        for key, weight in self.live.encoded.take().keys.items():
            one = self.live.coder.quad(key)
            assert weight in (1, -1)
            assert (one in self.quads) == (weight == -1)
            if weight == 1:
                self.quads.add(one)
            else:
                self.quads.remove(one)
        assert self.quads == set(self.window.live.content)


def advance(window: WindowOperator, instant: int) -> None:
    while (due := window.next_due()) is not None and due <= instant:
        window.advance(due)


def play(window: WindowOperator, items: list[Element], instants: list[int]):
    """Feed elements at their event times and yield at each instant, in order."""
    follower = Follower(window)
    origin = items[0].event_time
    window.start(origin)
    waiting = list(items)
    for instant in sorted(i for i in instants if i >= origin):
        taken = []
        while waiting and waiting[0].event_time <= instant:
            element = waiting.pop(0)
            advance(window, element.event_time)
            window.add(element)
            while window.close_next():
                follower.check()
            taken.append(element)
        advance(window, instant)
        follower.check()
        yield instant, [e for e in items if e.event_time <= instant]


INSTANTS = st.lists(st.integers(-30, 100), min_size=1, max_size=12)


@settings(max_examples=examples(150), deadline=None)
@given(elements(), INSTANTS, st.integers(0, 20))
def test_a_closed_range_holds_both_ends(items: list[Element], instants: list[int], width: int) -> None:
    window = RangeWindow(width)
    for t, taken in play(window, items, instants):
        assert window.live.content == merged([e for e in taken if t - width <= e.event_time <= t])


@settings(max_examples=examples(100), deadline=None)
@given(elements(), INSTANTS, st.integers(1, 20))
def test_an_open_range_leaves_its_start_out(items: list[Element], instants: list[int], width: int) -> None:
    window = RangeWindow(width, open_start=True)
    for t, taken in play(window, items, instants):
        assert window.live.content == merged([e for e in taken if t - width < e.event_time <= t])


@settings(max_examples=examples(100), deadline=None)
@given(elements(), INSTANTS, st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_a_range_of_the_past_holds_both_ends(
    items: list[Element], instants: list[int], width: int, past: int, open_start: bool
) -> None:
    window = PastWindow(width + past, past, open_start=open_start)
    for t, taken in play(window, items, instants):
        inside = [e for e in taken if t - width - past + open_start <= e.event_time <= t - past]
        assert window.live.content == merged(inside)


@settings(max_examples=examples(50), deadline=None)
@given(elements(), INSTANTS)
def test_all_holds_everything(items: list[Element], instants: list[int]) -> None:
    window = AllWindow()
    for _, taken in play(window, items, instants):
        assert window.live.content == merged(taken)


@settings(max_examples=examples(200), deadline=None)
@given(
    elements(),
    INSTANTS,
    st.integers(1, 20),
    st.integers(1, 20),
    st.none() | st.integers(-20, 20),
    st.booleans(),
    st.sampled_from([0, 0, 1, 7]),
)
def test_a_grid_shows_the_window_that_closed_last(
    items: list[Element],
    instants: list[int],
    width: int,
    slide: int,
    t0: int | None,
    open_closed: bool,
    past: int,
) -> None:
    width += past
    window = GridWindow(width, slide, past_ms=past, t0_ms=t0, open_closed=open_closed)
    origin = items[0].event_time
    closes = [
        (t0 or 0) + k * slide + width
        for k in range(0 if t0 is not None else -200, 200)
        if (t0 or 0) + k * slide + width > origin
    ]
    for t, taken in play(window, items, instants):
        done = [close for close in closes if close <= t]
        if not done:
            assert not window.live.content
            continue
        close = done[-1]
        assert window.closed is not None
        assert (window.closed.open, window.closed.close) == (close - width, close - past)
        if open_closed:
            # The timeline closes these only once the watermark is greater: elements at the end are taken.
            if close == t:
                continue
            inside = [e for e in taken if close - width < e.event_time <= close - past]
            if not past and any(e.event_time == close for e in inside):
                continue
        else:
            inside = [e for e in taken if close - width <= e.event_time < close - past]
        assert window.live.content == merged(inside)


@settings(max_examples=examples(100), deadline=None)
@given(elements(), INSTANTS, st.integers(1, 6))
def test_triples_counts_occurrences_of_the_stream(
    items: list[Element], instants: list[int], count: int
) -> None:
    window = TriplesWindow(count)
    for _, taken in play(window, items, instants):
        occurrences = [(one, e.event_time) for e in taken for one in e.quads][-count:]
        assert set(window.live.content) == {one for one, _ in occurrences}


@settings(max_examples=examples(100), deadline=None)
@given(elements(), INSTANTS, st.integers(1, 6))
def test_a_batch_is_the_last_full_one(items: list[Element], instants: list[int], count: int) -> None:
    window = BatchWindow(count)
    for _, taken in play(window, items, instants):
        occurrences = [one for e in taken for one in e.quads]
        full = len(occurrences) // count * count
        assert set(window.live.content) == set(occurrences[full - count : full] if full else [])


@settings(max_examples=examples(100), deadline=None)
@given(elements(), INSTANTS, st.integers(1, 5), st.integers(1, 4))
def test_elements_shows_the_newest_at_every_step(
    items: list[Element], instants: list[int], count: int, step: int
) -> None:
    window = ElementsWindow(count, step)
    for _, taken in play(window, items, instants):
        full = len(taken) // step * step
        assert set(window.live.content) == set(merged(taken[:full][-count:] if full else []))


@settings(max_examples=examples(100), deadline=None)
@given(elements(), st.integers(1, 20), st.randoms())
def test_admitted_elements_take_their_place(items: list[Element], width: int, random: object) -> None:
    """An older element that the window still holds is there as if it had come in time."""
    late = items[len(items) // 2]
    for make in (
        lambda: RangeWindow(width),
        lambda: PastWindow(width + 3, 3),
        AllWindow,
        lambda: TriplesWindow(3),
    ):
        window: WindowOperator = make()
        window.live = LiveQuads()
        window.start(items[0].event_time)
        now = items[-1].event_time
        for element in items:
            if element is not late:
                advance(window, element.event_time)
                window.add(element)
        advance(window, now)
        window.admit(late, now)
        expected: WindowOperator = make()
        expected.live = LiveQuads()
        expected.start(items[0].event_time)
        for element in items:
            advance(expected, element.event_time)
            expected.add(element)
        advance(expected, now)
        assert set(window.live.content) == set(expected.live.content)
