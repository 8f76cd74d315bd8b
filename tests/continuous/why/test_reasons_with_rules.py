"""The law of reasons for windows with entailment: elements, quads and inferred quads alone give the row."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quadrill.app.describing.why import why
from quadrill.store.documents.stored_lines import parse_stored_quads

from ...examples import examples
from ..rules.test_window_query_law import E, Run


class ExplainedRun(Run):
    """A random run whose newest rows are explained after each step."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng)
        self.explained = 0
        self.last_id = 0

    def explain_newest(self) -> None:
        """Explain a row of each new event by the present rules, and check the reason by the definition."""
        life = self.life
        for event_id, kind, data in life.told()["q"]:
            if event_id is None or event_id <= self.last_id:
                continue
            self.last_id = event_id
            rows = json.loads(data)["results"]["bindings"]
            if rows:
                place = self.rng.randrange(len(rows))
                reason = why(life.engine, life.store, "q", event_id, place)
                assert not reason["truncated"]
                self.assert_gives(reason, rows[place], kind)
                self.explained += 1

    def assert_gives(self, reason: dict[str, Any], row: dict[str, Any], kind: str) -> None:
        """The row is in the answer at the instant; a deleted row at an earlier instant."""
        text = " ".join(f"{name}={value['value']}" for name, value in sorted(row.items()))
        lines = [*reason["quads"], *reason["inferred"]]
        quads = parse_stored_quads("\n".join(lines).encode())
        life, elements = self.life, self.elements
        times = {each.seq: each.event_time for each in life.engine.parts.streams.newest(f"{E}s", 1_000)}
        self.elements = [
            (times[each["seq"]], parse_stored_quads("\n".join(each["quads"]).encode()))
            for each in reason["elements"]
        ]
        reader = SimpleNamespace(quads_for_pattern=lambda: quads)
        self.life = SimpleNamespace(store=SimpleNamespace(reader=reader))  # type: ignore[assignment]
        try:
            first = reason["at"] - 20 if kind == "delete" else reason["at"]
            found = any(text in self.expected(at) for at in range(first, reason["at"] + 1))
            assert found, (kind, text, reason)
        finally:
            self.life, self.elements = life, elements


@pytest.mark.parametrize("seed", range(examples(40)))
def test_reason_alone_gives_the_row_with_rules(tmp_path: Path, seed: int) -> None:
    run = ExplainedRun(tmp_path / "d", random.Random(seed))
    try:
        for _ in range(20):
            done = run.step()
            if done.startswith("rules"):
                # Rows that left because the rules were replaced followed from the former rules.
                run.last_id = max([run.last_id, *(each[0] or 0 for each in run.life.told()["q"])])
            try:
                run.explain_newest()
            except AssertionError as error:
                raise AssertionError(
                    f"{run.dialect} {run.window} {run.pattern}\n{run.rules.texts}\n{done}"
                ) from error
    finally:
        run.life.stop()
