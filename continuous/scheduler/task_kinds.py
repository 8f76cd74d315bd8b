"""The kinds of tasks other than stream inputs, source fetches and table reloads.

Each kind of task that affects queries has a class; `CallTask` runs any other work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import ReportedError
from quadrill.store.registry.records import QueryState

from ..durable.tasks import Task
from ..inputs import LogRecord
from ..language.registration import Registration
from ..queries.running import RunningQuery


@dataclass(slots=True, eq=False)
class CommitTask(Task):
    """A task of a commit: the store has a new version."""

    commit: Commit


@dataclass(slots=True, eq=False)
class RefreshTask(Task):
    """A task that refreshes the static parts of the query with this name."""

    name: str
    cause: str


@dataclass(slots=True, eq=False)
class PauseTask(Task):
    """A task that pauses or resumes a query."""

    running: RunningQuery
    state: QueryState


@dataclass(slots=True, eq=False)
class FailTask(Task):
    """A task that marks a query as failed with an error that no replay would repeat."""

    running: RunningQuery
    reason: ReportedError


@dataclass(slots=True, eq=False)
class SettingsTask(Task):
    """A task that gives a query other settings."""

    running: RunningQuery
    registration: Registration


@dataclass(slots=True, eq=False)
class AttachTask(Task):
    """Begins a query.

    Attributes:
        reset: True if the feed of an earlier query continues, with a reset event.
        replay_from: the event time from which the query processes retained elements first; None takes the
            time of the registration's ``start``.
        kept: the retained inputs of all pushed streams when the task was enqueued; None reads them when the
            task is executed.
    """

    running: RunningQuery
    reset: bool
    replay_from: int | None = None
    kept: dict[str, list[LogRecord]] | None = None


@dataclass(slots=True, eq=False)
class CallTask(Task):
    """A task that calls a function; the task's result is the result of the function."""

    work: Callable[[], Any]
