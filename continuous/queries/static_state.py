"""Which version of the store the static parts of one query reflect, and how they move to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from quadrill.store.changes.commit import Commit

from ..evaluate.evaluator import Evaluator
from ..static.static_inputs import StaticInputs
from ..static.steps import StaticStep


class RefreshNotes(Protocol):
    """Notes at which version a query read the store by itself, so that a replay reads the same."""

    def before_refresh(self, name: str) -> None:
        """The query is about to read."""
        ...

    def after_refresh(self, name: str, version: int) -> None:
        """The static parts were refreshed, at this version."""
        ...


class StaticState:
    """The static parts of one query. Nothing here evaluates it.

    Attributes:
        statics: the parts that follow the store; None where the evaluator reads the store by itself.
        seen: the newest commit that was looked at.
        stale: a commit, or a source, has changed what was not read again yet.
        unseen_from: the version before the first change of rows that no evaluation has seen; None for none.
        refreshes: how often they were refreshed; ``last_refresh`` tells of the last time.
    """

    def __init__(self, name: str, evaluator: Evaluator, notes: RefreshNotes | None) -> None:
        self._name = name
        self._evaluator = evaluator
        self._notes = notes
        statics = evaluator.statics
        self.statics: StaticInputs | None = statics if statics is not None and statics.shares else None
        self.seen = evaluator.static_version
        self.stale = False
        self.unseen_from: int | None = None
        self.refreshes = 0
        self.last_refresh: dict[str, Any] | None = None

    @property
    def version(self) -> int:
        """The version of the dataset that the answer reflects: any seen will do without static parts."""
        if self.statics is not None:
            return self.statics.version
        return self._evaluator.static_version if self._evaluator.static_parts() else self.seen

    @property
    def evaluated_version(self) -> int:
        """A version whose static rows are those of the last evaluation."""
        return self.version if self.unseen_from is None else self.unseen_from

    @property
    def settled(self) -> bool:
        """True when nothing waits: every row is known, held in a table, and seen by an evaluation."""
        statics = self.statics
        return (
            not self.stale
            and self.unseen_from is None
            and statics is not None
            and statics.begun
            and not statics.steps
            and not statics.looked_up
        )

    def is_behind(self, commit: Commit) -> bool:
        """True when a commit may have changed what the evaluator read by itself."""
        self.seen = max(self.seen, commit.version)
        return self._evaluator.static_version < commit.version

    def steps(self) -> Iterator[StaticStep]:
        """The versions that the parts may move to, each a transaction of its own."""
        return iter(()) if self.statics is None else self.statics.ready()

    def take(self, step: StaticStep) -> bool:
        """Move to a version; True when a row changed."""
        changed = self._evaluator.take(step.changes)
        if changed and self.unseen_from is None:
            self.unseen_from = step.before
        return changed

    def refresh(self, now_ms: int, cause: str, *, held: bool) -> bool:
        """Bring all parts to the newest version; True when a row changed.

        Args:
            now_ms: when.
            cause: why, for descriptions.
            held: from now on steps are taken only when asked for.
        """
        self.stale = False
        if self.statics is not None:
            changed = self.catch_up(held=held)
            # The other parts are read from other servers, whose answers are inputs themselves.
            changed = (self.statics.has_own and self._evaluator.refresh()) or changed
        else:
            if self._notes is not None:
                self._notes.before_refresh(self._name)
            changed = self._evaluator.refresh()
            if self._notes is not None:
                self._notes.after_refresh(self._name, self._evaluator.static_version)
            self.seen = max(self.seen, self._evaluator.static_version)
        self.note(now_ms, cause, changed=changed)
        return changed

    def catch_up(self, *, held: bool) -> bool:
        """Take all steps that there are, the first time all rows; True when a row changed."""
        if self.statics is None:
            return False
        if not self.statics.begun:
            self.statics.held = held
            return self._evaluator.begin()
        return any([self.take(step) for step in self.statics.ready()])

    def note(self, now_ms: int, cause: str, *, changed: bool) -> None:
        """Remember a refresh for descriptions."""
        self.refreshes += 1
        self.last_refresh = {"at": now_ms, "cause": cause, "version": self.version, "changed": changed}

    def looked_up(self) -> dict[int, str | None]:
        """For a restart: the places of parts that are looked up, and why where nobody asked for it."""
        return {} if self.statics is None else dict(self.statics.looked_up)
