"""Window contents as term ids, for the native engine.

An element is encoded as term ids once for all queries; the element caches the keys of its quads. The key of a
quad is (s, p, o) in term ids, with the graph's id appended for a named graph. A quad whose predicate no query
reads has no key.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol, Self
from weakref import WeakSet

from pyoxigraph import DefaultGraph, Quad

from quadrill.store.dictionary import TermDictionary, ids_of
from quadrill.store.documents.subject_columns import MOST_KNOWN, PredicateList, SubjectColumns
from quadrill.store.logs.packing import QuadNumbers
from quadrill.store.results import TermTexts
from quadrill.store.sweep import SweepPace

from ..algebra.reify import REIFIES
from ..expressions.values import OrderKeys, ValueTable
from ..inputs import Element
from ..rows import EMPTY, Delta, IdRow, add
from ..slices import PAUSE, SLICE
from .live import ContentSnapshot
from .window_delta import NOTHING, ColumnKeys, Columns, Keys, Predicates, WindowDelta

_EVERY = (None,)
_UNKNOWN = Columns((), ())
LEVELS = 2
"""Number of levels of `Keeper.level`, in whose order a sweep reads the keys of windows."""


class ElementCoder:
    """Encodes the quads of elements as keys, for all windows of an engine.

    ``stamp`` is a new object whenever the keys stored in elements become invalid: because a sweep deletes
    ids, or because a query reads additional predicates.
    """

    def __init__(self, terms: TermDictionary) -> None:
        self.terms = terms
        self.stamp = object()
        self.reifies = terms.ids[REIFIES]
        terms.pin([self.reifies])
        self.met_reifier = False
        # The objects that contain keys of quads, whose term ids the sweep must not delete.
        self._keepers: WeakSet[Keeper] = WeakSet()
        # The lock is reentrant: garbage collection may finalize a query, and call `unwant`, inside `want`.
        self._lock = threading.RLock()
        # For each predicate id, how often `want` has registered the predicate; the key None stands for all
        # predicates.
        self._wanted: Counter[int | None] = Counter([self.reifies])
        # The ids of the wanted predicates by the predicates' N-Triples text; the queries pin these ids.
        self._texts = {str(REIFIES): self.reifies}
        self._columns: dict[PredicateList, Columns | None] = {}

    def want(self, predicates: Predicates) -> None:
        """Register the predicates that a new query reads from windows."""
        asked = _EVERY if predicates is None else predicates
        with self._lock:
            new = any(predicate not in self._wanted for predicate in asked)
            self._wanted.update(asked)
            if new:
                texts = {str(self.terms.terms[each]): each for each in predicates or ()}
                self._texts = self._texts | texts
                self._columns = {}
                self.renew()

    def unwant(self, predicates: Predicates) -> None:
        """Unregister the predicates of a query that has ended."""
        with self._lock:
            for predicate in _EVERY if predicates is None else predicates:
                self._wanted[predicate] -= 1
                if not self._wanted[predicate]:
                    del self._wanted[predicate]
                    self._texts = {text: each for text, each in self._texts.items() if each != predicate}
                    self._columns = {}

    def _asked(self, predicates: PredicateList) -> Columns | None:
        """Return those predicates of an element that queries read; None for reifiers or if all are read."""
        known = self._columns
        found = known.get(predicates, _UNKNOWN)
        if found is _UNKNOWN:
            texts = self._texts
            places = tuple([at for at, text in enumerate(predicates.texts) if text in texts])
            found = Columns(places, tuple([texts[predicates.texts[at]] for at in places]))
            if None in self._wanted or self.reifies in found.predicates:
                found = None
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[predicates] = found
        return found

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the keys in windows, in the order of `Keeper.level`, to a sweep (`quadrill.store.sweep`)."""
        for level in range(LEVELS):
            with self._lock:
                keepers = [each for each in self._keepers if each.level == level]
            yield from chain.from_iterable(keeper.referenced_rows() for keeper in keepers)

    def keep(self, keeper: Keeper) -> None:
        """Protect the term ids in a keeper's keys from the sweep while the keeper object is alive."""
        with self._lock:
            self._keepers.add(keeper)

    def renew(self) -> None:
        """Invalidate the encoded keys that elements cache."""
        self.stamp = object()

    def keys(self, element: Element) -> Keys:
        """Return the encoded keys of an element's quads, in the order of the quads."""
        known = element.encoded
        if known is None or known[0] is not self.stamp:
            self.encode((element,))
            known = element.encoded
        assert known is not None
        keys: Keys = known[1]
        return keys

    def encode(self, elements: Sequence[Element]) -> int:
        """Encode elements' keys; return how many of the first elements are plain triples.

        Plain triples are triples of the default graph without reifiers. Encoding of elements stops after the
        first element with a reifier or a named graph.
        """
        stamp, ids, reifies = self.stamp, self.terms.texts, self.reifies
        wanted = ids if None in self._wanted else self._texts
        for place, element in enumerate(elements):
            known = element.encoded
            if known is not None and known[0] is stamp:
                if known[2]:
                    continue
                return place
            keys: list[IdRow | None]
            statements = element.statements
            if (
                type(statements) is SubjectColumns
                and (asked := self._asked(statements.predicates)) is not None
            ):
                objects, subject_id = statements.objects, ids[statements.subject] if asked.places else 0
                object_ids = ids_of([objects[at] for at in asked.places], ids)
                columns = ColumnKeys(subject_id, asked, object_ids, len(objects))
                element.encoded = stamp, columns, True, subject_id, asked
                continue
            keys, plain, last, subject_id, subjects = [], True, "", 0, 0
            for subject, predicate, object_, graph in statements:
                # The id of a predicate that a query reads is registered, so the encoder knows the id of the
                # predicate's text.
                predicate_id = ids[predicate] if wanted is ids else wanted.get(predicate)
                if predicate_id is None:
                    keys.append(None)
                    continue
                if predicate_id == reifies:
                    self.met_reifier, plain = True, False
                if subject != last:
                    last, subject_id, subjects = subject, ids[subject], subjects + 1
                row: IdRow = (subject_id, predicate_id, ids[object_])
                if graph:
                    row, plain = (*row, ids[graph]), False
                keys.append(row)
            element.encoded = stamp, tuple(keys), plain, subject_id if subjects == 1 else 0, None
            if not plain:
                return place
        return len(elements)

    def key(self, quad: Quad) -> IdRow:
        """Return the key of one quad: its term ids."""
        ids = self.terms.ids
        subject, predicate, object_, graph = quad
        predicate_id = ids[predicate]
        if predicate_id == self.reifies:
            self.met_reifier = True
        row: IdRow = (ids[subject], predicate_id, ids[object_])
        return row if type(graph) is DefaultGraph else (*row, ids[graph])

    def quad(self, key: IdRow) -> Quad:
        """Return the quad of a key of term ids."""
        terms = self.terms.terms
        graph = terms[key[3]] if len(key) == 4 else DefaultGraph()
        return Quad(terms[key[0]], terms[key[1]], terms[key[2]], graph)  # type: ignore[arg-type]


