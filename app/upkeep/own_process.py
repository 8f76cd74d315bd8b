"""CPU time, memory and start of the server's process."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import ProcessCollector

_NAMES = ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds")


class ProcessFigures(NamedTuple):
    """CPU seconds so far, bytes of memory in RAM, start in seconds since 1970; None where unknown."""

    cpu_s: float | None
    memory_bytes: float | None
    started_s: float | None


class OwnProcess:
    """Reader of the figures of the server's process, which are those of the metrics `process_*`."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)

    def figures(self) -> ProcessFigures:
        """Return the figures of now; each is None on a system without the folder /proc."""
        samples = [sample for metric in self._collector.collect() for sample in metric.samples]
        values = {sample.name: sample.value for sample in samples}
        return ProcessFigures(*map(values.get, _NAMES))
