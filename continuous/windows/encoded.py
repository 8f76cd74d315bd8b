"""The content of a window as term ids: what the native engine's windows hold.

An element is encoded once, whoever reads it: its keys are remembered on it. The key of a quad is (s, p, o),
with the graph's id behind it when it is in a named graph; a predicate that no query asks for has no key.
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
from quadrill.store.documents.one_subject import MOST_KNOWN, OneSubject, PredicateList
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
        # How many queries ask for a predicate; under None, for all of them.
        self._wanted: Counter[int | None] = Counter([self.reifies])
        # The same predicates as elements have them; their queries pin them.
        self._texts = {str(REIFIES): self.reifies}
        self._columns: dict[PredicateList, Columns | None] = {}

    def want(self, predicates: Predicates) -> None:
        """A query asks for these predicates."""
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
        """The query has ended."""
        with self._lock:
            for predicate in _EVERY if predicates is None else predicates:
                self._wanted[predicate] -= 1
                if not self._wanted[predicate]:
                    del self._wanted[predicate]
                    self._texts = {text: each for text, each in self._texts.items() if each != predicate}
                    self._columns = {}

    def _asked(self, predicates: PredicateList) -> Columns | None:
        """Those that somebody asks for now; None for reifiers, and where all are."""
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
        known = element.encoded
        if known is None or known[0] is not self.stamp:
            self.encode((element,))
            known = element.encoded
        assert known is not None
        keys: Keys = known[1]
        return keys

    def encode(self, elements: Sequence[Element]) -> int:
        """Let elements remember their keys; how many of the first are triples without reifiers.

        Those behind them are left as they are, but for the next one.
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
            if type(statements) is OneSubject and (asked := self._asked(statements.predicates)) is not None:
                objects, subject_id = statements.objects, ids[statements.subject] if asked.places else 0
                object_ids = ids_of([objects[at] for at in asked.places], ids)
                columns = ColumnKeys(subject_id, asked, object_ids, len(objects))
                element.encoded = stamp, columns, True, subject_id, asked
                continue
            keys, plain, last, subject_id, subjects = [], True, "", 0, 0
            for subject, predicate, object_, graph in statements:
                # Whoever asks for a predicate has its id.
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


class EngineTerms:
    """The dictionary of terms and the caches over it that all native queries of an engine share."""

    def __init__(self, pace: SweepPace | None = None) -> None:
        self.dictionary = TermDictionary(pace)
        self.values = ValueTable(self.dictionary)
        self.texts = TermTexts(self.dictionary, PAUSE)
        self.keys = OrderKeys(self.values)
        self.coder = ElementCoder(self.dictionary)
        self.dictionary.hold(self.coder.held)
        # Held while a query is planned: its ids have no holder yet.
        self.planning = threading.Lock()

    def tidy(self) -> None:
        """A slice of forgetting terms that nothing holds, when it is due; called between transactions.

        Not while an evaluation is suspended, whose ids may be in local variables alone.
        """
        if self.dictionary.due and not SLICE.inside and self.planning.acquire(blocking=False):
            try:
                if not self.dictionary.sweeping:
                    # From here on ids must be asked for to be marked.
                    self.coder.renew()
                self.dictionary.sweep_slice()
            finally:
                self.planning.release()


class EncodedContent:
    """`LiveContent` over keys: a set with the counts of its occurrences.

    ``counts`` are those, of keys with a predicate that is ``wanted``; ``changes`` what was not taken yet, and
    ``named`` says that some key has been in a named graph. ``alone`` has, by subject, the keys of elements
    with a wanted triple of each predicate, all that there are of the subject; they are not in ``counts``.

    ``union`` says what triples outside GRAPH match: the union of all graphs, where a triple in two graphs is
    there once, or the default graph.
    With ``by_text`` elements that take the place of all others are ``waiting``: they have keys from when
    somebody asks for those. Whoever sets it tells of what waits before it is replaced.
    Law: the running sum of the changes is the set of the live elements.
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
        # With the first quad of a named graph: how many live quads each triple has.
        self.named = False
        self._triples: Delta | None = None
        self.occurrences = 0
        coder.keep(self)

    @property
    def shape(self) -> tuple[Predicates, bool]:
        """Equal for contents that keep the same of a stream."""
        return self.wanted, self._union

    @property
    def content(self) -> dict[IdRow, int]:
        """The live keys, each with the number of its occurrences."""
        self.settle()
        self._count(*self.alone)
        return self.counts

    def __len__(self) -> int:
        texts = None if self.wanted is None else {self._coder.terms.text_of[each] for each in self.wanted}
        waiting = {quad for each in self.waiting for quad in each.statements if not texts or quad[1] in texts}
        return len(self.counts) + len(waiting) + len(self.alone) * (len(self.wanted or ()) - 1)

    def settle(self) -> None:
        """Let those that wait have keys."""
        if self.waiting:
            waiting, self.waiting, self.occurrences = self.waiting, (), 0
            self.add(*waiting)

    def _count(self, *subjects: int) -> None:
        """Other elements may have triples of these subjects, too."""
        for subject in subjects:
            self.counts.update(dict.fromkeys(self._wanted(self.alone.pop(subject)), 1))

    def _wanted(self, keys: Keys) -> list[IdRow]:
        return [key for key in keys if key is not None and (self.wanted is None or key[1] in self.wanted)]

    def replace(self, leaving: Sequence[Element], entering: Sequence[Element]) -> None:
        """Let all elements leave and others enter."""
        if not self.by_text:
            # Entering first keeps what stays.
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
        """Let elements enter."""
        self.settle()
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
        """Let elements leave."""
        self.settle()
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
        """Let occurrences of keys enter and leave."""
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
        """The change since the last call, as triples and as quads of named graphs."""
        self.settle()
        changes = self.changes
        if not changes:
            return NOTHING
        self.changes = {}
        if not self.named:
            return WindowDelta(changes, EMPTY, changes)
        return self._split(changes)

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """The content as it was at the last `take`, or before the keys that were taken then."""
        changes = self.changes if taken is None else taken
        stayed = [key for key in self.content if key not in changes]
        return stayed + [key for key, weight in changes.items() if weight < 0]

    def held(self) -> Iterator[IdRow]:
        """Every key whose ids are still needed: those in the window, then those that left or entered."""
        # Those that are alone first: they may be counted meanwhile.
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
        """The same in quads, for a checkpoint: ids mean nothing after a restart."""
        return ContentSnapshot(self._quads(self.content), self._quads(self.changes), self.occurrences)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Hold, in an empty content, what a snapshot says.

        It is one of `LiveQuads` when another version of this program evaluated the query by definition.
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
