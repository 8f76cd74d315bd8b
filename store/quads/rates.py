"""Change rates of graphs: commits per hour and quads per commit, estimated from recent commits.

In a graph's estimated change rate, the weight of a commit halves every hour, so that the estimate follows
recent activity. The estimated change rate allows for the age of a young graph: one commit a minute is 60
commits an hour both after an hour and after ten minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..changes.commit import Commit

HALF_LIFE_MS = 3_600_000
_HOUR_MS = 3_600_000
_LEAST_AGE_MS = 60_000
_LN2 = 0.6931471805599453
_MOST_GRAPHS = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """The estimated change rate of one graph; ``last_ms`` is the wall clock time of its newest commit."""

    commits_per_hour: float
    quads_per_commit: float
    last_ms: int


@dataclass(slots=True)
class _GraphActivity:
    since_ms: int
    last_ms: int
    commits: float = 0.0
    quads: float = 0.0

    def at(self, now_ms: int) -> float:
        """Return the factor by which weights have decayed since the graph's last commit."""
        return float(0.5 ** (max(0, now_ms - self.last_ms) / HALF_LIFE_MS))


class ChangeRates:
    """Estimated change rates of graphs by graph key (`changes.graph_key`).

    The estimates are thread-safe; those of the least active graphs are evicted.
    """

    def __init__(self) -> None:
        self._counts: dict[str, _GraphActivity] = {}
        self._lock = threading.Lock()

    def count_commits(self, commits: Iterable[Commit]) -> None:
        """Count commits, given oldest first, in the change rates of their graphs."""
        with self._lock:
            for commit in commits:
                for key, change in commit.graphs.items():
                    self._add(key, commit.at_ms, change.added + change.removed)
                if len(self._counts) > _MOST_GRAPHS:
                    self._evict()

    def of(self, key: str, now_ms: int) -> Rate | None:
        """Return the change rate of one graph; None if no commit of the graph was counted."""
        with self._lock:
            count = self._counts.get(key)
            return None if count is None else _rate(count, now_ms)

    def most_active(self, now_ms: int, most: int) -> Mapping[str, Rate]:
        """Return the change rates of the ``most`` graphs with the most commits per hour, highest first."""
        with self._lock:
            rates = {key: _rate(count, now_ms) for key, count in self._counts.items()}
        ordered = sorted(rates.items(), key=lambda item: (-item[1].commits_per_hour, item[0]))
        return dict(ordered[:most])

    def _add(self, key: str, at_ms: int, quads: int) -> None:
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _GraphActivity(at_ms, at_ms)
        decay = count.at(at_ms)
        count.commits = count.commits * decay + 1
        count.quads = count.quads * decay + quads
        count.last_ms = max(count.last_ms, at_ms)

    def _evict(self) -> None:
        now = max(count.last_ms for count in self._counts.values())
        ordered = sorted(self._counts, key=lambda key: self._counts[key].commits * self._counts[key].at(now))
        for key in ordered[: len(ordered) // 2]:
            del self._counts[key]


def _rate(count: _GraphActivity, now_ms: int) -> Rate:
    # At a steady rate of r commits an hour the sum of weights approaches r * H / ln 2 (H: the half-life in
    # hours); at the age a the sum is that limit times 1 - 2^(-a/H).
    age = max(_LEAST_AGE_MS, now_ms - count.since_ms)
    full = HALF_LIFE_MS / _HOUR_MS / _LN2 * (1 - 0.5 ** (age / HALF_LIFE_MS))
    return Rate(count.commits * count.at(now_ms) / full, count.quads / count.commits, count.last_ms)
