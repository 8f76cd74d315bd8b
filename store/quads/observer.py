"""What looks at the dataset before and after each commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..changes.commit import Commit


class Observer(Protocol):
    """Looks at the dataset before and after each single commit, with no other commit between."""

    def around_commit(self, commit: Commit) -> AbstractContextManager[None] | None:
        """Entered when the dataset is at the version before the commit, left when it is at the commit's.

        Called in a writer's thread under the writer lock, so it must be quick and may not write. It may not
        raise. Left with an exception when the commit could not be made. None: this one is of no interest.
        """
        ...

    def around_commits(self, commits: Sequence[Commit]) -> AbstractContextManager[bool]:
        """Entered before a group of commits is made and left behind it.

        Gives True where none of them is of interest: they are then made together, and `around_commit` is not
        asked. Called as that is.
        """
        ...

    def around_bulk_load(self) -> AbstractContextManager[None]:
        """Entered before a bulk load touches the dataset, left behind its commit; what it raises refuses it.

        The dataset already has the quads of the load when `around_commit` is entered for its commit. Called
        under the writer lock.
        """
        ...
