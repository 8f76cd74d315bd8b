"""A cache of look-ups of a rule set in the committed dataset, by the predicates that they depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import chain, islice
from typing import TypeVar

from pyoxigraph import NamedNode

from .facts import Fact, Pattern, Row
from .single_facts import SingleFacts

_MOST_ENTRIES = 20_000
"""Maximum number of cached entries of one rule set; about 10 MB."""
_LARGEST_ENTRY = 100
"""Maximum number of facts or rows of a cached entry."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Matches = dict[tuple[Pattern, Pattern], Collection[Fact]]


class MatchCache:
    """A cache of matches of patterns with a predicate, and of the solutions of the schema parts of rules.

    A commit removes the entries that depend on a predicate of a quad that it changes. So commits that do not
    change the schema look the schema up in the cache instead of the store.

    Attributes:
        changed: the ids of the predicates of quads that the current change adds or removes.
        usable: True if the dataset before the current change is the committed one.
        idle: predicates whose quads affect no inferred triple while the schema stays as it is. A commit of
            only such quads does not begin a change and would not remove cached entries, so matches of these
            predicates are not cached.
    """

    def __init__(self, schema: frozenset[int] = frozenset(), single: SingleFacts | None = None) -> None:
        """Create an empty cache.

        Args:
            schema: the predicates that decide which other ones are idle.
            single: consequences of single facts, which the cache clears when their schema changes.
        """
        self.changed: set[int] = set()
        self.usable = False
        self.idle: set[NamedNode] = set()
        self._matches: dict[int, Matches] = {}
        self._rows: dict[frozenset[int], dict[Hashable, Collection[Row]]] = {}
        self._idle_ids: set[int] = set()
        self._schema = schema
        self._single = single
        self._size = 0

    def begin(self, *, usable: bool) -> None:
        """Begin a change; ``usable`` is True if the dataset before it is the committed one."""
        self.changed.clear()
        self.usable = usable

    def end(self) -> None:
        """End a change: remove the entries that depend on the predicates that it has changed."""
        changed = self.changed
        for predicate in changed:
            self._size -= len(self._matches.pop(predicate, ()))
        for predicates in [each for each in self._rows if not each.isdisjoint(changed)]:
            self._size -= len(self._rows.pop(predicates))
        if not self._schema.isdisjoint(changed):
            self._clear_idle()
        if self._single is not None:
            self._single.changed(changed)
        self.usable = False

    def clear(self) -> None:
        """Remove all entries."""
        self._matches.clear()
        self._rows.clear()
        self._clear_idle()
        if self._single is not None:
            self._single.clear()
        self._size = 0

    def table(self, predicate: int) -> Matches | None:
        """Return the cached matches of a predicate by subject and object; None if the cache is not usable."""
        if not self.usable or predicate in self.changed or predicate in self._idle_ids:
            return None
        table = self._matches.get(predicate)
        if table is None:
            table = self._matches[predicate] = {}
        return table

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return rows that depend on some predicates from the cache, or from ``find``; see `Facts.kept`."""
        if not self.usable or not predicates.isdisjoint(self.changed):
            return find()
        table = self._rows.get(predicates)
        if table is None:
            table = self._rows[predicates] = {}
        rows = table.get(key)
        if rows is None:
            further = iter(find())
            rows = list(islice(further, _LARGEST_ENTRY + 1))
            if len(rows) > _LARGEST_ENTRY:
                return chain(rows, further)
            self.add(table, key, rows)
        return rows

    def add(self, table: dict[K, Collection[V]], key: K, found: Collection[V]) -> None:
        """Add an entry to a table unless the entry is large; remove all entries if there are too many."""
        if len(found) > _LARGEST_ENTRY:
            return
        table[key] = found
        self._size += 1
        if self._size > _MOST_ENTRIES:
            self.clear()

    def add_idle(self, predicate: NamedNode, predicate_id: int) -> None:
        """Record an idle predicate of the current change; the change must not affect the schema."""
        if len(self.idle) >= _MOST_ENTRIES:
            self._clear_idle()
        self.idle.add(predicate)
        self._idle_ids.add(predicate_id)

    def _clear_idle(self) -> None:
        self.idle.clear()
        self._idle_ids.clear()
