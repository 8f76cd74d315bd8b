"""Forgetting terms in slices: a sweep of the dictionary that runs between transactions, a little at a time.

A sweep marks what must stay, in two ways:

- it walks the holders in order and marks every id that they name;
- while it runs, every id that the dictionary gives for a term is marked when it is given, and so is every id
  that is unpinned.

Holders change between two slices, so each names its places in the order in which ids flow: an id is copied
only from a place to one that comes later, or enters by being asked of the dictionary. Then nothing live is
missed. What lies before the front of the walk was there when the front passed, or came from a place before
it, or was asked for: it is marked. What lies behind the front will be met, or is gone by then. What leaves a
place while it is worked off may be marked without need, no more.

When all is marked, entries without a mark are dropped, in slices too; what is asked for again until then is
marked in time. A mark lasts for one sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol, TypeAlias

Holder: TypeAlias = Callable[[], Iterable[Iterable[int]]]
"""Names every id that it still needs, in rows. Its iterator goes on while what it reads changes."""


@dataclass(frozen=True, slots=True)
class SweepPace:
    """When ids are swept, and how many at a time.

    Dropping an id counts as eight that are met: with these a sweep ends before an eighth of its terms have
    come anew, and the next begins at three times what is live or so.

    Attributes:
        floor: so many ids, at least, make a sweep due.
        slice: ids that the slices of one turn meet, all holders together: less than a millisecond.
        least: ids that each slice meets at least.
        per_term: ids that are met for each new term.
    """

    floor: int = 65_536
    slice: int = 4_096
    least: int = 64
    per_term: int = 64


class DictionaryEntries(Protocol):
    """The dictionary as a sweep uses it."""

    def holders(self) -> list[Holder]:
        """The holders, in the order in which they were registered."""
        ...

    def take_inline(self) -> list[int]:
        """The negative ids that mappings and caches remember, which are remembered no longer."""
        ...

    def young(self) -> list[int]:
        """The entries that are not pinned."""
        ...

    def drop(self, term_ids: Iterable[int]) -> None:
        """Forget these ids, but for those that are pinned by now."""
        ...


# Dropping an id takes about as long as meeting this many.
_DROP = 8


class Sweep:
    """One sweep; `work` is called when nobody holds ids that no holder names.

    Attributes:
        marked: ids that stay.
    """

    def __init__(self, terms: DictionaryEntries, marked: set[int]) -> None:
        """Begin one; ``marked`` is empty, or has ids of the sweep before that stay once more."""
        self.marked = marked
        self._terms = terms
        self._steps = self._all_steps()
        self._units = 0

    def work(self, units: int) -> bool:
        """Do a slice as long as it takes to meet ``units`` ids; True when the sweep is done."""
        self._units = units
        for done in self._steps:
            self._units -= done
            if self._units <= 0:
                return False
        return True

    def _all_steps(self) -> Iterator[int]:
        """The whole sweep; gives after each piece of work what it took."""
        walked: set[Holder] = set()
        while waiting := [each for each in self._terms.holders() if each not in walked]:
            for holder in waiting:
                walked.add(holder)
                yield from self._mark(chain.from_iterable(holder()))
        # What holds its term can always be made again, so no mark is asked for.
        yield from self._drop(self._terms.take_inline(), frozenset())
        yield from self._drop(self._terms.young(), self.marked)

    def _mark(self, ids: Iterator[int]) -> Iterator[int]:
        met = -1
        while met:
            # A loop in C over what the slice has left.
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
    """The class of a mapping of ids while a sweep is under way, and no longer: all it gives are marked.

    It is for all sweeps of a mapping: a class is in a cycle with itself, so one for each of them would stay,
    with all that was marked, until Python looks for garbage among what is old.
    """

    def given(ids: dict[str, int], text: str) -> int:
        term_id = dict.__getitem__(ids, text)
        marked.add(term_id)
        return term_id

    return type("Marking", (kind,), {"__getitem__": given})
