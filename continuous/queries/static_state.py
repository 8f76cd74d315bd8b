"""The state of a query's static parts, and how they move to the next version of the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..durable.tasks import TaskQueue
from ..evaluate.evaluator import Evaluator
from ..static.static_inputs import StaticInputs
from ..static.table import StaticStep


@dataclass(eq=False, repr=False)
class StaticState:
    """The store version that a query's static parts reflect, and the changes not yet applied.

    The state of a query's static parts does not include the evaluation of the query.

    Attributes:
        statics: the static parts that follow the store; None if the query reads the static parts itself.
        seen: the version of the newest commit that the query was notified of.
        stale: True if a commit or a remote source has changed static parts that were not read again yet.
        unseen_from: the version before the first change of rows that no evaluation has read; None if there is
            none.
        refreshes: the number of refreshes.
        last_refresh: time, cause, version and effect of the last refresh, as JSON for the API.
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
        """The store version of the query's answer; without static parts, the newest known version."""
        if self.statics is not None:
            return self.statics.version
        return self._parts.version if self._parts.parts else self.seen

    @property
    def evaluated_version(self) -> int:
        """A version of the store that has the static rows of the query's last evaluation."""
        return self.version if self.unseen_from is None else self.unseen_from

    @property
    def is_complete(self) -> bool:
        """True if all static rows are in tables and the query has evaluated all their changes."""
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
        """Return the positions of looked-up static parts, with the reason unless the query asked for it."""
        return {} if self.statics is None else dict(self.statics.looked_up)

    def apply(self, step: StaticStep) -> bool:
        """Apply the changes of one store version to the query; return True if a row changed."""
        changed = self.evaluator.take(step.changes)
        if changed and self.unseen_from is None:
            self.unseen_from = step.before
        return changed

    def refresh(self, now_ms: int, cause: str, *, on_request: bool) -> bool:
        """Bring all static parts of the query to the newest version; return True if a row changed.

        With ``on_request``, later changes of tables are applied only by further refreshes.
        """
        self.stale = False
        if self.statics is not None:
            changed = self.catch_up(on_request=on_request)
            # Parts that do not follow the store come from remote servers, whose contents are separate inputs
            # of the engine.
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
        """Apply all pending static changes, or all rows the first time; return True if a row changed."""
        if self.statics is None:
            return False
        if not self.statics.begun:
            self.statics.steps.held = on_request
            return self.evaluator.take(self._parts.begin())
        return any([self.apply(step) for step in self.statics.steps.ready()])

    def note(self, now_ms: int, cause: str, *, changed: bool) -> None:
        """Record a refresh of static parts for descriptions of the query."""
        self.refreshes += 1
        self.last_refresh = {"at": now_ms, "cause": cause, "version": self.version, "changed": changed}
