"""Reading of event streams: by the rules of the HTML standard, however the bytes are cut."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.client.event_stream import EventTooLongError, ServerEvent, events_of

TEXT = (
    b"\xef\xbb\xbf: a comment\nretry: 2000\nid: 1\nevent: insert\ndata: one\xe2\x80\xa8line\n\n"
    b"data: two\r\ndata:  lines\r\n\r\nid\nevent: nothing\n\ndata\rdata:x\r\rid: 2\x00\n"
    b"data: last\n\ndata: cut"
)
EVENTS = [
    ServerEvent("insert", "one\u2028line", "1", 2000),
    ServerEvent("message", "two\n lines", "1", 2000),
    ServerEvent("message", "\nx", "", 2000),
    ServerEvent("message", "last", "", 2000),
]


@given(st.lists(st.integers(0, len(TEXT))))
def test_events_do_not_depend_on_how_they_come(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    chunks = [TEXT[begin:end] for begin, end in zip(places, places[1:], strict=False)]
    assert list(chain.from_iterable(events_of(chunks))) == EVENTS


def test_what_never_ends_is_cut_off() -> None:
    with pytest.raises(EventTooLongError):
        list(events_of([b"data: " + b"x" * 1_000] * 100, longest=10_000))
    with pytest.raises(EventTooLongError):
        list(events_of([b"data: xxxxxxxx\n"] * 10_000, longest=10_000))
