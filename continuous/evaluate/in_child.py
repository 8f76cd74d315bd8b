"""Evaluations by Oxigraph in a child process, because a call of Oxigraph cannot be interrupted in-process.

The child process of an evaluation is a copy of the server process (store/logs/process_copy.py), forked right
before the evaluation. The child process sends rows in batches through a pipe. While a fiber waits for the
child, the engine runs other queries; the fiber kills the child if the evaluation times out or is cancelled.
The pool of `permits` bounds the number of live child processes.
docs/decisions/0353-evaluations-in-children.md.
"""

from __future__ import annotations

import logging
import pickle
import signal
import time
from array import array
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from itertools import repeat
from math import inf
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from quadrill.store.logs.process_copy import ChildLimits, ChildProcess
from quadrill.store.terms import Solution, Term

from ..errors import BudgetError
from ..rows import Budget
from ..slices import in_fiber, pause, wait_for
from .permits import PERMITS, EvaluationPermit

log = logging.getLogger("quadrill.continuous")

EvaluationResult: TypeAlias = "Generator[Solution, None, None] | bool"
"""Result of an evaluation in a child process: a generator of rows, or the boolean of ASK."""

_BATCH_TERMS, _BATCH_CHARACTERS = 4_096, 1 << 18
"""Number of term references, and of characters of new terms, after which a child process sends its rows."""

_PRIORITY_S = 0.1
"""Seconds of CPU time after which the server lowers the priority of an evaluation's child process."""

_SHARE_S = 10.0
"""Seconds after which a child process is preempted if others wait; doubled at each retry."""

_Work: TypeAlias = Callable[[Connection], object]


class _PreemptedError(Exception):
    """The child of an evaluation was killed because other evaluations wait for a permit."""


def evaluate_in_child(
    evaluate: Callable[[], EvaluationResult],
    finish: Callable[[], None],
    max_rows: int,
    budget: Budget,
    where: Any,
) -> list[Solution] | bool | None:
    """Evaluate in a child process and return the first ``max_rows`` rows; ``max_rows`` of 0 returns all rows.

    Returns None if the system cannot create another process.

    Args:
        evaluate: starts the evaluation; called in the child.
        finish: called in the child after the last row; raises an error that the rows' evaluation recorded.
        max_rows: rows after which the child stops.
        budget: limits the time of the evaluation, and is charged with the child's CPU time.
        where: the operator that error messages name.

    Raises:
        BudgetError: the evaluation exceeded its time or memory, or was cancelled.
        ReportedError: the evaluation in the child process failed.
    """

    def work(pipe: Connection) -> None:
        _send_answer(pipe, evaluate, finish, max_rows)

    not_counted_since, share = time.monotonic(), _SHARE_S
    while True:
        with PERMITS.request() as permit:
            _wait_for_permit(permit, budget, where)
            # Neither the wait for a permit nor the time of a preempted child process counts as time of the
            # evaluation.
            began = time.monotonic()
            budget.exclude(began - not_counted_since)
            try:
                return _run_child(work, budget, where, partial(permit.is_due, share))
            except _PreemptedError:
                not_counted_since, share = began, 2 * share


def _wait_for_permit(permit: EvaluationPermit, budget: Budget, where: Any) -> None:
    """Wait for a permit to start a child process, while the engine runs other queries."""
    while not permit.ready(0.0):
        if not in_fiber():
            PERMITS.grant_extra(permit)
        wait_for(permit.ready, at_once=True)
        budget.check_stop(where)


def _run_child(
    work: _Work, budget: Budget, where: Any, is_preempted: Callable[[], bool]
) -> list[Solution] | bool | None:
    """Run one child process to its end, as `evaluate_in_child` describes; None if no process can be created.

    Raises:
        _PreemptedError: ``is_preempted`` says that the child must give its permit to a waiting evaluation.
    """
    began, limits = budget.since or time.monotonic(), budget.limits
    until = began + limits.ms * budget.grace / 1000 if limits.ms else inf
    seconds = max(until - time.monotonic(), 0.001) if limits.ms else 0.0
    try:
        child = ChildProcess(work, ChildLimits(seconds, limits.process))
    except OSError as error:
        log.warning("No process can be made for an evaluation, which can therefore not be stopped: %s", error)
        return None
    answer = _ChildOutput(child, budget)
    try:
        while not answer.is_complete:
            wait_for(answer.ready)
            answer.charge_cpu()
            budget.check_stop(where)
            if answer.ready(0.0):
                try:
                    answer.receive(child.pipe.recv())
                except (EOFError, OSError):
                    raise answer.early_end_error(began, until, where) from None
                pause()
            elif time.monotonic() > until:
                raise budget.too_slow((time.monotonic() - began) * 1000, len(answer.rows), where)
            if not answer.is_complete and is_preempted():
                raise _PreemptedError
    finally:
        child.kill()
        child.end()
        answer.charge_cpu()
    if answer.error is not None:
        raise answer.error
    if budget.since:
        # The evaluation ended when the child process was done; the time until this fiber resumed does not
        # count.
        budget.since += time.monotonic() - answer.ended_at
    return answer.rows if answer.boolean is None else answer.boolean


