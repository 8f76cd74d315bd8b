"""A cache of recent commits, shared by several readers of the change log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .commit import Commit

_MOST = 20_000


class RememberedCommits:
    """A cache of consecutive commits of the store, bounded by the total number of their quads."""

    def __init__(self, read: Callable[[int, int], Iterator[Commit]], most: int = _MOST) -> None:
        """The function ``read`` returns commits after a version; the cache holds at most ``most`` quads."""
        self._read = read
        self._most = most
        # The cached consecutive commits and the version before them, in one tuple that any thread replaces
        # atomically.
        self._known: tuple[int, tuple[Commit, ...]] = (-1, ())

    def forget(self) -> None:
        """Remove all commits from the cache."""
        self._known = (-1, ())

    def between(self, since: int, version: int) -> Iterator[Commit]:
        """Yield the commits after version ``since`` up to ``version``; raises GoneError as ``read`` does."""
        begin, known = self._known
        if not (known and begin <= since <= known[-1].version):
            begin, known = since, ()
        yield from (commit for commit in known if since < commit.version <= version)
        reached = known[-1].version if known else since
        if reached >= version:
            return
        quads = sum(len(commit.added) + len(commit.removed) for commit in known)
        for commit in self._read(reached, version - reached):
            quads += len(commit.added) + len(commit.removed)
            if quads <= self._most:
                known = (*known, commit)
                self._known = begin, known
            yield commit
