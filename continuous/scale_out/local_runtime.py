"""This process as the runtime of a job, without Spark: for tests of the law, and to compare with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .inputs import InputPart
from .tasks import DRIVER, Evaluating, Reading, evaluate_part, read_part


class LocalRuntime:
    """Runs tasks one after the other in this process; ``partitions`` is their number."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions

    def read(self, work: Reading, parts: Sequence[InputPart]) -> tuple[Any, list[dict[str, Any]]]:
        """Read parts; return the rows, and the figures of the parts."""
        records = list(read_part(work, parts))
        figures = [record for partition, record in records if partition == DRIVER]
        return [each for each in records if each[0] != DRIVER], figures

    def evaluate(self, work: Evaluating, rows: Any) -> list[dict[str, Any]]:
        """Evaluate all partitions; return their results."""
        found: list[dict[str, Any]] = []
        for partition in range(work.partitions):
            given = [each for each in rows or () if each[0] == partition]
            found += evaluate_part(work, partition, given)
        return found

    def release(self, rows: Any) -> None:
        """Do nothing."""
