"""The commits behind a version, remembered for those who ask for the same ones after each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .commit import Commit

_MOST = 20_000


class RememberedCommits:
    """Commits as they were read, as long as all that are remembered have few quads together."""

    def __init__(self, read: Callable[[int, int], Iterator[Commit]], most: int = _MOST) -> None:
        """``read`` gives the commits behind a version, so many at most; ``most`` quads are remembered."""
        self._read = read
        self._most = most
        # Without gaps from a version on; one value, which any thread takes and replaces.
        self._known: tuple[int, tuple[Commit, ...]] = (-1, ())

    def forget(self) -> None:
        """Remember none."""
        self._known = (-1, ())

    def between(self, since: int, version: int) -> Iterator[Commit]:
        """The commits behind ``since`` up to ``version``; raises GoneError as the reading does."""
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
