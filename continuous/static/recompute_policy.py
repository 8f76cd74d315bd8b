"""Whether deltas of a table would take too much of the writers' time, by how often its graphs change.

    share = commits an hour of the graphs that the part reads * seconds that this commit's keys take / 3600

Over the limit the rows are read anew by a thread of their own: commits that come meanwhile cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import DefaultGraph

from quadrill.store.changes.commit import graph_key

from ..algebra.graphs import graphs_read

if TYPE_CHECKING:
    from quadrill.store.quads.rates import ChangeRates

    from .table import SharedTable

_MOST_GRAPHS = 50
_HOUR_S = 3_600


class Steering:
    """The rule of one engine. Called by writers.

    Attributes:
        rates: how often each graph changes; None knows nothing, and no table is over the limit.
        most_share: the limit, of the writers' time; 0 for none.
    """

    def __init__(self, rates: ChangeRates | None = None, most_share: float = 0.0) -> None:
        self.rates = rates
        self.most_share = most_share

    def why_anew(self, table: SharedTable, keys: int, key_s: float, now_ms: int) -> str | None:
        """Why the rows are to be read anew at a commit with so many keys; None when they are not.

        Args:
            table: what the commit touches.
            keys: how many rows' keys it does.
            key_s: seconds that one of them takes.
            now_ms: when the commit was made.
        """
        if self.rates is None or not self.most_share:
            return None
        seconds = keys * key_s
        # A table that is read in less time is not worth falling behind for.
        if seconds * _HOUR_S < self.most_share or table.took_s < seconds:
            return None
        hourly = commits_per_hour(table, self.rates, now_ms)
        share = hourly * seconds / _HOUR_S
        if share <= self.most_share:
            return None
        return (
            f"{keys} keys at {hourly:.0f} commits an hour would take {share:.2f} of the writers' time, "
            f"the limit is {self.most_share:g}"
        )


def commits_per_hour(table: SharedTable, rates: ChangeRates, now_ms: int) -> float:
    """Of the graphs that the part of a table reads, together."""
    reads = graphs_read(table.part.pattern)
    keys = {graph_key(each) for each in reads.names}
    if reads.default:
        keys |= {graph_key(each) for each in table.scope.default or (DefaultGraph(),)}
    if reads.every:
        known = rates.liveliest(now_ms, _MOST_GRAPHS) if table.scope.named is None else ()
        keys |= set(known) | {graph_key(each) for each in table.scope.named or ()}
    found = (rates.of(key, now_ms) for key in keys)
    return sum(rate.commits_per_hour for rate in found if rate is not None)
