"""Counts of the validations by shapes since the start of the server or their PUT, for metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import ValidationStoppedError


@dataclass(slots=True)
class ValidationCounts:
    """How often shapes have validated a change of the data, and how long it took.

    Attributes:
        validations: number of validations of changes that the shapes could see.
        seconds: their total time.
        last_ms: the time of the last one in milliseconds.
        stopped: number of validations that were stopped, for instance by a budget.
        refused: number of changes that were refused because they added violations.
    """

    validations: int = 0
    seconds: float = 0.0
    last_ms: float = 0.0
    stopped: int = 0
    refused: int = 0

    @contextmanager
    def validation(self) -> Iterator[None]:
        """Count and time the validation inside the block."""
        started = time.perf_counter()
        try:
            yield
        except ValidationStoppedError:
            self.stopped += 1
            raise
        finally:
            took = time.perf_counter() - started
            self.validations += 1
            self.seconds += took
            self.last_ms = took * 1_000
