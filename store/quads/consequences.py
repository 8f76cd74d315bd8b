"""The interface of consequences: quads that follow from other quads and are committed together with them."""

from __future__ import annotations

from typing import Protocol

from ..changes.commit import NetChange
from ..changes.pending import PendingChanges


class Consequences(Protocol):
    """Adds to each change what follows from it. Called under the writer lock, one call at a time."""

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

    def derive_all(self, pending: PendingChanges) -> None:
        """Make all derived graphs equal to what follows from the dataset, after unknown changes.

        Raises:
            ReportedError: as of `derive`.
        """
        ...
