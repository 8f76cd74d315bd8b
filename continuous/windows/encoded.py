"""The content of a window as term ids: what the native engine's windows hold.

An element is encoded once, whoever reads it: its keys are remembered on it. The key of a quad is (s, p, o),
with the graph's id behind it when it is in a named graph; a predicate that no query asks for has no key.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple, Protocol
from weakref import WeakSet

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.dictionary import TermDictionary

from ..algebra.reify import REIFIES
from ..durable.packing import QuadNumbers
from ..element import Element
from ..rows import EMPTY, Delta, IdRow
from .snapshots import ContentSnapshot

Keys = tuple[IdRow | None, ...]
WindowKey = tuple[NamedNode, NamedNode | None]
"""A window and, where its stream is a variable, one of its streams."""
Predicates = frozenset[int] | None
"""Ids of the predicates that a query's patterns can match; None for every predicate."""
LEVELS = 2
"""Levels of keepers."""


class ElementCoder:
    """Turns the quads of elements into keys, for all windows of an engine.

    ``stamp`` changes whenever the keys remembered on elements may not be used any more: ids were forgotten,
    or a query asks for more predicates.
    """

    def __init__(self, terms: TermDictionary) -> None:
        self.terms = terms
        self.stamp = object()
        self.reifies = terms.ids[REIFIES]
        terms.pin([self.reifies])
        self.met_reifier = False
        # Whatever keeps keys: their ids must not be forgotten.
        self._keepers: WeakSet[Keeper] = WeakSet()
        # A query that ends while rubbish is collected may end inside `want` in the same thread.
        self._lock = threading.RLock()
        self._wanted: Counter[int] = Counter([self.reifies])
        self._all = 0

    def want(self, predicates: Predicates) -> None:
        """A query asks for these predicates."""
        with self._lock:
            if predicates is None:
                self._all += 1
                new = self._all == 1
            else:
                new = any(predicate not in self._wanted for predicate in predicates)
                self._wanted.update(predicates)
            if new:
                self.renew()

    def unwant(self, predicates: Predicates) -> None:
        """The query has ended."""
        with self._lock:
            if predicates is None:
                self._all -= 1
                return
            for predicate in predicates:
                self._wanted[predicate] -= 1
                if not self._wanted[predicate]:
                    del self._wanted[predicate]

    def held(self) -> Iterator[IdRow]:
        """The keys that windows hold, those of lower `Keeper.level` first (`quadrill.store.sweep`)."""
        for level in range(LEVELS):
            with self._lock:
                keepers = [each for each in self._keepers if each.level == level]
            yield from chain.from_iterable(keeper.held() for keeper in keepers)

    def keep(self, keeper: Keeper) -> None:
        """The ids of these keys are needed as long as the keeper lives."""
        with self._lock:
            self._keepers.add(keeper)

    def renew(self) -> None:
        """Keys that are remembered hold no longer."""
        self.stamp = object()

    def keys(self, element: Element) -> Keys:
        """The keys of an element's quads, in their order."""
        stamp = self.stamp
        known = element.encoded
        if known is not None and known[0] is stamp:
            keys: Keys = known[1]
            return keys
        ids, wanted = self.terms.ids, self._wanted
        # Whoever asks for a predicate has its id; `get` gives no id to one that nobody asks for.
        find = ids.__getitem__ if self._all else ids.get
        found: list[IdRow | None] = []
        for quad in element.quads:
            subject, predicate, object_, graph = quad
            predicate_id = find(predicate)
            if predicate_id is None or not (self._all or predicate_id in wanted):
                found.append(None)
                continue
            if predicate_id == self.reifies:
                self.met_reifier = True
            row: IdRow = (ids[subject], predicate_id, ids[object_])
            found.append(row if type(graph) is DefaultGraph else (*row, ids[graph]))
        keys = tuple(found)
        object.__setattr__(element, "encoded", (stamp, keys))
        return keys

    def key(self, quad: Quad) -> IdRow:
        """The key of one quad."""
        ids = self.terms.ids
        subject, predicate, object_, graph = quad
        predicate_id = ids[predicate]
        if predicate_id == self.reifies:
            self.met_reifier = True
        row: IdRow = (ids[subject], predicate_id, ids[object_])
        return row if type(graph) is DefaultGraph else (*row, ids[graph])

    def quad(self, key: IdRow) -> Quad:
        """The quad of a key."""
        terms = self.terms.terms
        graph = terms[key[3]] if len(key) == 4 else DefaultGraph()
        return Quad(terms[key[0]], terms[key[1]], terms[key[2]], graph)  # type: ignore[arg-type]


