"""The work of Spark's Python workers: read a part of the input, and evaluate the key groups of a partition.

    read_part       elements of files  ->  (partition, (group, rows)) and, for the driver, figures
    evaluate_part   rows of a partition  ->  events, and the new states of its groups

A worker process keeps the engines of the groups that it evaluated. A group whose engine is not here, or is
older than the last batch, is restored from the checkpoint.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from quadrill.store.errors import ReportedError

from .group import GroupEvent, KeyGroup, Row, packed_rows, unpacked_rows
from .inputs import InputPart
from .key_groups import group_of
from .program import Program, WorkOrder

DRIVER = -1
"""The partition of records that only the driver reads."""
_ROWS = 20_000
"""Number of elements after which the rows of all groups are handed on, which bounds a task's memory."""


class Place(NamedTuple):
    """Where the state of a group is stored, and when the group must be evaluated next without elements."""

    file: str
    offset: int
    length: int
    batch: int
    due: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a batch reads its input.

    Attributes:
        order: the work order of the job.
        job: the name of this run of the job.
        evaluated: the last evaluated instant; older elements are late. None before the first.
        partitions: the number of partitions over which groups are spread.
        lists_instants: True to tell the driver the instants of all elements.
    """

    order: WorkOrder
    job: str
    evaluated: int | None
    partitions: int
    lists_instants: bool


@dataclass(frozen=True, slots=True)
class Evaluating:
    """How a batch evaluates the groups of a partition.

    Attributes:
        order: the work order of the job.
        job: the name of this run of the job.
        batch: the number of the batch.
        until: the last instant to evaluate; None to evaluate nothing.
        origin: the first instant of the query.
        partitions: the number of partitions.
        places: where the states of the groups are.
        states: the folder of the states.
        sink: the folder in which the task itself writes its events; None to hand them to the driver.
    """

    order: WorkOrder
    job: str
    batch: int
    until: int | None
    origin: int | None
    partitions: int
    places: Mapping[int, Place]
    states: str
    sink: str | None


# --- the caches of a worker process ----------------------------------------------------------------

_programs: dict[str, Program] = {}
_groups: dict[tuple[str, int], tuple[int, KeyGroup]] = {}


def program_of(order: WorkOrder, job: str) -> Program:
    """Return the prepared query of a job, which a worker process prepares once."""
    if job not in _programs:
        _programs.clear()
        _groups.clear()
        _programs[job] = Program(order)
    return _programs[job]


# --- reading ---------------------------------------------------------------------------------------


def read_part(work: Reading, parts: Iterable[InputPart]) -> Iterator[tuple[int, Any]]:
    """Yield the rows of groups as (partition, (group, bytes)), and figures as (`DRIVER`, members)."""
    try:
        program = program_of(work.order, work.job)
        for part in parts:
            yield from _read(work, program, part)
    except ReportedError as error:
        yield DRIVER, {"error": error.message, "hint": error.hint}


def _read(work: Reading, program: Program, part: InputPart) -> Iterator[tuple[int, Any]]:
    groups, evaluated = work.order.groups, work.evaluated
    keyed = any(window.spec.kind in ("latest", "session") for window in program.prepared.query.windows)
    elements = late = 0
    least = most = None
    instants: set[int] = set()
    used: set[int] = set()
    rows: dict[int, list[Row]] = {}
    for file, (at, line, statements) in part.elements(work.order.streams[part.stream]):
        elements += 1
        if at is None:
            raise ReportedError(
                f"an element of {part.shown} has no event time (element {line})", code="recording"
            )
        if most is None or at > most:
            most = at
        if evaluated is not None and at <= evaluated:
            late += 1
            continue
        if least is None or at < least:
            least = at
        if work.lists_instants:
            instants.add(at)
        row = Row(at, part.stream, file, line, statements)
        if groups == 1:
            found = {0}
        else:
            found = {group_of(key, groups) for key in program.keys_of(statements)}
            if keyed and len(found) > 1:
                raise ReportedError(
                    f"element {line} of {part.shown} has keys of several key groups, which a SESSION or "
                    "LATEST window cannot split; run it with --key-groups 1",
                    code="not-splittable",
                )
        for group in found:
            rows.setdefault(group, []).append(row)
        if elements % _ROWS == 0:
            used |= rows.keys()
            yield from _packed(rows, work.partitions)
            rows = {}
    used |= rows.keys()
    yield from _packed(rows, work.partitions)
    yield (
        DRIVER,
        {
            "stream": part.stream,
            "elements": elements,
            "late": late,
            "least": least,
            "most": most,
            "instants": sorted(instants),
            "groups": sorted(used),
        },
    )


def _packed(rows: Mapping[int, list[Row]], partitions: int) -> Iterator[tuple[int, Any]]:
    for group, each in rows.items():
        yield group % partitions, (group, packed_rows(each))


# --- evaluating ------------------------------------------------------------------------------------


def evaluate_part(
    work: Evaluating, partition: int, records: Iterable[tuple[int, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the result of a partition: the places of its groups, and its events for the driver."""
    try:
        yield _evaluate(work, partition, records)
    except ReportedError as error:
        yield {"error": error.message, "hint": error.hint}


