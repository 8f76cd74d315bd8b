"""The term dictionary: maps RDF terms to integer ids for joins, grouping and comparisons.

The term id 0 means *unbound*. A negative (inline) id contains its term, as in section 4.2 of CQELS 2011: five
bits of type and a value of 58 bits, or more for decimals. Positive ids are entries of the dictionary, counted
upwards and never reused, so a cache with the id of a forgotten term can be stale but never wrong.

Terms must be in the canonical form of Oxigraph, so that equal terms have equal ids. A term that cannot be
rebuilt exactly from an inline id gets a positive id.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, repeat
from typing import Any

from pyoxigraph import Literal, NamedNode, Triple

from .compact_texts import CompactTexts, in_front_of
from .documents.statements import term_of
from .sweep import Holder, Sweep, SweepPace, marking
from .terms import Term, term_text

UNBOUND = 0
TYPE_BITS, VALUE_BITS = 5, 58
_TYPE_MASK = (1 << TYPE_BITS) - 1
_MOST, _LEAST = (1 << (VALUE_BITS - 1)) - 1, -(1 << (VALUE_BITS - 1))
_SCALE_BITS, _SCALE_MASK, _SCALE_MOST = 5, 31, 18
# The smallest mantissa, by scale, that is too large for an inline decimal.
_DECIMAL_ENDS = [10 ** (16 + scale) for scale in range(_SCALE_MOST + 1)]
# The factor, by scale, that converts a mantissa to units of 10^-18.
DECIMAL_UNITS: list[int] = [10 ** (_SCALE_MOST - scale) for scale in range(_SCALE_MOST + 1)]

# `inline_decimal` as source text for generated code: the test of an id, and the value of an inline decimal.
INLINE_DECIMAL = (
    "({bits} := ~({term_id})) > 0 and {bits} & 31 == 1",
    "({bits} >> 11 ^ -({bits} >> 10 & 1)) * UNITS[{bits} >> 5 & 31]",
)

_PASSING, _PARTS = 5, 8
"""The remembered inline ids are bounded by a fifth of the sweep floor; an eighth is forgotten at once."""
_INTEGER, _DECIMAL, _BOOLEAN, _STRING = range(4)
_STRING_BYTES = 6
_LONG = -(1 << 30)
"""Inline numbers with ids below this bound rarely recur, so their texts are not cached."""

_KINDS = ("integer", "decimal", "boolean", "string")
XSD_INTEGER, XSD_DECIMAL, XSD_BOOLEAN, XSD_STRING = (f"http://www.w3.org/2001/XMLSchema#{x}" for x in _KINDS)
_INTEGER_END, _DECIMAL_END = (f'"^^<{each}>' for each in (XSD_INTEGER, XSD_DECIMAL))
_INTEGER_CUT, _DECIMAL_CUT = -len(_INTEGER_END), -len(_DECIMAL_END)
# Lengths of inline numbers' texts that rarely recur.
_LONG_INTEGER, _LONG_DECIMAL = 4 - _INTEGER_CUT, 8 - _DECIMAL_CUT
_IS_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,18})?").fullmatch


class _TermsById(dict[int, Term]):
    """Terms by id, created on first use from the N-Quads ``texts``; ``inline`` collects negative ids."""

    def __init__(self, dictionary: TermDictionary, most: int) -> None:
        super().__init__()
        self.texts = dictionary.compact.front
        self.inline: list[int] = []
        self._dictionary, self.most = dictionary, most

    def __missing__(self, term_id: int) -> Term:
        if len(self) >= self.most:
            self._dictionary.clear_term_cache()
        if term_id < 0:
            self.inline.append(term_id)
        term = self[term_id] = inline_term(term_id) if term_id < 0 else term_of(self.texts[term_id])
        return term


class TermDictionary:
    """A two-way mapping between terms and ids, which forgets terms that no holder refers to.

    In the dictionary, a term is identified by its N-Quads text. The attributes ``texts``, ``ids`` and
    ``terms`` are mappings for
    hot loops: ``texts[text]`` and ``ids[term]`` assign an id to a new term in any thread; ``terms[id]``
    creates a term on first use. While a slice of a sweep runs, every id in use must be named by a holder.

    A component that stores ids across calls registers a *holder* (`sweep.Holder`) with `hold`; holders whose
    ids other holders copy are registered first. Ids in rows of static tables are pinned, so that sweeps of
    the dictionary skip these ids. A sweep of the dictionary drops entries that no holder names. `sweep_slice`
    executes one slice of a sweep; a sweep begins when the number of unpinned ids has doubled, so the cost per
    new term is constant. The method `sweep` executes a whole sweep of the dictionary.
    """

    def __init__(self, pace: SweepPace | None = None, most: int = 262_144) -> None:
        """Create an empty term dictionary that caches at most ``most`` term objects."""
        self.pace = pace or SweepPace()
        self.compact = CompactTexts(_Entering(self))
        self._by_id = _TermsById(self, most)
        self.terms: dict[int, Term] = self._by_id
        self.text_of: dict[int, str] = self._by_id.texts
        self.texts = in_front_of(self.compact.ids)
        self._marked: set[int] = set()
        self._unmarked = type(self.texts)
        self._marking = marking(self._unmarked, self._marked)
        self.ids: dict[Term, int] = _IdsByTerm(self)
        self._young: dict[int, bool] = {}
        self._pins: Counter[int] = Counter()
        self._holders: list[Holder] = []
        self._caches: list[dict[int, Any]] = []
        self._sweep: Sweep | None = None
        self._sweep_at = self.pace.floor
        self._left = 0  # number of unpinned term ids after the last slice of a sweep
        self.forgotten = 0
        self._lock = threading.RLock()
        # Inline ids with a cached text, or with an entry in a registered cache.
        self._passing: list[int] = []
        self._most_passing = self.pace.floor // _PASSING

    def __len__(self) -> int:
        return len(self.texts) + len(self.compact)

    def encode(self, term: Term | None) -> int:
        """Return the id of a term in the store's form; None (unbound) has the id 0."""
        return UNBOUND if term is None else self.ids[term]

    def decode(self, term_id: int) -> Term | None:
        """Return the RDF term of a term id; None for 0, the id of *unbound*.

        Raises KeyError for an id that a sweep has forgotten.
        """
        return None if term_id == UNBOUND else self.terms[term_id]

    # --- ids that sweeps must keep ----------------------------------------------------------------

    def hold(self, holder: Holder) -> Callable[[], None]:
        """Register a holder of term ids; the returned function removes the holder."""
        with self._lock:
            self._holders.append(holder)

        def release() -> None:
            with self._lock:
                if holder in self._holders:
                    self._holders.remove(holder)

        return release

    def holders(self) -> list[Holder]:
        """Return the registered holders of term ids in the order of registration."""
        with self._lock:
            return list(self._holders)

    def pin(self, term_ids: Iterable[int], *, compact: bool = False) -> None:
        """Exempt term ids from sweeps until the matching `unpin`.

        With ``compact``, texts of the pinned ids move to the mappings for terms of static tables.
        """
        with self._lock:
            entries = [term_id for term_id in term_ids if term_id > 0]
            self._pins.update(entries)
            deque(map(self._young.pop, entries, repeat(None)), maxlen=0)
            if compact:
                self.compact.take(entries, self.texts, self.text_of)

    def unpin(self, term_ids: Iterable[int]) -> None:
        """Undo one call of `pin` for each term id; sweeps may drop ids without pins."""
        with self._lock:
            for term_id in term_ids:
                if term_id > 0:
                    self._pins[term_id] -= 1
                    if not self._pins[term_id]:
                        del self._pins[term_id]
                        self._young[term_id] = True
                        self.compact.give_back(term_id, self.texts, self.text_of)
                        if self._sweep is not None:
                            self._sweep.marked.add(term_id)

    def forget_with(self, cache: dict[int, Any]) -> None:
        """Register a cache by term id, whose entries are dropped when their ids are forgotten."""
        self._caches.append(cache)

    def met_inline(self, term_id: int) -> None:
        """Record that an inline id has a cached text or cache entry; of too many, the oldest are dropped."""
        passing = self._passing
        passing.append(term_id)
        if len(passing) > self._most_passing:
            gone = passing[: self._most_passing // _PARTS + 1]
            del passing[: len(gone)]
            self._forget(gone, [])

    # --- sweeping -------------------------------------------------------------------------------

    @property
    def sweeping(self) -> bool:
        """True while a sweep of the term dictionary is unfinished."""
        return self._sweep is not None

    @property
    def due(self) -> bool:
        """True if a sweep is unfinished, or enough unpinned term ids exist to begin a sweep."""
        return self._sweep is not None or len(self._young) + len(self._by_id.inline) >= self._sweep_at

    def sweep_slice(self) -> None:
        """Execute one slice of the dictionary's unfinished sweep, or begin a sweep.

        A slice of a sweep grows with the number of terms added since the last slice, so that a sweep ends
        before the dictionary has grown much. Without new terms, a slice of a sweep marks `SweepPace.slice`
        ids divided by the number of holders.
        """
        with self._lock:
            if self._sweep is None:
                self._begin()
            pace, entered = self.pace, self._to_sweep() - self._left
            self._go_on(max(pace.slice // (len(self._holders) or 1), pace.least, pace.per_term * entered))

    def sweep(self) -> int:
        """Finish the current sweep, execute a whole sweep, and return the number of dropped entries."""
        with self._lock:
            before = self.forgotten
            if self._sweep is not None:
                self._go_on(sys.maxsize)
            self._begin()
            self._go_on(sys.maxsize)
            return self.forgotten - before

    def _begin(self) -> None:
        self._sweep = Sweep(self, self._marked)
        # Terms that were added before the sweep must not lengthen its slices.
        self._left = self._to_sweep()
        # With the mapping ``ids`` empty, the next look-up of each term goes through ``texts``, which marks
        # the id.
        self.ids.clear()
        self.texts.__class__ = self._marking

    def _go_on(self, units: int) -> None:
        assert self._sweep is not None
        if self._sweep.work(units):
            self._sweep = None
            self.texts.__class__ = self._unmarked
            # The sweep's marks are cleared after the class change; an id that another thread marks later
            # survives one more sweep.
            self._marked.clear()
            self._sweep_at = max(self.pace.floor, 2 * self._to_sweep())
        self._left = self._to_sweep()

    def _to_sweep(self) -> int:
        """Return the number of unpinned and inline term ids, which a sweep has to examine."""
        return len(self._young) + len(self._by_id.inline)

    def take_inline(self) -> list[int]:
        """Return and clear the list of inline term ids in mappings and caches; called by a sweep."""
        taken: list[int] = []
        for noted in (self._by_id.inline, self._passing):
            taken += noted[: (number := len(noted))]
            del noted[:number]
        return taken

    def young(self) -> list[int]:
        """Return the unpinned positive term ids; called by a sweep."""
        return list(self._young)

    def drop(self, term_ids: Iterable[int]) -> None:
        """Forget term ids, except ids that were pinned meanwhile; called by a sweep."""
        young = self._young
        gone = [each for each in term_ids if each < 0 or young.pop(each, False)]
        self.forgotten += sum([each > 0 for each in gone])
        self._forget(gone, list(map(self.terms.pop, gone, repeat(None))))

    def _forget(self, term_ids: list[int], terms: list[Term | None]) -> None:
        """Delete the texts, terms and cache entries of term ids, with loops in C for speed."""
        texts = list(map(self.text_of.pop, term_ids, repeat("")))
        pops: list[tuple[dict[Any, Any], list[Any]]] = [(self.texts, texts), (self.ids, terms)]
        for mapping, keys in pops + [(cache, term_ids) for cache in self._caches]:
            deque(map(mapping.pop, keys if mapping else (), repeat(None)), maxlen=0)

    def enter(self, term: Term) -> int:
        """Return the id of a term missing in the mapping ``ids``, and add the term to this mapping."""
        with self._lock:
            if term_id := inline_id(term):
                self._by_id.inline.append(term_id)
            else:
                term_id = self.texts[term_text(term) if type(term) is Triple else str(term)]
            if len(self.terms) >= self._by_id.most:
                self.clear_term_cache()
            # Both term and id are stored as keys, so that `drop` finds the term of an id.
            self.terms[term_id], self.ids[term] = term, term_id
            return term_id

    def clear_term_cache(self) -> None:
        """Clear the dictionary's cached term objects, which are created again on the next use."""
        with self._lock:
            self.ids.clear()
            self.terms.clear()


class _IdsByTerm(dict[Term, int]):
    """Term ids by cached term object; a missing term is looked up or added to the dictionary."""

    def __init__(self, dictionary: TermDictionary) -> None:
        super().__init__()
        self._dictionary = dictionary

    def __missing__(self, term: Term) -> int:
        return self._dictionary.enter(term)


class _Entering(dict[str, int]):
    """Ids of static tables' terms by text; a text missing here and in the front mapping gets a new id."""

    def __init__(self, dictionary: TermDictionary) -> None:
        super().__init__()
        self._dictionary, self._numbers = dictionary, count(1)

    def __missing__(self, text: str) -> int:
        dictionary = self._dictionary
        if text[0] == '"' and (term_id := inline_text_id(text)):
            if term_id < _LONG and ~term_id & _TYPE_MASK <= _DECIMAL:
                return term_id
            dictionary.text_of[term_id] = text
            dictionary.texts[text] = term_id
            dictionary.met_inline(term_id)
            return term_id
        with dictionary._lock:
            # Another thread may have added the term's text, or moved the text between the two mappings.
            if (known := dictionary.texts.get(text) or self.get(text)) is None:
                known = dictionary.texts[text] = next(self._numbers)
                dictionary.text_of[known] = text
                dictionary._young[known] = True
            return known


def ids_of(texts: Iterable[str], ids: Mapping[str, int]) -> list[int]:
    """Return term ids of N-Quads texts: long numbers are parsed, other texts are looked up in ``ids``."""
    return [
        (len(text) > _LONG_DECIMAL and text.endswith(_DECIMAL_END) and _decimal_id(text[1:_DECIMAL_CUT]))
        or (len(text) > _LONG_INTEGER and text.endswith(_INTEGER_END) and _integer_id(text[1:_INTEGER_CUT]))
        or ids[text]
        for text in texts
    ]


def inline_text_id(text: str) -> int:
    """Return the inline id of a literal's N-Quads text, or 0 as `inline_id` does."""
    if text.endswith(_DECIMAL_END):
        return _decimal_id(text[1:_DECIMAL_CUT])
    if text.endswith(_INTEGER_END) and "\\" not in text:
        return _integer_id(text[1:_INTEGER_CUT])
    if "\\" in text:
        return inline_id(term_of(text))
    value, mark, datatype = text.rpartition('"^^<')
    if mark:
        inline = _INLINE_WRITTEN.get(datatype)
        return 0 if inline is None else inline(value[1:])
    return _string_id(text[1:-1]) if text[-1] == '"' else 0


def inline_id(term: Term) -> int:
    """Return the inline id of a term, or 0 if no inline id can represent the term exactly."""
    if type(term) is not Literal or (inline := _INLINE.get(term.datatype.value)) is None:
        return 0
    return inline(term.value)


def inline_term(term_id: int) -> Term:
    """Return the term of an inline (negative) id."""
    text, datatype = inline_text(term_id)
    return Literal(text, datatype=_NODES[datatype])


def inline_text(term_id: int) -> tuple[str, str]:
    """Return the ASCII text and the datatype of the literal that an inline id contains."""
    value, kind = ~term_id >> TYPE_BITS, ~term_id & _TYPE_MASK
    if kind == _INTEGER:
        return str(_unfolded(value)), XSD_INTEGER
    if kind == _DECIMAL:
        return _decimal_text(_unfolded(value >> _SCALE_BITS), value & _SCALE_MASK), XSD_DECIMAL
    if kind == _BOOLEAN:
        return ("false", "true")[value], XSD_BOOLEAN
    return (value >> 3).to_bytes(value & 7, "big").decode("ascii"), XSD_STRING


def integer_id(value: int) -> int:
    """Return the inline id of the xsd:integer ``value``, or 0 if it needs more than 58 bits."""
    return ~((value << 1 ^ -(value < 0)) << TYPE_BITS) if _LEAST <= value <= _MOST else 0


def _integer_id(text: str) -> int:
    try:
        value = int(text) if len(text) < 20 else _MOST + 1
    except ValueError:
        return 0
    return integer_id(value) if str(value) == text else 0


def decimal_id(mantissa: int, scale: int) -> int:
    """Return the inline id of the xsd:decimal ``mantissa`` / 10^``scale``, or 0 if none fits.

    The argument ``scale`` must be the smallest possible number of fraction digits, as in the store's form.
    """
    if scale > _SCALE_MOST or not -(end := _DECIMAL_ENDS[scale]) < mantissa < end:
        return 0
    return ~(((mantissa << 1 ^ -(mantissa < 0)) << _SCALE_BITS | scale) << TYPE_BITS | _DECIMAL)


def inline_decimal(term_id: int) -> int | None:
    """Return an inline xsd:decimal multiplied by 10^18; None for a term of another type."""
    if (bits := ~term_id) & _TYPE_MASK != _DECIMAL:
        return None
    folded = bits >> TYPE_BITS + _SCALE_BITS
    return (folded >> 1 ^ -(folded & 1)) * DECIMAL_UNITS[bits >> TYPE_BITS & _SCALE_MASK]


def inline_integer(term_id: int) -> int | None:
    """Return the integer of an inline xsd:integer; None for a term of another type."""
    return _unfolded(~term_id >> TYPE_BITS) if ~term_id & _TYPE_MASK == _INTEGER else None


def _decimal_id(text: str) -> int:
    """Return the inline id of a decimal's text, or 0 if `_decimal_text` would not return the same text."""
    whole, _, fraction = text.partition(".")
    try:
        mantissa, scale = int(digits := whole + fraction), len(fraction)
    except ValueError:
        return 0
    # The comparison with Python's text of the decimal decides most cases quickly; a regular expression
    # decides the others.
    if str(mantissa) == digits and whole > "-" and 0 < scale <= _SCALE_MOST and -(10**16) < mantissa < 10**16:
        return ~(((mantissa << 1 ^ -(mantissa < 0)) << _SCALE_BITS | scale) << TYPE_BITS | _DECIMAL)
    if _IS_DECIMAL(text) is None or (not mantissa and whole[0] == "-"):
        return 0
    return decimal_id(mantissa, scale)


def _string_id(text: str) -> int:
    if len(text) > _STRING_BYTES or not text.isascii():
        return 0
    value = int.from_bytes(text.encode("ascii"), "big") << 3 | len(text)
    return ~(value << TYPE_BITS | _STRING)


def _boolean_id(text: str) -> int:
    return ~(("false", "true").index(text) << TYPE_BITS | _BOOLEAN) if text in ("false", "true") else 0


def _decimal_text(mantissa: int, scale: int) -> str:
    """Return the canonical text of a decimal: no exponent, and no point without fraction digits."""
    if scale == 0:
        return str(mantissa)
    digits = str(abs(mantissa)).rjust(scale + 1, "0")
    return f"{'-' * (mantissa < 0)}{digits[:-scale]}.{digits[-scale:]}"


def _unfolded(value: int) -> int:
    return value >> 1 if not value & 1 else -((value + 1) >> 1)


_INLINE = {
    XSD_INTEGER: _integer_id,
    XSD_DECIMAL: _decimal_id,
    XSD_BOOLEAN: _boolean_id,
    XSD_STRING: _string_id,
}
_NODES = {datatype: NamedNode(datatype) for datatype in _INLINE}
_INLINE_WRITTEN = {f"{datatype}>": inline for datatype, inline in _INLINE.items()}
