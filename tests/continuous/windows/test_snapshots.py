"""A timeline goes on from its snapshot as if nothing had happened: every kind of window, drawn at random."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.algebra.query import WindowSpec
from quadrill.continuous.algebra.reports import Report
from quadrill.continuous.windows.encoded import EncodedContent, EngineTerms
from quadrill.continuous.windows.live import LiveQuads
from quadrill.continuous.windows.operator import LiveContent
from quadrill.continuous.windows.query_streams import RECORDS
from quadrill.continuous.windows.timed import TimedContent
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.logs.packing import pack, unpack
from tests.examples import examples

from ..test_timeline import Streams, window
from .specs import SPECS

REPORTS = (Report("on-content-change"), Report("on-window-close"), Report("periodic", 5))


class Contents:
    """Gives contents of one kind, and says what they hold in quads."""

    def __init__(self, kind: type[LiveContent]) -> None:
        self.kind = kind
        self.terms = EngineTerms()
        self.terms.coder.want(None)

    def make(self, name: object) -> LiveContent:
        return LiveQuads() if self.kind is LiveQuads else self.kind(self.terms.coder)  # type: ignore[call-arg]

    def told(self, live: LiveContent) -> object:
        """Content, event times and changes; these are taken."""
        if isinstance(live, LiveQuads):
            return dict(live.content)
        assert isinstance(live, EncodedContent)
        quad = self.terms.coder.quad
        changes = {quad(key): weight for key, weight in live.take().keys.items()}
        times = None
        if isinstance(live, TimedContent):
            times = {quad(row): turned for row, turned in live.take_times().items()}
        return {quad(key): count for key, count in live.content.items()}, changes, times


inputs = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", "c", "ab", "bca", ""])),
            min_size=1,
            max_size=4,
        ),
        st.integers(0, 25),
    ),
    max_size=6,
)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kind}-{spec.slide_ms}")
@pytest.mark.parametrize("kind", [LiveQuads, EncodedContent, TimedContent])
@settings(max_examples=examples(25), deadline=None)
@given(inputs, inputs, st.sampled_from(REPORTS), st.sampled_from([0, 4]), st.booleans(), st.booleans())
def test_a_snapshot_goes_on(
    kind: type[LiveContent],
    spec: WindowSpec,
    before: list[list[tuple[int, str]] | int],
    after: list[list[tuple[int, str]] | int],
    report: Report,
    lateness: int,
    admit: bool,
    open_closed: bool,
) -> None:
    declared = [window(spec, name="w1"), window(WindowSpec("triples", count=3), name="w2")]
    told: list[list[object]] = [[], []]
    made = []
    for notes in told:
        contents = Contents(kind)
        timeline = QueryTimeline(declared, report, open_closed=open_closed, content_of=contents.make)
        streams = Streams(timeline, lateness)
        streams.evaluated = partial(note, notes, contents, timeline)
        made.append((timeline, streams))
    (old, _), (new, restored) = made
    give(made[:1], before, admit)
    told[0].clear()
    new.restore(unpack(*pack(old.snapshot(), RECORDS), RECORDS))
    restored.times, restored.seq = dict(made[0][1].times), made[0][1].seq
    give(made, after, admit)
    assert told[0] == told[1]
    assert old.next_due() == new.next_due() and old.state_size() == new.state_size()


def note(notes: list[object], contents: Contents, timeline: QueryTimeline) -> None:
    notes.append([contents.told(live) for _, live in timeline.windows.contents])


def give(
    made: list[tuple[QueryTimeline, Streams]], given_: list[list[tuple[int, str]] | int], admit: bool
) -> None:
    """The same inputs for all; they say the same."""
    for each in [*given_, 30]:
        if isinstance(each, int):
            said = [streams.beat("urn:s", each) for _, streams in made]
        else:
            said = [streams.push("urn:s", *each, admit=admit) for _, streams in made]
        assert all(one == said[0] for one in said)
