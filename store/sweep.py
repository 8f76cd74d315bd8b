"""Incremental garbage collection of the term dictionary, in slices between transactions.

A sweep of the term dictionary marks live ids in two ways:

- the sweep walks the holders in order and marks every id that the holders name;
- during the sweep, every id that the dictionary returns for a term is marked, and so is every unpinned id.

Holders of ids change between two slices, so each holder lists its containers in the order in which ids flow:
an id is copied only to a later container, or comes from the dictionary. The sweep therefore misses no term id
that is in use. An id in a container that the walk has passed was there during the walk, came from an earlier
container, or came from the dictionary; in all cases the id is marked. The sweep's walk will reach the ids in
later containers. An id that leaves a holder's container during the walk may be marked unnecessarily.

After the marking of live ids, unmarked entries are dropped, in slices too; ids returned by the dictionary
before their drop are marked in time. The mark of a live id is valid for one sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol, TypeAlias

Holder: TypeAlias = Callable[[], Iterable[Iterable[int]]]
"""Returns the rows of all ids that a holder needs; the iterator must tolerate changes between slices."""


@dataclass(frozen=True, slots=True)
class SweepPace:
    """The limits that control when a sweep of term ids begins and how long its slices are.

    In a sweep, dropping one term id counts as much work as marking eight ids. With the default limits, a
    sweep ends before the dictionary has grown by an eighth, and the next sweep begins at about three times
    the live ids.

    Attributes:
        floor: the minimum number of unpinned ids at which a sweep begins.
        slice: the ids that the slices of one task mark in total, in less than a millisecond.
        least: the minimum number of ids that each slice marks.
        per_term: the number of ids that a slice marks for each new term.
    """

    floor: int = 65_536
    slice: int = 4_096
    least: int = 64
    per_term: int = 64


class DictionaryEntries(Protocol):
    """The interface of the term dictionary that a sweep uses."""

    def holders(self) -> list[Holder]:
        """Return the holders of term ids in the order of registration."""
        ...

    def take_inline(self) -> list[int]:
        """Return and clear the list of inline term ids in mappings and caches."""
        ...

    def young(self) -> list[int]:
        """Return the unpinned positive term ids."""
        ...

    def drop(self, term_ids: Iterable[int]) -> None:
        """Forget term ids, except ids that were pinned meanwhile."""
        ...


# About the number of term ids that a sweep can mark in the time that dropping one id takes.
_DROP = 8


class Sweep:
    """One sweep of the term dictionary; call `work` only while holders name all ids in use.

    Attributes:
        marked: ids of terms that stay in the dictionary.
    """

    def __init__(self, terms: DictionaryEntries, marked: set[int]) -> None:
        """Begin a sweep; term ids in ``marked`` survive this sweep."""
        self.marked = marked
        self._terms = terms
        self._steps = self._all_steps()
        self._units = 0

    def work(self, units: int) -> bool:
        """Execute a slice of the sweep that marks ``units`` ids; return True if the sweep is complete."""
        self._units = units
        for done in self._steps:
            self._units -= done
            if self._units <= 0:
                return False
        return True

    def _all_steps(self) -> Iterator[int]:
        """Execute the sweep step by step, and yield the cost of each step in marked ids."""
        walked: set[Holder] = set()
        while waiting := [each for each in self._terms.holders() if each not in walked]:
            for holder in waiting:
                walked.add(holder)
                yield from self._mark(chain.from_iterable(holder()))
        # Inline term ids contain their terms and can be rebuilt, so they are dropped even if marked.
        yield from self._drop(self._terms.take_inline(), frozenset())
        yield from self._drop(self._terms.young(), self.marked)

    def _mark(self, ids: Iterator[int]) -> Iterator[int]:
        met = -1
        while met:
            # One C-level loop marks the ids of a holder that fit in the slice.
            piece = list(islice(ids, self._units))
            self.marked.update(piece)
            met = len(piece)
            yield max(met, 1)

    def _drop(self, ids: list[int], kept: Set[int]) -> Iterator[int]:
        begin = 0
        while begin < len(ids):
            piece = ids[begin : begin + max(1, self._units // _DROP)]
            begin += len(piece)
            self._terms.drop([each for each in piece if each not in kept])
            yield _DROP * len(piece)


def marking(kind: type[dict[str, int]], marked: set[int]) -> type[dict[str, int]]:
    """Return a dict class for use during a sweep, which marks every id that a look-up returns.

    One dict class serves all sweeps of a mapping: a class is part of a reference cycle, so a class for each
    sweep would stay in memory, with all marks, until Python's full garbage collection.
    """

    def given(ids: dict[str, int], text: str) -> int:
        term_id = dict.__getitem__(ids, text)
        marked.add(term_id)
        return term_id

    return type("Marking", (kind,), {"__getitem__": given})
