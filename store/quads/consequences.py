"""The interface of consequences: quads that follow from other quads and are committed together with them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ..changes.commit import NetChange
from ..changes.owners import Owners
from ..changes.pending import PendingChanges


class Consequences(Protocol):
    """Adds to each change the quads that follow from it, and checks both.

    The writer lock is held during each call. The calls for a group of requests are

    begin_group -> derive, for each request of the group -> committing, unless all requests failed
    """

    @property
    def active(self) -> bool:
        """False if no change has consequences."""
        ...

    def begin_group(self) -> None:
        """Begin a group of requests; discard notes about earlier groups that were not committed."""
        ...

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> int:
        """Add the consequences of a change to ``pending``, which has the change already.

        Returns the number of violations that the change adds, for the client (`Commit.violations`).

        Args:
            below: the dataset before the change.
            pending: the dataset with the change.
            change: the change.
            timed: True if the ``max_time`` of each rule set and of shapes applies; False for no time limit.

        Raises:
            ReportedError: the change must not be committed, for instance because it exceeds a budget.
        """
        ...

    def committing(self, owned: Owners) -> AbstractContextManager[None]:
        """Return the context in which the group is logged and applied.

        The context makes effects of `derive` outside of the dataset durable, such as suspensions. It undoes
        them if the log cannot be written. ``owned`` has the owners of graphs for the group.
        """
        ...

    def derive_all(self, pending: PendingChanges) -> int:
        """Make all derived graphs equal to what follows from the dataset, after unknown changes.

        Returns the number of violations that the changes add.

        Raises:
            ReportedError: the changes must not be committed; see `derive`.
        """
        ...


class NoConsequences:
    """The consequences of a store without rule sets and shapes: none."""

    active = False

    def begin_group(self) -> None:
        """Do nothing."""

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> int:
        """Return 0."""
        return 0

    def committing(self, owned: Owners) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def derive_all(self, pending: PendingChanges) -> int:
        """Return 0."""
        return 0


NO_CONSEQUENCES: Consequences = NoConsequences()