class Keeper(Protocol):
    """An object that contains keys of quads, as tuples of term ids.

    The ``level`` of a keeper of keys is 0 for contents of windows, and 1 for deltas that were taken from
    windows for several plans.
    """

    level: int

    def referenced_rows(self) -> Iterable[IdRow]:
        """Yield every key whose ids the sweep must not delete; keys may be added and removed meanwhile."""
        ...


class EngineTerms:
    """The term dictionary of an engine and its caches, shared by all native queries of the engine."""

    def __init__(self, pace: SweepPace | None = None) -> None:
        self.dictionary = TermDictionary(pace)
        self.values = ValueTable(self.dictionary)
        self.texts = TermTexts(self.dictionary, PAUSE)
        self.keys = OrderKeys(self.values)
        self.coder = ElementCoder(self.dictionary)
        self.dictionary.hold(self.coder.referenced_rows)
        # The lock is held while a query is planned, because the sweep does not know the ids of such a query.
        self.planning = threading.Lock()

    def tidy(self) -> None:
        """Run one slice of the term dictionary's sweep if it is due; called between transactions.

        No sweep runs while an evaluation is suspended, because term ids may be only in the evaluation's local
        variables.
        """
        if self.dictionary.due and not SLICE.inside and self.planning.acquire(blocking=False):
            try:
                if not self.dictionary.sweeping:
                    # The cached keys of elements become invalid, so that elements ask the dictionary for ids
                    # again, which marks these ids as used.
                    self.coder.renew()
                self.dictionary.sweep_slice()
            finally:
                self.planning.release()


