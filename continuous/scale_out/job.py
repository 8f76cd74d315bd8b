"""A job: batch after batch of input, evaluated by key groups, committed to a checkpoint.

plan      which files and offsets the batch reads, durable before the batch runs
read      elements to rows of key groups; the watermarks follow from the greatest event times
evaluate  each group up to the last whole instant; in two stages, the merger above them
emit      to the sink, under names and ids that depend on the input alone
commit    watermarks, places of states, what was read
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from quadrill.store.errors import ReportedError

from .checkpoint import CheckpointError, JobCheckpoint
from .group import GroupEvent
from .inputs import InputPart, Source, part_from_json, part_to_json
from .merge import Merger
from .program import Program, WorkOrder
from .sinks import Sink
from .tasks import Evaluating, Place, Reading

_POLL_S = 0.5
"""Seconds between two looks for new input."""


class JobError(ReportedError):
    """Error that ends a job."""

    code = "job"


class Runtime(Protocol):
    """Runs the tasks of batches: Spark, or this process in tests."""

    @property
    def partitions(self) -> int:
        """The number of tasks that run at once."""
        ...

    def read(self, work: Reading, parts: Sequence[InputPart]) -> tuple[Any, list[dict[str, Any]]]:
        """Read parts; return a handle of the rows, and the figures of the parts."""
        ...

    def evaluate(self, work: Evaluating, rows: Any) -> list[dict[str, Any]]:
        """Evaluate all partitions; return their results."""
        ...

    def release(self, rows: Any) -> None:
        """Release the rows of a batch."""
        ...


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What may change between two runs of one job.

    Attributes:
        once: True to end after the input that exists.
        until: the instant to which every stream advances at the end; None for none.
        files_per_batch: the maximum number of files of one stream in a batch; None for all.
        idle_ms: milliseconds without input after which no stream waits for an idle one; 0 for never.
    """

    once: bool = False
    until: int | None = None
    files_per_batch: int | None = None
    idle_ms: int = 0


@dataclass(slots=True)
class Progress:
    """The state of a job after its newest commit.

    Attributes:
        batch: the number of the newest committed batch; 0 before the first.
        seen: the greatest event time of each stream, by the stream's place.
        least: the least event time of all elements that were not late; None before the first.
        evaluated: the last evaluated instant.
        origin: the first instant of the query.
        places: where the states of the groups are.
        merger: the name of the file with the state of the second stage.
        until: the heartbeat that every stream has had.
    """

    batch: int = 0
    seen: dict[int, int] = field(default_factory=dict)
    least: int | None = None
    evaluated: int | None = None
    origin: int | None = None
    places: dict[int, Place] = field(default_factory=dict)
    merger: str | None = None
    until: int | None = None


@dataclass(slots=True)
class Totals:
    """What one run of a job has done: batches, elements, late elements, and groups that had elements."""

    batches: int = 0
    elements: int = 0
    late: int = 0
    groups: set[int] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """Return the totals as the last line of a job has them."""
        return {
            "batches": self.batches,
            "elements": self.elements,
            "late": self.late,
            "key_groups": len(self.groups),
        }


