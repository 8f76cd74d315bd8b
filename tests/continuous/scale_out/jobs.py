"""Jobs over recorded files in this process, and the reference: ``quadrill run`` without an engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.continuous.scale_out.checkpoint import JobCheckpoint
from quadrill.continuous.scale_out.job import Job, JobOptions, Runtime, Totals
from quadrill.continuous.scale_out.local_runtime import LocalRuntime
from quadrill.continuous.scale_out.program import WorkOrder
from quadrill.continuous.scale_out.sinks import sink_of

Answers = Counter[tuple[Any, ...]]
HEAD = "PREFIX : <http://example.org/>\n"
STREAMS = ("http://example.org/s", "http://example.org/t")


def write(folder: Path, name: str, elements: Iterable[tuple[int, str]], order: int = 0) -> Path:
    """A file of elements (time, N-Quads); files are taken in the order of ``order``."""
    import os

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("".join(json.dumps({"at": at, "data": data}) + "\n" for at, data in elements))
    os.utime(file, ns=(order * 10**9, order * 10**9))
    return file


def counted(events: Iterable[tuple[str, dict[str, Any]]]) -> Answers:
    """The multiset of (instant, event, row); of CONSTRUCT, the set of quads."""
    found: Answers = Counter()
    for kind, data in events:
        if kind not in ("insert", "delete", "answer"):
            continue
        if "quads" in data:
            for line in data["quads"].splitlines():
                found[data["at"], kind, line] = 1
        elif "boolean" in data:
            found[data["at"], kind, data["boolean"]] += 1
        else:
            for row in data["results"]["bindings"]:
                found[data["at"], kind, json.dumps(row, sort_keys=True)] += 1
    return found


def reference(
    capsys: pytest.CaptureFixture[str], query: Path, sources: dict[str, str], *more: str
) -> Answers:
    """What ``quadrill run`` without an engine prints."""
    streams = [f"--stream={iri}={source}" for iri, source in sources.items()]
    capsys.readouterr()
    assert main(["run", str(query), *streams, *more]) == 0
    pairs = (line.partition(" ")[::2] for line in capsys.readouterr().out.splitlines())
    return counted((kind, json.loads(data)) for kind, data in pairs)


def events_of(sink: Path) -> list[dict[str, Any]]:
    files = sorted(sink.glob("*.ndjson"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def answers_of(sink: Path) -> Answers:
    events = events_of(sink)
    assert len({each["id"] for each in events}) == len(events)
    for each in events:
        assert each["id"].startswith(f"{each['data']['at']}-")
    return counted((each["event"], each["data"]) for each in events)


def job(
    folder: Path,
    order: WorkOrder,
    sources: Sequence[str],
    options: JobOptions = JobOptions(once=True),  # noqa: B008
) -> Job:
    sink = sink_of(f"files:{folder / 'out'}", lambda event: [event.data])
    made = Job(order, sources, sink, JobCheckpoint(folder / "job"), options)
    made.open()
    return made


def run(
    folder: Path,
    order: WorkOrder,
    sources: Sequence[str],
    options: JobOptions = JobOptions(once=True),  # noqa: B008
    runtime: Runtime | None = None,
) -> Totals:
    """Run a job to its end in this process."""
    one = job(folder, order, sources, options)
    try:
        return one.run(runtime or LocalRuntime())
    finally:
        one.checkpoint.close()