class Keeper(Protocol):
    """Something that keeps keys.

    ``level``: 0 for contents of windows, 1 for changes that were taken from them for several plans.
    """

    level: int

    def held(self) -> Iterable[IdRow]:
        """Every key whose ids are still needed, read in pieces while keys come and go."""
        ...


class Taken(NamedTuple):
    """The change of a window since the last call.

    ``triples`` is the change of the union of its graphs (or of the default graph alone), ``quads`` that of
    the named graphs, ``keys`` both together as they came.
    """

    triples: Delta
    quads: Delta
    keys: Delta


NOTHING = Taken(EMPTY, EMPTY, EMPTY)


class HeldWindow(Protocol):
    """A window's content in term ids."""

    @property
    def inputs(self) -> tuple[str, str]:
        """The parts of a plan's input that its change is."""
        ...

    def take(self) -> Taken:
        """The change since the last call."""
        ...

    def before(self) -> list[IdRow]:
        """The content as it was at the last `take`."""
        ...

    def before_change(self, taken: Taken) -> list[IdRow]:
        """The content as it was before what was taken last."""
        ...


class EncodedContent:
    """`LiveContent` over keys: a set with the counts of its occurrences.

    ``union`` says what triples outside GRAPH match: the union of all graphs, where a triple in two graphs is
    there once, or the default graph. ``inputs`` names the two parts of a change in a plan.
    Law: the running sum of the changes is the set of the live elements.
    """

    __slots__ = (
        "__weakref__", "_changes", "_coder", "_counts", "_named", "_triples", "_union", "_wanted",
        "inputs", "key", "occurrences", "quad",
    )  # fmt: skip
    level = 0

    def __init__(self, coder: ElementCoder, wanted: Predicates = None, *, union: bool = True) -> None:
        self._coder = coder
        self._wanted = None if wanted is None else wanted | {coder.reifies}
        self._union = union
        self._counts: dict[IdRow, int] = {}
        self._changes: Delta = {}
        # With the first quad of a named graph: how many live quads each triple has.
        self._named = False
        self._triples: Delta | None = None
        self.inputs = ("", "")
        self.occurrences = 0
        self.key, self.quad = coder.key, coder.quad
        coder.keep(self)

    def keys(self, element: Element) -> Sequence[IdRow | None]:
        """The keys of an element's quads; None for those that the query cannot match."""
        keys, wanted = self._coder.keys(element), self._wanted
        if wanted is None:
            return keys
        return [None if key is None or key[1] not in wanted else key for key in keys]

    def add(self, element: Element) -> None:
        """Let an element enter."""
        counts, changes, wanted = self._counts, self._changes, self._wanted
        keys = self._coder.keys(element)
        self.occurrences += len(keys)
        for key in keys:
            if key is None or (wanted is not None and key[1] not in wanted):
                continue
            count = counts.get(key)
            if count is not None:
                counts[key] = count + 1
                continue
            counts[key] = 1
            if key in changes:
                del changes[key]
            else:
                changes[key] = 1
                if len(key) == 4:
                    self._named = True

    def remove(self, element: Element) -> None:
        """Let an element leave."""
        counts, changes, wanted = self._counts, self._changes, self._wanted
        keys = self._coder.keys(element)
        self.occurrences -= len(keys)
        for key in keys:
            if key is None or (wanted is not None and key[1] not in wanted):
                continue
            count = counts[key] - 1
            if count:
                counts[key] = count
                continue
            del counts[key]
            if key in changes:
                del changes[key]
            else:
                changes[key] = -1

    def enter(self, key: IdRow | None, event_time: int = 0) -> None:
        """Let one occurrence of a quad enter."""
        self.occurrences += 1
        if key is None:
            return
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        if not count:
            self._note(key, 1)
            self._named = self._named or len(key) == 4

    def begin(self, keys: Sequence[IdRow]) -> None:
        """Let one occurrence of each of these, all different, enter an empty content."""
        self._counts, self._changes = dict.fromkeys(keys, 1), dict.fromkeys(keys, 1)
        self.occurrences = len(keys)
        self._named = any(len(key) == 4 for key in keys)

    def leave(self, key: IdRow | None) -> None:
        """Let one occurrence of a quad leave."""
        self.occurrences -= 1
        if key is None:
            return
        count = self._counts[key] - 1
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
            self._note(key, -1)

    @property
    def content(self) -> Mapping[IdRow, int]:
        """The live keys, each with the number of its occurrences."""
        return self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def take(self) -> Taken:
        """The change since the last call, as triples and as quads of named graphs."""
        changes = self._changes
        if not changes:
            return NOTHING
        self._changes = {}
        if not self._named:
            return Taken(changes, EMPTY, changes)
        return self._split(changes)

    def before(self) -> list[IdRow]:
        """The content as it was at the last `take`."""
        return self._before(self._changes)

    def before_change(self, taken: Taken) -> list[IdRow]:
        """The content as it was before what was taken last."""
        return self._before(taken.keys)

    def _before(self, changes: Delta) -> list[IdRow]:
        stayed = [key for key in self._counts if key not in changes]
        return stayed + [key for key, weight in changes.items() if weight < 0]

    def held(self) -> Iterator[IdRow]:
        """Every key whose ids are still needed: those in the window, then those that left or entered."""
        yield from list(self._counts)
        yield from list(self._changes)

    def _note(self, key: IdRow, weight: int) -> None:
        if key in self._changes:
            del self._changes[key]
        else:
            self._changes[key] = weight

    def _split(self, changes: Delta) -> Taken:
        triples: Delta = {}
        quads: Delta = {}
        counts = self._triples
        if counts is None:
            counts = self._triples = {}
            for key in self._before(changes):
                if self._union or len(key) == 3:
                    counts[key[:3]] = counts.get(key[:3], 0) + 1
        for key, weight in changes.items():
            row = key
            if len(key) == 4:
                quads[key] = weight
                if not self._union:
                    continue
                row = key[:3]
            before = counts.get(row, 0)
            after = before + weight
            if after:
                counts[row] = after
            else:
                del counts[row]
            if not before or not after:
                if row in triples:
                    del triples[row]
                else:
                    triples[row] = 1 if after else -1
        if not self._counts:
            self._named, self._triples = False, None
        return Taken(triples, quads, changes)

    # --- in a checkpoint ------------------------------------------------------------------------

    def fork(self) -> EncodedContent:
        """A content of its own that holds the same."""
        other = copy(self)
        other._counts, other._changes = dict(self._counts), dict(self._changes)
        other._triples = None if self._triples is None else dict(self._triples)
        self._coder.keep(other)
        return other

    @property
    def shape(self) -> tuple[Predicates, bool]:
        """The predicates of a stream that it keeps."""
        return self._wanted, self._union

    def snapshot(self) -> ContentSnapshot:
        """The same in quads: ids mean nothing after a restart."""
        return ContentSnapshot(self._quads(self._counts), self._quads(self._changes), self.occurrences)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Hold, in an empty content, what a snapshot says."""
        if snapshot.latest is not None:
            self._take_over(snapshot.counts, snapshot.latest)
            return
        key = self._coder.key
        self._counts = {key(quad): count for quad, count in snapshot.counts.items()}
        self._changes = {key(quad): weight for quad, weight in snapshot.changes.items()}
        self.occurrences = snapshot.occurrences
        self._named = any(len(each) == 4 for each in chain(self._counts, self._changes))

    def _quads(self, numbers: Mapping[IdRow, int]) -> QuadNumbers:
        quad = self._coder.quad
        return QuadNumbers((quad(key), number) for key, number in numbers.items())

    def _take_over(self, counts: Mapping[Quad, int], latest: Mapping[Quad, int]) -> None:
        """Hold what a window held in quads; that is no change.

        So it is after a restart, when another version of this program evaluated the query by definition.
        """
        for quad, count in counts.items():
            key = self.key(quad)
            wanted = self._wanted is None or key[1] in self._wanted
            for _ in range(count):
                self.enter(key if wanted else None, latest[quad])
        self.take()