class Job:
    """One run of a job.

    Attributes:
        totals: what the run has done.
        stopping: set to True by another thread or a signal handler, to end after the running batch.
    """

    def __init__(
        self,
        order: WorkOrder,
        sources: Sequence[str],
        sink: Sink,
        checkpoint: JobCheckpoint,
        options: JobOptions,
        report: Callable[[dict[str, Any]], None] = lambda figures: None,
    ) -> None:
        """Prepare and check a job; nothing is written before `run`.

        Args:
            order: the work order.
            sources: the source of each stream of the order.
            sink: where events go.
            checkpoint: the folder of the job.
            options: what may change between runs.
            report: called after each batch with its figures.

        Raises:
            CheckpointError: the checkpoint, or the events in the folder of the sink, are of another job.
            ReportedError: the query, a source or the sink cannot be used.
        """
        self.program = Program(order)
        self.order, self.sink, self.checkpoint, self.options = order, sink, checkpoint, options
        self.totals = Totals()
        self.stopping = False
        self._report = report
        self._job = f"{checkpoint.folder}-{time.time_ns()}"
        self._lateness = self._lateness_of()
        self._described = {**order.to_json(), "sources": list(sources), "sink": sink.given}
        checkpoint.check(self._described)
        self._sources = [Source(place, given, {}) for place, given in enumerate(sources)]
        self.progress = self._restored()
        for source in self._sources:
            source.check()
        sink.check()
        self._refuse_foreign_events()
        self._merger: Merger | None = None
        self._heard = dict.fromkeys(range(len(sources)), time.monotonic())

    def open(self) -> None:
        """Take the checkpoint for this process, and restore the state of its newest commit."""
        self.checkpoint.open(self._described)
        self.sink.open()
        self.progress = self._restored()
        self._merger = self._restored_merger() if self.program.merges else None

    def _refuse_foreign_events(self) -> None:
        """Raise CheckpointError if a job without a batch finds events of another job in its sink."""
        if self.checkpoint.newest_commit() is not None or self.checkpoint.plan_of(1) is not None:
            return
        folder = self.sink.folder
        if folder is not None and next(Path(folder).glob("*.ndjson"), None) is not None:
            raise CheckpointError(
                f"the folder {folder} has events of another job: give a new folder or its checkpoint"
            )

    def _lateness_of(self) -> dict[int, int]:
        prepared = self.program.prepared
        found = {}
        for place, iri in enumerate(self.order.streams):
            windows = [each for each in prepared.query.windows if getattr(each.stream, "value", iri) == iri]
            found[place] = max([prepared.registration.lateness, *(each.lateness_ms or 0 for each in windows)])
        return found

    def _restored(self) -> Progress:
        commit = self.checkpoint.newest_commit()
        if commit is None:
            return Progress()
        for source in self._sources:
            source.read = commit["read"][source.stream]
        return Progress(
            commit["batch"],
            {int(place): at for place, at in commit["seen"].items()},
            commit["least"],
            commit["evaluated"],
            commit["origin"],
            {int(group): Place(*place) for group, place in commit["places"].items()},
            commit["merger"],
            commit["until"],
        )

    def _restored_merger(self) -> Merger:
        merger = Merger(self.program)
        if self.progress.merger is not None:
            merger.restore((self.checkpoint.states / self.progress.merger).read_bytes())
        return merger

    # --- batches ----------------------------------------------------------------------------------

    def run(self, runtime: Runtime) -> Totals:
        """Run batches until the end of the input, or until the job is stopped; call `open` before.

        Raises:
            JobError: the query or the input failed.
        """
        unfinished = self.checkpoint.plan_of(self.progress.batch + 1)
        if unfinished is not None:
            self._batch(runtime, unfinished)
        ended = False
        while not self.stopping and not ended:
            plan, ended = self._next_plan(runtime.partitions)
            if plan is not None:
                self.checkpoint.plan(plan["batch"], plan)
                self._batch(runtime, plan)
            elif not ended:
                time.sleep(_POLL_S)
        return self.totals

    def _next_plan(self, partitions: int) -> tuple[dict[str, Any] | None, bool]:
        """Return the plan of the next batch, None without work, and whether the input then has ended."""
        parts: list[InputPart] = []
        more = False
        for source in self._sources:
            found, others = source.waiting(self.options.files_per_batch)
            parts += found
            more |= others
            if found:
                self._heard[source.stream] = time.monotonic()
        once = self.options.once or all(source.ends for source in self._sources)
        ended = once and not more
        idle = [] if once else self._idle()
        progress = self.progress
        until = self.options.until if ended else None
        plan = {
            "batch": progress.batch + 1,
            "parts": [part_to_json(part) for part in parts],
            "partitions": max(1, min(self.order.groups, partitions)),
            "end": ended,
            "until": until,
            "idle": idle,
        }
        if not parts:
            reached = self._reached(progress.seen, end=ended, until=until, idle=idle)
            if reached is None or (progress.evaluated is not None and reached <= progress.evaluated):
                return None, ended
            if progress.least is None or not (ended or idle):
                return None, ended
        return plan, ended

    def _idle(self) -> list[int]:
        """Return the streams without input for their idle time-out, by their places."""
        if not self.options.idle_ms:
            return []
        limit = time.monotonic() - self.options.idle_ms / 1000
        found = [
            place for place, heard in self._heard.items() if heard < limit and place in self.progress.seen
        ]
        return found if len(found) < len(self.progress.seen) else []

    def _reached(
        self, seen: Mapping[int, int], *, end: bool, until: int | None, idle: Sequence[int]
    ) -> int | None:
        """Return the last instant that may be evaluated; None without one."""
        marks = {place: at - self._lateness[place] for place, at in seen.items() if place not in idle}
        if until is not None:
            marks = {place: max(marks.get(place, until), until) for place in self._lateness}
        if not marks:
            return None
        return min(marks.values()) - (0 if end else 1)

    def _batch(self, runtime: Runtime, plan: Mapping[str, Any]) -> None:
        """Run one batch from its plan to its commit."""
        began = time.monotonic()
        parts = [part_from_json(each) for each in plan["parts"]]
        progress, order, program = self.progress, self.order, self.program
        timed = self._merger is not None and program.split.timed
        reading = Reading(order, self._job, progress.evaluated, plan["partitions"], timed)
        rows, figures = runtime.read(reading, parts) if parts else (None, [])
        _check(figures)
        seen, least = dict(progress.seen), progress.least
        instants: dict[int, list[int]] = {}
        used: set[int] = set()
        for each in figures:
            stream = each["stream"]
            if each["most"] is not None:
                seen[stream] = max(seen.get(stream, each["most"]), each["most"])
            if each["least"] is not None:
                least = each["least"] if least is None else min(least, each["least"])
            instants.setdefault(stream, []).extend(each["instants"])
            used.update(each["groups"])
        reached = self._reached(seen, end=plan["end"], until=plan["until"], idle=plan["idle"])
        evaluated = progress.evaluated
        if reached is not None and (evaluated is None or reached > evaluated):
            evaluated = reached
        origin = progress.origin
        if origin is None and None not in (least, evaluated) and least <= evaluated:  # type: ignore[operator]
            origin = least
        merges = self._merger is not None
        evaluating = Evaluating(
            order,
            self._job,
            plan["batch"],
            evaluated,
            origin,
            plan["partitions"],
            progress.places,
            str(self.checkpoint.states),
            None if merges else self.sink.folder,
        )
        results = runtime.evaluate(evaluating, rows)
        _check(results)
        events = [GroupEvent(*each) for result in results for each in result["events"]]
        events.sort(key=_order)
        merger = progress.merger
        if self._merger is not None:
            events = self._merger.process(events, instants, evaluated, origin)
            merger = f"{plan['batch']:08d}-merger.state"
            (self.checkpoint.states / merger).write_bytes(self._merger.state())
        if merges or self.sink.folder is None:
            self.sink.emit(plan["batch"], events)
        places = dict(progress.places)
        for result in results:
            places.update({number: Place(*place) for number, place in result["places"].items()})
        for source in self._sources:
            source.commit(parts)
        self.progress = Progress(
            plan["batch"], seen, least, evaluated, origin, places, merger, plan["until"] or progress.until
        )
        self._commit()
        runtime.release(rows)
        self._count(figures, used, time.monotonic() - began, evaluated)

    def _commit(self) -> None:
        progress = self.progress
        members = {
            "batch": progress.batch,
            "seen": progress.seen,
            "least": progress.least,
            "evaluated": progress.evaluated,
            "origin": progress.origin,
            "places": {group: list(place) for group, place in progress.places.items()},
            "merger": progress.merger,
            "until": progress.until,
            "read": [source.read for source in self._sources],
        }
        files = {place.file for place in progress.places.values()}
        if progress.merger is not None:
            files.add(progress.merger)
        self.checkpoint.commit(progress.batch, members, files)

    def _count(
        self, figures: Sequence[Mapping[str, Any]], used: set[int], seconds: float, evaluated: int | None
    ) -> None:
        totals = self.totals
        elements = sum(each["elements"] for each in figures)
        totals.batches += 1
        totals.elements += elements
        totals.late += sum(each["late"] for each in figures)
        totals.groups |= used
        self._report(
            {
                "batch": self.progress.batch,
                "elements": elements,
                "batch_ms": round(seconds * 1000),
                "evaluated": evaluated,
                "total": totals.to_json(),
            }
        )


def _check(results: Sequence[Mapping[str, Any]]) -> None:
    for each in results:
        if "error" in each:
            raise JobError(each["error"], hint=each["hint"])


def _order(event: GroupEvent) -> tuple[int, int, int]:
    return event[:3]
