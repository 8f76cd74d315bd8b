"""The consequences of a commit: first the triples that rules infer, then the results of shapes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore

from .rule_consequences import RuleConsequences
from .shape_consequences import ShapeConsequences

log = logging.getLogger("quadrill.continuous")


class CommitConsequences:
    """Applies the rule sets and the shapes of one store to commits; see `store.quads.consequences`."""

    def __init__(self, store: QuadStore, rules: RuleConsequences, shapes: ShapeConsequences) -> None:
        self._store = store
        self._rules, self._shapes = rules, shapes
        store.queue.consequences = self

    @property
    def active(self) -> bool:
        """True if there are rule sets or shapes."""
        return self._rules.active or self._shapes.active

    def begin_group(self) -> None:
        """Begin a group of requests; see `Consequences.begin_group`."""
        self._rules.begin_group()
        self._shapes.begin_group()

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> int:
        """Add inferred triples, and check the change with them; see `Consequences.derive`."""
        if not self._shapes.active:
            self._rules.derive(below, pending, change, timed=timed)
            return 0
        regrouping = not change
        if not self._rules.active:
            return self._shapes.derive(below, pending, change, timed=timed, regrouping=regrouping)
        with self._rules.undone_by_errors():
            self._rules.derive(below, pending, change, timed=timed)
            change = pending.net()
            return self._shapes.derive(below, pending, change, timed=timed, regrouping=regrouping)

    def derive_all(self, pending: PendingChanges) -> int:
        """Compute rule sets and shapes again; see `Consequences.derive_all`."""
        with self._rules.undone_by_errors():
            self._rules.derive_all(pending)
            return self._shapes.derive_all(pending)

    def committing(self, owned: Owners) -> AbstractContextManager[None]:
        """Return the context in which a group is logged and applied; see `Consequences.committing`."""
        if not self._shapes.active:
            return self._rules.committing(owned)
        if not self._rules.active:
            return self._shapes.committing(owned)
        return self._committing_both(owned)

    @contextmanager
    def _committing_both(self, owned: Owners) -> Iterator[None]:
        with self._rules.committing(owned), self._shapes.committing(owned):
            yield

    # --- owners -------------------------------------------------------------------------------

    def follow_owners(self) -> None:
        """From now on, update derived graphs when a graph gains or loses its owner.

        Rule sets and shapes without listed input graphs read all graphs without an owner.
        """
        owned = self._store.queue.owned
        self._rules.note_owners(owned)
        self._shapes.note_owners(owned)
        self._store.queue.owners_changed = self._owners_changed

    def _owners_changed(self, graph: GraphName) -> None:
        if graph in self._store.committer.counts and (
            self._rules.follows_owners or self._shapes.follows_owners
        ):
            threading.Thread(target=self._regroup, name="quadrill-rules", daemon=True).start()

    def _regroup(self) -> None:
        try:
            self._shapes.regroup("rules")
        except ReportedError as error:  # the next commit tries again
            log.warning("graphs changed their owner, and derived graphs were not updated: %s", error.message)
