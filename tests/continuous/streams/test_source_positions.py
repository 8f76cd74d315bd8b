"""Where a source is stands in the journal with the elements that it brought: together or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import ReportedError
from tests.continuous.test_recovery import E, Life

S = E + "s"


@pytest.mark.parametrize("checkpoints", [False, True])
def test_positions_survive_a_crash_with_their_elements(tmp_path: Path, checkpoints: bool) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    assert life.engine.streams.source_position(S, "one") is None
    life.push(1_000, "a", position=("one", "10"))
    life.push(2_000, "b", position=("two", "x"))
    life.push(3_000, "c", position=("one", "20"))
    life.engine.streams.push(
        PushCall("other", "application/x-ndjson", position=("one", "7"), partial=True), b""
    )
    if checkpoints:
        life.checkpoint()
        life.push(4_000, "d", position=("one", "30"))
    told = life.told()
    life = life.crash()
    assert life.told() == told
    assert life.engine.streams.source_position(S, "one") == ("30" if checkpoints else "20")
    assert life.engine.streams.source_position(S, "two") == "x"
    assert life.engine.streams.source_position("other", "one") == "7"
    life.engine.queries.drop("seen")
    life.engine.streams.drop(S)
    assert life.engine.streams.source_position(S, "one") is None
    life = life.crash()
    assert life.engine.streams.source_position(S, "two") is None
    assert life.engine.streams.source_position("other", "one") == "7"
    life.stop()


def test_a_refused_push_moves_nothing(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.push(1_000, "a", position=("one", "1"))
    with pytest.raises(ReportedError):
        life.engine.streams.push(
            PushCall(S, "application/n-triples", at=2_000, position=("one", "2")), b"<broken"
        )
    with pytest.raises(ReportedError):
        life.push(10**14, "b", position=("one", "2"))
    assert life.engine.streams.source_position(S, "one") == "1"
    assert life.engine.streams.source_position(S, "one") == "1"
    life.stop()
