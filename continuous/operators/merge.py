"""Step 5 of 8: the RDF merge of several windows and of background triples, as C-SPARQL's patterns see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..rows import EMPTY, Delta, IdRow, Schema, add

TRIPLE = ("s", "p", "o")


class Merge:
    """The set of the triples that some input has.

    Shapes: in, any number of relations with a triple in three of their columns; out, a set of triples.
    Law: out = [sum of the inputs > 0]. Keeps the number of occurrences of each triple.
    Source: https://www.w3.org/TR/rdf11-mt/#dfn-merge; C-SPARQL merges its windows with the FROM graphs.
    """

    def __init__(self, columns: Sequence[Sequence[int]]) -> None:
        """``columns``: for each input the places of subject, predicate and object."""
        self.schema = Schema(TRIPLE, frozenset(TRIPLE))
        self._columns = [_rearranged(each) for each in columns]
        self._counts: Delta = {}

    def step(self, *changes: Delta) -> Delta:
        """Triples that came with their first occurrence or went with their last."""
        out: Delta = {}
        counts = self._counts
        for columns, change in zip(self._columns, changes, strict=True):
            for row, weight in change.items():
                if columns is not None:
                    row = (row[columns[0]], row[columns[1]], row[columns[2]])
                before = counts.get(row, 0)
                after = before + weight
                if after:
                    counts[row] = after
                else:
                    del counts[row]
                if not before or not after:
                    add(out, row, 1 if after else -1)
        return out or EMPTY

    def held(self) -> list[IdRow]:
        """The triples."""
        return list(self._counts)

    def size(self) -> int:
        """How many triples there are."""
        return len(self._counts)


class TimedMerge:
    """The triples that some input has, each with its greatest event time.

    Shapes: in, relations (subject, predicate, object, time) of windows, and last one of triples without a
    time; out, a set (subject, predicate, object, time), where time is unbound when no window has the triple.
    Law: out = {(s, p, o, greatest time of (s, p, o) in the inputs)}.
    """

    def __init__(self, untimed: Sequence[int] | None, number_of: Callable[[int], int]) -> None:
        """Make one.

        Args:
            untimed: places of subject, predicate and object in the last input; None: every input has times.
            number_of: the milliseconds of a time's id.
        """
        names = (*TRIPLE, "time")
        self.schema = Schema(names, frozenset(TRIPLE if untimed is not None else names))
        self._untimed = None if untimed is None else tuple(untimed)
        self._number_of = number_of
        # For each triple how many inputs have it with each time.
        self._times: dict[IdRow, dict[int, int]] = {}

    def step(self, *changes: Delta) -> Delta:
        """Triples whose greatest time is another one now."""
        before: dict[IdRow, int | None] = {}
        for place, change in enumerate(changes):
            untimed = self._untimed if place == len(changes) - 1 else None
            for row, weight in change.items():
                if untimed is None:
                    triple, time = row[:3], row[3]
                else:
                    triple, time = (row[untimed[0]], row[untimed[1]], row[untimed[2]]), 0
                if triple not in before:
                    before[triple] = self._greatest(triple)
                times = self._times.setdefault(triple, {})
                count = times.get(time, 0) + weight
                if count:
                    times[time] = count
                else:
                    del times[time]
        out: Delta = {}
        for triple, old in before.items():
            new = self._greatest(triple)
            if new == old:
                continue
            if old is not None:
                out[(*triple, old)] = -1
            if new is not None:
                out[(*triple, new)] = 1
        return out or EMPTY

    def held(self) -> list[IdRow]:
        """The triples with their times."""
        return [(*triple, *times) for triple, times in self._times.items()]

    def size(self) -> int:
        """How many triples there are."""
        return len(self._times)

    def _greatest(self, triple: IdRow) -> int | None:
        """The id of the greatest time; 0 for a triple without a time, None for one that is not there."""
        times = self._times.get(triple)
        if not times:
            self._times.pop(triple, None)
            return None
        if len(times) == 1:
            return next(iter(times))
        return max(filter(None, times), key=self._number_of)


def _rearranged(columns: Sequence[int]) -> tuple[int, ...] | None:
    """The order of columns that makes triples of rows; None where a row is its triple."""
    return None if tuple(columns) == (0, 1, 2) else tuple(columns)
