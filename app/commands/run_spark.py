"""``quadrill run --engine spark``: one continuous query as a job that Spark's workers share."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from quadrill.continuous.language.registration import registration_members
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.scale_out.checkpoint import CheckpointError, JobCheckpoint
from quadrill.continuous.scale_out.group import GroupEvent
from quadrill.continuous.scale_out.inputs import KAFKA, split_topic
from quadrill.continuous.scale_out.job import Job, JobOptions
from quadrill.continuous.scale_out.program import Program, StaticFile, WorkOrder
from quadrill.continuous.scale_out.recordings import FOLDER
from quadrill.continuous.scale_out.sinks import sink_of
from quadrill.continuous.scale_out.spark_runtime import SparkRuntime, check_installed
from quadrill.continuous.scale_out.tasks import event_line
from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError, QueryTextError, ReportedError, UnsupportedError

from ..config import Settings, load_settings
from .arguments import OfflineError, UsageError, read_text, split_pair
from .event_lines import EventLines, prefixes_of

_GROUPS = 64
_USER_FAULTS = (CheckpointError, InputError, QueryTextError, UnsupportedError)
"""Errors of the command itself, for which it exits with 2."""


def run_on_spark(options: argparse.Namespace, members: Mapping[str, Any], until: int | None) -> int:
    """Run a job until its end; return the exit code.

    Raises:
        UsageError: an option is wrong, the query does not split, or the checkpoint is of another job.
        OfflineError: a file, the sink, Java, Spark or a worker is missing, or the job failed.
    """
    _check(options)
    order, sources = _order(options, members)
    try:
        program = Program(order)
    except ReportedError as error:
        raise _as_usage(error) from error
    _check_split(program)
    _warn(program, options)
    check_installed()
    sink = sink_of(options.sink, _printed(options, order.text))
    checkpoint = JobCheckpoint(options.checkpoint)
    job_options = JobOptions(options.once, until, options.files_per_batch, _idle_ms(options, members))
    try:
        job = Job(order, sources, sink, checkpoint, job_options, _report(options))
    except _USER_FAULTS as error:
        raise _as_usage(error) from error

    def stop(number: int, frame: Any) -> None:
        job.stopping = True

    signal.signal(signal.SIGTERM, stop)
    runtime = _started(options, checkpoint)
    try:
        try:
            job.open()
        except _USER_FAULTS as error:
            raise _as_usage(error) from error
        os.replace(runtime.log, checkpoint.folder / "spark.log")
        runtime.log = checkpoint.folder / "spark.log"
        totals = job.run(runtime)
    finally:
        runtime.stop()
        checkpoint.close()
    print(json.dumps(totals.to_json()), file=sys.stderr, flush=True)
    return 0


def _printed(options: argparse.Namespace, text: str) -> Callable[[GroupEvent], Iterable[str]]:
    """Return a function that gives the lines of an event on standard output."""
    if options.json:
        return lambda event: [event_line(event).decode().rstrip()]
    form = EventLines(options.format or "events", prefixes_of(text))
    return lambda event: form.lines(None, event.kind, event.data)


def _started(options: argparse.Namespace, checkpoint: JobCheckpoint) -> SparkRuntime:
    """Start Spark; its log stands next to the checkpoint, which is written only once Spark has started."""
    folder = checkpoint.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f".{folder.name}-{os.getpid()}-spark.log")
    try:
        return SparkRuntime(options.master or "local[*]", log)
    except BaseException:
        log.unlink(missing_ok=True)
        raise


def _check(options: argparse.Namespace) -> None:
    if options.checkpoint is None:
        raise UsageError("--engine spark needs --checkpoint DIR")
    if not options.stream:
        raise UsageError("--engine spark needs --stream IRI=SOURCE")
    for name, given in (("key-groups", options.key_groups), ("files-per-batch", options.files_per_batch)):
        if given is not None and given < 1:
            raise UsageError(f"--{name} is {given}, it must be a positive number")
    if options.format == "debs":
        raise UsageError("--format debs needs a run without --engine")
    if options.mirror is not None:
        raise UsageError(
            "--mirror is not supported yet", hint="Export the graphs, and give them as --static."
        )
    if options.sink is not None and not options.sink.startswith((FOLDER, KAFKA)):
        raise UsageError(f"--sink {options.sink} is neither files:FOLDER nor kafka:BROKERS/TOPIC")


def _order(options: argparse.Namespace, members: Mapping[str, Any]) -> tuple[WorkOrder, list[str]]:
    text = read_text(options.query)
    known = registration_members()
    for name in members:
        if name not in known:
            raise UsageError(f"--option {name}: a registration has no such member")
    settings = load_settings()
    streams: dict[str, str] = {}
    for each in options.stream:
        name, source = split_pair(each)
        iri = name if ":" in name else settings.base_iri + name
        if iri in streams:
            raise UsageError(f"--stream {name} is given twice")
        streams[iri] = _absolute(source)
    static = tuple(StaticFile.of(each) for each in options.static)
    order = WorkOrder(
        text,
        dict(members),
        tuple(streams),
        tuple(options.self_contained),
        static,
        _GROUPS if options.key_groups is None else options.key_groups,
        settings.base_iri,
        _limits(settings),
        settings.extensions,
    )
    return order, list(streams.values())


def _absolute(source: str) -> str:
    """Return a source with an absolute path; raises UsageError for a wrong form."""
    if source.startswith(KAFKA):
        try:
            split_topic(source)
        except ReportedError as error:
            raise UsageError(error.message) from error
        return source
    if source.startswith(FOLDER):
        return FOLDER + os.path.abspath(source[len(FOLDER) :])
    return str(Path(source).absolute())


def _limits(settings: Settings) -> QueryLimits:
    return QueryLimits(
        rows=settings.max_evaluation_rows,
        ms=duration_ms(settings.max_evaluation_time, "the setting max_evaluation_time"),
        kept=settings.max_answer_rows,
        bytes=settings.max_evaluation_bytes,
        text=settings.max_text_length,
        process=settings.worker_memory_bytes,
    )


def _idle_ms(options: argparse.Namespace, members: Mapping[str, Any]) -> int:
    return 0 if options.once else duration_ms(load_settings().idle_timeout, "the setting idle_timeout")


def _check_split(program: Program) -> None:
    """Raise UsageError for a query that cannot be evaluated with the requested number of key groups."""
    split, prepared = program.split, program.prepared
    if not split.runs or (not split.splits and program.order.groups > 1):
        raise UsageError(f"the query does not split: {split.why}")
    if program.prepared.registration.start != "now":
        raise UsageError("--option start: a job begins with the first element of its input")
    read = {*prepared.streams}
    if prepared.names_its_streams:
        for iri in program.order.streams:
            if iri not in read:
                raise UsageError(
                    f"the query does not read the stream {iri}", hint=f"It reads {', '.join(sorted(read))}."
                )
        for iri in program.order.self_contained:
            if iri not in read:
                raise UsageError(f"--self-contained {iri} is no stream of the query")


def _warn(program: Program, options: argparse.Namespace) -> None:
    for warning in program.prepared.warnings:
        print(f"# warning: {warning}", file=sys.stderr, flush=True)
    if options.static and not program.prepared.analysis.split[1]:
        print(
            f"# warning: no part of the query reads static data, so --static {options.static[0]} is not used",
            file=sys.stderr,
            flush=True,
        )


def _report(options: argparse.Namespace) -> Any:
    """Return a function that writes the figures of each batch to the file ``progress.json``."""
    file = options.checkpoint / "progress.json"

    def report(figures: dict[str, Any]) -> None:
        draft = file.with_name(".progress.json")
        draft.write_text(json.dumps(figures), encoding="utf-8")
        os.replace(draft, file)

    return report


def _as_usage(error: ReportedError) -> UsageError:
    return UsageError(error.message, hint=error.hint)


__all__ = ["OfflineError", "run_on_spark"]
