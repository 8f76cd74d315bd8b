"""The interface of observers, which read the dataset before and after each commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..changes.commit import Commit


class Observer(Protocol):
    """An observer, which reads the dataset before and after each commit, under the writer lock."""

    def around_commit(self, commit: Commit) -> AbstractContextManager[None] | None:
        """Return a context manager around the application of a commit; None if the commit is of no interest.

        On entry of the context manager, the dataset has the version before the commit, on exit the version of
        the commit. The writer's thread holds the writer lock, so the observer must be quick, must not write
        and must not raise. The context manager's exit gets an exception if the commit could not be applied.
        """
        ...

    def around_commits(self, commits: Sequence[Commit]) -> AbstractContextManager[bool]:
        """Return a context manager around the application of a group of commits.

        The context manager's value is True if no commit of the group is of interest to the observer. If all
        observers return True, the commits are applied in one transaction without calls of `around_commit`.
        The writer calls this method under the writer lock.
        """
        ...

    def around_bulk_load(self) -> AbstractContextManager[None]:
        """Return a context manager around a bulk load and its commit; an error on entry refuses the load.

        The dataset already has the quads of a bulk load when `around_commit` is entered for its commit. The
        writer calls this method under the writer lock.
        """
        ...
