"""Evaluation of static parts of continuous queries that may buffer many rows, in a worker process.

static part -> pickled into the text of a request -> `as_evaluated` in the worker: SPARQL and its functions
-> rows in a file -> the table of the static part
"""

from __future__ import annotations

import base64
import pickle
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyoxigraph import (
    QueryResultsFormat,
    QuerySolutions,
    parse_query_results,
)

from quadrill.continuous.algebra.columnar import Row
from quadrill.continuous.algebra.graphs import Dataset
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.text import static_text
from quadrill.continuous.expressions.choices import Functions
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.continuous.uncertainty import custom_functions
from quadrill.store.changes.commit import GraphName, graph_key
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query_worker import WorkerRequest

from .admission import MAX_SCANNED_QUADS
from .answer import QueryTimeoutError, timeout_error
from .extensions import Extended
from .processes import Process
from .where_parts import MOST_ROWS, BufferLimits
from .workers import LimitedSink, StoreCopy, TooLargeError, WorkerLostError, WorkerPool, taken

IN_WORKERS = f"{__name__}:as_evaluated"
"""Import path of the function that turns a pickled static part into SPARQL in a worker process."""
_LONGEST_TEXT = 300
_SPOOLED_BYTES = 1 << 20


class HeavyPartError(ReportedError):
    """A static part of a query exceeds its limit on time, memory or rows."""

    code = "static-part-too-heavy"


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Limits on the evaluation of a query's static part; ``max_bytes``, ``text``, ``texts``: 0 is no limit.

    Attributes:
        seconds: maximum seconds of one evaluation of a static part.
        max_bytes: maximum bytes of the static part's rows as JSON.
        text: maximum characters of one value that the part's expressions make.
        texts: maximum bytes of all values that the part's expressions make.
        rows: maximum rows that a static part with several patterns may buffer in the server process.
        scanned: maximum quads that a static part with one pattern may scan in the server process.
    """

    seconds: float = 600.0
    max_bytes: int = 0
    text: int = 0
    texts: int = 0
    rows: int = MOST_ROWS
    scanned: int = MAX_SCANNED_QUADS


class StaticParts:
    """Evaluator of a server for heavy static parts of queries, one at a time in an additional process."""

    def __init__(
        self, store: QuadStore, workers: WorkerPool, limits: PartLimits, one: threading.Lock | None = None
    ) -> None:
        """Make an evaluator of static parts; the lock ``one`` allows one evaluation at a time."""
        self._store = store
        self._workers = workers
        self._limits = limits
        self._room = BufferLimits(lambda: store.reader.quad_count, limits.rows, limits.scanned)
        self._one = one or threading.Lock()

    def is_heavy(self, held: int) -> bool:
        """Return True if a static part with ``held`` patterns may buffer more rows than the server allows."""
        return not self._room.has(held)

    def within(self, seconds: float) -> StaticParts:
        """Return an evaluator of static parts with another time limit, but the same store and lock."""
        return StaticParts(self._store, self._workers, replace(self._limits, seconds=seconds), self._one)

    def rows(
        self,
        pattern: Algebra,
        columns: Sequence[Var],
        base_iri: str | None,
        dataset: Dataset,
        check: Callable[[], None],
    ) -> Generator[Row]:
        """Evaluate the pattern of a static part in a worker process and yield its rows."""
        limits = self._limits
        merged = dataset.default is not None and len(dataset.default) > 1
        task = _PartTask(pattern, tuple(columns), base_iri, limits.text, limits.texts, merged)
        request = WorkerRequest(
            copy="",
            version=0,
            text=base64.b64encode(pickle.dumps(task)).decode(),
            results_format="json",
            graph_format=None,
            default_graphs=_keys(dataset.default),
            named_graphs=_keys(dataset.named),
            extension=IN_WORKERS,
        )
        found = self._begun(self._workers.present_copy(), task, request, check)
        next(found)
        return found

    def _begun(
        self, copy: StoreCopy, task: _PartTask, request: WorkerRequest, check: Callable[[], None]
    ) -> Generator[Row]:
        """Yield an empty row, then the rows of a static part; release its copy of the store at the end."""
        released = False
        try:
            yield ()
            with self._workers.spool(_SPOOLED_BYTES) as spool:
                self._evaluate(copy, task, request, LimitedSink(spool, self._limits.max_bytes), check)
                released = True
                self._workers.release(copy)
                spool.seek(0)
                solutions = parse_query_results(spool, QueryResultsFormat.JSON)
                assert isinstance(solutions, QuerySolutions)
                for solution in solutions:
                    yield tuple(solution)
        finally:
            if not released:
                self._workers.release(copy)

    def _evaluate(
        self,
        copy: StoreCopy,
        task: _PartTask,
        request: WorkerRequest,
        sink: LimitedSink,
        check: Callable[[], None],
    ) -> None:
        limits, memory = self._limits, self._workers.memory_bytes
        process = Process(0, "static part", "", "", time.monotonic())
        until = process.started + limits.seconds

        def look() -> None:
            check()
            if time.monotonic() > until:
                raise timeout_error(limits.seconds, process.kind)

        try:
            with taken(self._one, look):
                self._workers.run_separately(copy, request, sink, process, until - time.monotonic(), check)
        except WorkerLostError as error:
            raise task.error(
                f"most likely needs more memory than a worker may have (worker_memory_bytes, {memory} bytes)",
                "raise the setting worker_memory_bytes",
            ) from error
        except QueryTimeoutError as error:
            raise task.error(
                f"took longer than {limits.seconds:g} s (max_static_time)",
                "raise the setting max_static_time",
            ) from error
        except TooLargeError as error:
            raise task.error(
                f"has rows of more than {limits.max_bytes} bytes (max_result_bytes)",
                "raise the setting max_result_bytes",
            ) from error


class _PartTask(NamedTuple):
    """A static part of a query for a worker process; ``text`` and ``texts`` are the limits on its values.

    ``merged`` is True if the default graph of the static part is merged from several graphs.
    """

    pattern: Algebra
    columns: tuple[Var, ...]
    base_iri: str | None
    text: int
    texts: int
    merged: bool

    def error(self, what: str, advice: str) -> HeavyPartError:
        """Return the error that names the static part, the exceeded limit and a remedy."""
        text = " ".join(static_text(self.pattern, self.columns, None).split())
        shown = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"
        return HeavyPartError(f"the static part {shown} {what}", hint=f"Make the part narrower, or {advice}.")


def as_evaluated(text: str, base_iri: str) -> Extended:
    """Return the SPARQL text of a pickled static part with its functions; called in a worker process."""
    task: _PartTask = pickle.loads(base64.b64decode(text))
    limits = QueryLimits(text=task.text, bytes=task.texts)
    functions = Functions("", custom_functions(), Budget(limits))
    written = static_text(task.pattern, task.columns, functions, task.base_iri, merged=task.merged)
    return Extended(written, functions.functions, functions.aggregates, functions.limited.begun())


def _keys(graphs: Sequence[GraphName] | None) -> tuple[str, ...] | None:
    return None if graphs is None else tuple(map(graph_key, graphs))
