"""The interface of observers, which read the dataset before and after each commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..changes.commit import Commit


class Observer(Protocol):
    """Reads the dataset before and after each commit, under the writer lock."""

    def around_commit(self, commit: Commit) -> AbstractContextManager[None] | None:
        """Return a context manager that surrounds the application of a commit; None for no interest in it.

        On entry the dataset has the version before the commit, on exit the version of the commit. The
        writer's thread holds the writer lock, so the observer must be quick, must not write and must not
        raise. The exit has an exception if the commit could not be applied.
        """
        ...

    def around_commits(self, commits: Sequence[Commit]) -> AbstractContextManager[bool]:
        """Return a context manager that surrounds the application of a group of commits.

        The value is True if no commit of the group is of interest. If all observers return True, the commits
        are applied in one transaction without calls of `around_commit`. Called under the writer lock.
        """
        ...

    def around_bulk_load(self) -> AbstractContextManager[None]:
        """Return a context manager around a bulk load and its commit; an error on entry refuses the load.

        The dataset already has the quads of the load when `around_commit` is entered for its commit. Called
        under the writer lock.
        """
        ...