def _evaluate(work: Evaluating, partition: int, records: Iterable[tuple[int, Any]]) -> dict[str, Any]:
    program = program_of(work.order, work.job)
    rows: dict[int, list[Row]] = {}
    for _, (group, data) in records:
        rows.setdefault(group, []).extend(unpacked_rows(data))
    known = {each for each in work.places if each % work.partitions == partition}
    if program.order.groups > 1 and program.split.everywhere:
        known |= set(range(partition, program.order.groups, work.partitions))
    events: list[GroupEvent] = []
    changed: dict[int, KeyGroup] = {}
    for number in sorted(known | rows.keys()):
        place = work.places.get(number)
        if number not in rows and place is not None and not _is_due(place, work.until):
            continue
        group = _group(work, program, number, place)
        events += group.process(rows.get(number, ()), work.until, work.origin)
        changed[number] = group
        _groups[work.job, number] = work.batch, group
    events.sort(key=_order)
    found: dict[str, Any] = {"places": _stored(work, partition, changed), "events": []}
    if work.sink is None:
        found["events"] = [tuple(each) for each in events]
    elif events:
        write_events(Path(work.sink), f"{work.batch:08d}-{partition:05d}.ndjson", events)
    found["count"] = len(events)
    return found


def _is_due(place: Place, until: int | None) -> bool:
    return until is not None and place.due is not None and place.due <= until


def _group(work: Evaluating, program: Program, number: int, place: Place | None) -> KeyGroup:
    if place is None:
        return KeyGroup(program, number)
    batch, group = _groups.get((work.job, number), (None, None))
    if group is not None and batch == place.batch:
        return group
    if group is not None:
        group.close()
    with (Path(work.states) / place.file).open("rb") as file:
        file.seek(place.offset)
        return KeyGroup.restored(program, number, file.read(place.length))


def _stored(work: Evaluating, partition: int, changed: Mapping[int, KeyGroup]) -> dict[int, Place]:
    """Write the states of changed groups to one new file, and return their places."""
    if not changed:
        return {}
    name = f"{work.batch:08d}-{partition:05d}-{uuid.uuid4().hex[:12]}.state"
    found: dict[int, Place] = {}
    with (Path(work.states) / name).open("wb") as file:
        for number, group in changed.items():
            data = group.state()
            found[number] = Place(name, file.tell(), len(data), work.batch, group.due)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return found


def write_events(folder: Path, name: str, events: Iterable[GroupEvent]) -> None:
    """Write events to a file of a sink, which appears by rename; a file that exists stays as it is."""
    target = folder / name
    if target.exists():
        return
    draft = folder / f".{name}.{uuid.uuid4().hex[:12]}"
    with draft.open("wb") as file:
        for event in events:
            file.write(event_line(event))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, target)


def event_line(event: GroupEvent) -> bytes:
    """Return an event as a line of a sink: ``{"id", "event", "data"}``."""
    return f'{{"id":"{event.id}","event":"{event.kind}","data":{event.data}}}\n'.encode()


def _order(event: GroupEvent) -> tuple[int, int, int]:
    return event[:3]
