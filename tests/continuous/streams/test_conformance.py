"""The time limit for the validation of the elements of one message."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from pyoxigraph import Quad

from quadrill.continuous.shapes.result import Result
from quadrill.continuous.streams.conformance import with_conforming_elements
from quadrill.store.pushes.decode import DecodeOptions, decode
from quadrill.store.registry.records import StreamRecord

ELEMENTS = 8
BODY = "".join(
    f'{{"at": {number}, "data": "<urn:s> <urn:p> <urn:{number}> ."}}\n' for number in range(ELEMENTS)
).encode()


class Slow:
    """Shapes to which every element conforms, after 20 ms."""

    def __init__(self) -> None:
        self.limits: list[int | None] = []

    def require(self, name: str) -> None:
        """Do nothing."""

    def added_by(self, name: str, triples: Iterable[Quad], *, most_ms: int | None = None) -> list[Result]:
        """Note the limit, and return no results."""
        self.limits.append(most_ms)
        time.sleep(0.02)
        return []


@pytest.mark.parametrize(("most_ms", "all_accepted"), [(None, True), (60_000, True), (50, False)])
def test_elements_share_the_time_of_their_message(most_ms: int | None, all_accepted: bool) -> None:
    shapes = Slow()
    decoded = decode(BODY, "application/x-ndjson", DecodeOptions())
    record = StreamRecord("s", "urn:stream", shapes="x", on_violation="dead-letter")
    found = with_conforming_elements(decoded, record, "x", shapes, partial=False, most_ms=most_ms)
    assert len(found.elements) + len(found.misshapen) == ELEMENTS
    assert len(shapes.limits) == len(found.elements)
    if all_accepted:
        assert len(found.elements) == ELEMENTS
        assert set(shapes.limits) == {most_ms if most_ms is None else most_ms // 10}
    else:
        assert len(found.elements) < ELEMENTS
        assert all(limit is not None and 1 <= limit <= 5 for limit in shapes.limits)
        assert {each.error for each in found.misshapen} == {
            "the shapes x: the validation of the elements of one message takes longer than 50 ms"
        }
