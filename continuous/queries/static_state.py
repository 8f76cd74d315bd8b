"""How far the static parts of a query are, and how they move to the next version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..durable.tasks import TaskQueue
from ..evaluate.evaluator import Evaluator
from ..static.static_inputs import StaticInputs
from ..static.table import StaticStep


@dataclass(eq=False, repr=False)
class StaticState:
    """Which version of the store the static parts of a query reflect, and how they move to the next.

    Nothing here evaluates the query.

    Attributes:
        statics: the parts that follow the store; None where they are read when the query asks.
        seen: the newest commit that was looked at.
        stale: a commit, or a source, has changed what was not read again yet.
        unseen_from: the version before the first change of rows that no evaluation has seen; None for none.
        refreshes: how often they were refreshed; ``last_refresh`` tells of the last time.
    """

    name: str
    evaluator: Evaluator
    tasks: TaskQueue | None
    statics: StaticInputs | None = field(init=False)
    seen: int = field(init=False)
    stale: bool = False
    unseen_from: int | None = None
    refreshes: int = 0
    last_refresh: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self._parts = self.evaluator.statics
        self.statics = self._parts if self._parts.shares else None
        self.seen = self._parts.version

    @property
    def version(self) -> int:
        """The version of the dataset that the answer reflects: any seen will do without static parts."""
        if self.statics is not None:
            return self.statics.version
        return self._parts.version if self._parts.parts else self.seen

    @property
    def evaluated_version(self) -> int:
        """A version whose static rows are those of the last evaluation."""
        return self.version if self.unseen_from is None else self.unseen_from

    @property
    def is_settled(self) -> bool:
        """True when nothing waits: every row is known, held in a table, and seen by an evaluation."""
        statics = self.statics
        return (
            not self.stale
            and self.unseen_from is None
            and statics is not None
            and statics.begun
            and statics.steps.is_quiet
            and not statics.looked_up
        )

    def looked_up(self) -> dict[int, str | None]:
        """For a restart: the places of parts that are looked up, and why where nobody asked for it."""
        return {} if self.statics is None else dict(self.statics.looked_up)

    def apply(self, step: StaticStep) -> bool:
        """Move to a version; True when a row changed."""
        changed = self.evaluator.take(step.changes)
        if changed and self.unseen_from is None:
            self.unseen_from = step.before
        return changed

    def refresh(self, now_ms: int, cause: str, *, on_request: bool) -> bool:
        """Bring all parts to the newest version; True when a row changed.

        With ``held`` steps are from now on taken only when asked for.
        """
        self.stale = False
        if self.statics is not None:
            changed = self.catch_up(on_request=on_request)
            # The other parts are read from other servers, whose answers are inputs themselves.
            changed = (self.statics.has_own and self.evaluator.take(self._parts.refresh())) or changed
        else:
            version = None if self.tasks is None else self.tasks.version_to_read(self.name)
            changed = self.evaluator.take(self._parts.refresh(version))
            if self.tasks is not None:
                self.tasks.after_refresh(self.name, self._parts.version)
            self.seen = max(self.seen, self._parts.version)
        self.note(now_ms, cause, changed=changed)
        return changed

    def catch_up(self, *, on_request: bool) -> bool:
        """Take all steps that there are, the first time all rows; True when a row changed."""
        if self.statics is None:
            return False
        if not self.statics.begun:
            self.statics.steps.held = on_request
            return self.evaluator.take(self._parts.begin())
        return any([self.apply(step) for step in self.statics.steps.ready()])

    def note(self, now_ms: int, cause: str, *, changed: bool) -> None:
        """Remember a refresh for descriptions."""
        self.refreshes += 1
        self.last_refresh = {"at": now_ms, "cause": cause, "version": self.version, "changed": changed}
