"""The kinds of turns besides inputs, fetches and swaps, as values: what is to be done, and to what.

Those that move queries are named; any other says its work itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrill.store.changes.commit import Commit
from quadrill.store.registry.records import QueryState

from ..durable.tasks import Task
from ..inputs import LogRecord
from ..language.registration import Registration
from ..queries.running import RunningQuery


@dataclass(slots=True, eq=False)
class CommitTask(Task):
    """The store has a new version."""

    commit: Commit


@dataclass(slots=True, eq=False)
class RefreshTask(Task):
    """The static parts of a query, by its name, are refreshed."""

    name: str
    cause: str


@dataclass(slots=True, eq=False)
class PauseTask(Task):
    """A query pauses or goes on."""

    running: RunningQuery
    state: QueryState


@dataclass(slots=True, eq=False)
class SettingsTask(Task):
    """A query gets other settings."""

    running: RunningQuery
    registration: Registration


@dataclass(slots=True, eq=False)
class AttachTask(Task):
    """A query begins.

    Attributes:
        reset: its feed goes on, with a reset.
        replay_from: the event time from which retained elements come first; by default that of ``start``.
        kept: what its streams retained at its place in the order; by default what they do in the turn.
    """

    running: RunningQuery
    reset: bool
    replay_from: int | None = None
    kept: dict[str, list[LogRecord]] | None = None


@dataclass(slots=True, eq=False)
class CallTask(Task):
    """Some work that moves no query and finds a settled state; it gives the turn's result."""

    work: Callable[[], Any]
