"""The interface of consequences: quads that follow from other quads and are committed together with them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from ..changes.commit import NetChange
from ..changes.owners import Owners
from ..changes.pending import PendingChanges


class Consequences(Protocol):
    """Adds to each change the quads that follow from it.

    The writer lock is held during each call. The calls for a group of requests are

    begin_group -> derive, for each request of the group -> committing, unless all requests failed
    """

    def begin_group(self) -> None:
        """Begin a group of requests; discard notes about earlier groups that were not committed."""
        ...

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> None:
        """Add the consequences of a change to ``pending``, which has the change already.

        Args:
            below: the dataset before the change.
            pending: the dataset with the change.
            change: the change.
            timed: True if limits of time apply.

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

    def derive_all(self, pending: PendingChanges) -> None:
        """Make all derived graphs equal to what follows from the dataset, after unknown changes.

        Raises:
            ReportedError: the changes must not be committed; see `derive`.
        """
        ...