class _ChildOutput:
    """The output of an evaluation's child process, as far as the child has sent it.

    Attributes:
        rows: the rows of a SELECT; ``boolean`` is the value of ASK.
        error: the exception with which the evaluation failed.
        ended_at: when the child finished, by the monotonic clock; 0 before.
    """

    def __init__(self, child: ChildProcess, budget: Budget) -> None:
        self.child = child
        self.rows: list[Solution] = []
        self.boolean: bool | None = None
        self.error: Exception | None = None
        self.ended_at = 0.0
        self._budget = budget
        self._cpu_before = budget.elsewhere
        self._is_niced = False
        self._terms: list[Term | None] = [None]

    @property
    def is_complete(self) -> bool:
        """True after the last message of the child process was received."""
        return self.ended_at > 0

    def ready(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; return True if a message of the child process is available."""
        return self.child.pipe.poll(seconds)

    def charge_cpu(self) -> None:
        """Charge the query with its child process's CPU time; lower a long-running child's priority."""
        cpu = self.child.cpu()
        self._budget.elsewhere = self._cpu_before + cpu
        if cpu > _PRIORITY_S and not self._is_niced:
            self._is_niced = True
            self.child.step_back()

    def early_end_error(self, began: float, until: float, where: Any) -> BudgetError:
        """Return the error of an evaluation whose child process ended before the answer was complete."""
        now, budget = time.monotonic(), self._budget
        status = self.child.end()
        ended_by = status & 0x7F
        if ended_by == signal.SIGALRM or now > until:
            return budget.too_slow((now - began) * 1000, len(self.rows), where)
        name = signal.Signals(ended_by).name if ended_by else f"status {status >> 8}"
        limit = budget.limits.process
        return BudgetError(
            f"the process of one evaluation ended early ({name}); most likely it needs more memory than it "
            f"may have (worker_memory_bytes, {limit} bytes)",
            where=where,
            again=False,
            limit=limit,
        )

    def receive(self, message: Any) -> None:
        """Store the rows or the final result that one message of the child process contains."""
        match message:
            case int(width), int(count), list(new), array() as numbers:
                self._terms += new
                values = map(self._terms.__getitem__, numbers)
                self.rows += zip(*repeat(values, width), strict=True) if width else repeat((), count)
            case float(ended), found:
                self.ended_at = ended
                self.boolean = found if isinstance(found, bool) else None
                self.error = found if isinstance(found, Exception) else None


# --- code that runs in the child process ------------------------------------------------------------


def _send_answer(
    pipe: Connection, evaluate: Callable[[], EvaluationResult], finish: Callable[[], None], max_rows: int
) -> None:
    """Evaluate in the child process, and send the rows and the result through the pipe."""
    found: Any = None
    try:
        given = evaluate()
        if isinstance(given, bool):
            found = given
        else:
            for message in _row_batches(given, max_rows):
                pipe.send(message)
        finish()
    except MemoryError:
        return  # The child process ends without an answer, as it does when Oxigraph runs out of memory.
    except Exception as error:
        found = _picklable(error)
    pipe.send((time.monotonic(), found))


def _row_batches(
    rows: Iterator[Solution], max_rows: int
) -> Iterator[tuple[int, int, list[Term], array[int]]]:
    """Yield the rows as messages with width, number of rows, new terms, and term numbers in row order."""
    known: dict[Term | None, int] = {None: 0}
    new, numbers, count, size, width = list[Term](), array("I"), 0, 0, 0
    sent = 0
    for row in rows:
        width = len(row)
        for term in row:
            number = known.get(term)
            if number is None:
                number = known[term] = len(known)
                assert term is not None
                new.append(term)
                size += len(str(term))
            numbers.append(number)
        count += 1
        if (
            sent + count == max_rows
            or count >= _BATCH_TERMS
            or len(numbers) >= _BATCH_TERMS
            or size > _BATCH_CHARACTERS
        ):
            yield width, count, new, numbers
            sent += count
            new, numbers, count, size = [], array("I"), 0, 0
            if sent == max_rows:
                return
    if count:
        yield width, count, new, numbers


def _picklable(error: Exception) -> Exception:
    """Return an exception that can be pickled: the given error if possible, else a copy of its message."""
    error.__cause__ = error.__context__ = None
    with suppress(Exception):
        pickle.loads(pickle.dumps(error))
        return error
    if isinstance(error, BudgetError):
        error.where = None
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