class EncodedContent:
    """`LiveQuads` over keys of term ids: the set of live keys with the counts of their occurrences.

    ``counts`` has the number of occurrences of the window's keys with a ``wanted`` predicate, and ``changes``
    is the delta since the last `take`. ``named`` says that the window has had a quad of a named graph since
    it was empty. ``alone`` maps a subject to the keys of one element that has one triple for each wanted
    predicate, if these are all triples of the subject; such keys are not in ``counts``.

    ``union`` says that patterns outside GRAPH match the union of all graphs, in which a triple of two graphs
    occurs once; otherwise these patterns match the default graph. With ``by_text``, elements that replace the
    whole content become ``waiting``, and are encoded only when an operator reads the keys. The evaluator that
    sets ``by_text`` must report the ``waiting`` elements before others replace them. The sum of all deltas of
    a window is the set of live keys.
    """

    level = 0
    by_text = False
    waiting: Sequence[Element] = ()

    def __init__(self, coder: ElementCoder, wanted: Predicates = None, *, union: bool = True) -> None:
        self._coder = coder
        self.wanted = None if wanted is None else wanted | {coder.reifies}
        self._union = union
        self.counts: dict[IdRow, int] = {}
        self.changes: Delta = {}
        self.alone: dict[int, Keys] = {}
        # The number of live quads of each triple, counted from the first quad of a named graph on.
        self.named = False
        self._triples: Delta | None = None
        self.occurrences = 0
        coder.keep(self)

    @property
    def shape(self) -> tuple[Predicates, bool]:
        """A key that is equal for two window contents if they select the same quads of a stream."""
        return self.wanted, self._union

    @property
    def content(self) -> dict[IdRow, int]:
        """The live keys of the window with their occurrence counts."""
        self.encode_waiting()
        self._count(*self.alone)
        return self.counts

    def __len__(self) -> int:
        texts = None if self.wanted is None else {self._coder.terms.text_of[each] for each in self.wanted}
        waiting = {quad for each in self.waiting for quad in each.statements if not texts or quad[1] in texts}
        return len(self.counts) + len(waiting) + len(self.alone) * (len(self.wanted or ()) - 1)

    def encode_waiting(self) -> None:
        """Encode the ``waiting`` elements of the window's content as keys."""
        if self.waiting:
            waiting, self.waiting, self.occurrences = self.waiting, (), 0
            self.add(*waiting)

    def _count(self, *subjects: int) -> None:
        """Move the keys of subjects from ``alone`` to ``counts``."""
        for subject in subjects:
            self.counts.update(dict.fromkeys(self._wanted(self.alone.pop(subject)), 1))

    def _wanted(self, keys: Keys) -> list[IdRow]:
        return [key for key in keys if key is not None and (self.wanted is None or key[1] in self.wanted)]

    def replace(self, leaving: Sequence[Element], entering: Sequence[Element]) -> None:
        """Replace all elements of the window's content by other elements."""
        if not self.by_text:
            # Added elements are applied before removed ones, so that a quad in both causes no change.
            self.add(*entering)
            self.remove(*leaving)
            return
        if self.waiting:
            self.occurrences = 0
        else:
            self.remove(*leaving)
        self.waiting = entering
        self.occurrences += sum([len(each.statements) for each in entering])

    def add(self, *elements: Element) -> None:
        """Add elements."""
        self.encode_waiting()
        counts, changes, wanted, coder = self.counts, self.changes, self.wanted, self._coder
        plain = coder.encode(elements)
        for place, element in enumerate(elements):
            known = element.encoded if place < plain else None
            keys = coder.keys(element) if known is None else known[1]
            self.occurrences += len(keys)
            for key in keys:
                if key is None or (wanted is not None and key[1] not in wanted):
                    continue
                if key[0] in self.alone:
                    self._count(key[0])
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
                        self.named = True

    def remove(self, *elements: Element) -> None:
        """Remove elements."""
        self.encode_waiting()
        counts, changes, wanted, coder = self.counts, self.changes, self.wanted, self._coder
        stamp = coder.stamp
        for element in elements:
            known = element.encoded
            keys = known[1] if known is not None and known[0] is stamp else coder.keys(element)
            self.occurrences -= len(keys)
            for key in keys:
                if key is None or (wanted is not None and key[1] not in wanted):
                    continue
                if key[0] in self.alone:
                    self._count(key[0])
                count = counts[key] - 1
                if count:
                    counts[key] = count
                    continue
                del counts[key]
                if key in changes:
                    del changes[key]
                else:
                    changes[key] = -1

    def apply(self, keys: Delta) -> None:
        """Add and remove occurrences of keys in the window's content."""
        counts = self.content
        for key, weight in keys.items():
            before = key in counts
            self.occurrences += weight
            add(counts, key, weight)
            if before != (key in counts):
                add(self.changes, key, -1 if before else 1)
                self.named = self.named or len(key) == 4

    # --- its changes ----------------------------------------------------------------------------

    def take(self) -> WindowDelta:
        """Return and reset the content's delta since the last call, as triples and quads of named graphs."""
        self.encode_waiting()
        changes = self.changes
        if not changes:
            return NOTHING
        self.changes = {}
        if not self.named:
            return WindowDelta(changes, EMPTY, changes)
        return self._split(changes)

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """Return the window's content as of the last `take`, or before the delta ``taken``."""
        changes = self.changes if taken is None else taken
        stayed = [key for key in self.content if key not in changes]
        return stayed + [key for key, weight in changes.items() if weight < 0]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield every key whose term ids are needed: keys in the window first, then keys of the delta."""
        # The keys of subjects in one element (``alone``) come first, because an update may move them to
        # ``counts`` meanwhile.
        for keys in list(self.alone.values()):
            yield from self._wanted(keys)
        yield from list(self.counts)
        yield from list(self.changes)

    def _split(self, changes: Delta) -> WindowDelta:
        triples: Delta = {}
        quads: Delta = {}
        counts = self._triples
        if counts is None:
            counts = self._triples = {}
            for key in self.before(changes):
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
        if not self.counts:
            self.named, self._triples = False, None
        return WindowDelta(triples, quads, changes)

    # --- elsewhere ------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(other, name, dict(value) if isinstance(value, dict) else value)
        self._coder.keep(other)
        return other

    def snapshot(self) -> ContentSnapshot:
        """Return the window's content as quads for a checkpoint, as ids are not valid after a restart."""
        return ContentSnapshot(self._quads(self.content), self._quads(self.changes), self.occurrences)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Fill an empty window content from a snapshot in a checkpoint.

        A snapshot of `LiveQuads` comes from another version of the server that used the reference evaluator.
        """
        if snapshot.latest is not None:
            for quad, count in snapshot.counts.items():
                for _ in range(count):
                    self.add(Element.of((quad,), snapshot.latest[quad], 0))
            self.take()
            return
        key = self._coder.key
        self.counts = {key(quad): count for quad, count in snapshot.counts.items()}
        self.changes = {key(quad): weight for quad, weight in snapshot.changes.items()}
        self.occurrences = snapshot.occurrences
        self.named = any(len(each) == 4 for each in chain(self.counts, self.changes))

    def _quads(self, numbers: Mapping[IdRow, int]) -> QuadNumbers:
        quad = self._coder.quad
        return QuadNumbers((quad(key), number) for key, number in numbers.items())
