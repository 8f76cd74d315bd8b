"""The interface of consequences: quads that follow from other quads and are committed together with them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from ..changes.commit import NetChange
from ..changes.owners import Owners
from ..changes.pending import PendingChanges


class Consequences(Protocol):
    """Adds to each change what follows from it. Called under the writer lock, one call at a time.

    begin_group -> derive, for each request of the group -> committing, unless all requests failed
    """

    def begin_group(self) -> None:
        """Begin a group of requests; what an earlier group has not committed is void."""
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
        """Return the context in which the group is logged and applied; ``owned`` are its owners of graphs.

        If the log cannot be written, the context undoes what `derive` has noted in addition to the changes.
        """
        ...

    def derive_all(self, pending: PendingChanges) -> None:
        """Make all derived graphs equal to what follows from the dataset, after unknown changes.

        Raises:
            ReportedError: as of `derive`.
        """
        ...
