"""The term dictionary: RDF terms as integers while they are joined, grouped and compared.

An id is an integer. 0 is *unbound*. Negative ids carry their term inside, as in 4.2 of the first CQELS
paper: five bits of type, a value of 58 bits, more for decimals. Positive ids are entries, counted up and
never given twice, so that a cache that still holds an id of a forgotten term can be stale but never wrong.

Terms must be in the store's own forms (those that Oxigraph gives): equal terms then have equal ids wherever
they came from. What cannot be rebuilt exactly from the bits goes to the dictionary.
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
# The least number, by its scale, that is too large to be inside: values in whole 10^-18 have room for more.
_DECIMAL_ENDS = [10 ** (16 + scale) for scale in range(_SCALE_MOST + 1)]
# What a number of each scale is times to be one of whole 10^-18.
DECIMAL_UNITS: list[int] = [10 ** (_SCALE_MOST - scale) for scale in range(_SCALE_MOST + 1)]

# `inline_decimal` as source text: a test of an id, which binds ``bits``, and the value of one that passes.
INLINE_DECIMAL = (
    "({bits} := ~({term_id})) > 0 and {bits} & 31 == 1",
    "({bits} >> 11 ^ -({bits} >> 10 & 1)) * UNITS[{bits} >> 5 & 31]",
)

_PASSING, _PARTS = 5, 8
"""So many negative ids, as a part of what makes a sweep due, are remembered; such a part goes at once."""
_INTEGER, _DECIMAL, _BOOLEAN, _STRING = range(4)
_STRING_BYTES = 6
_LONG = -(1 << 30)
"""Numbers with ids below it seldom come again: it is cheaper to make them anew than to forget them."""

_KINDS = ("integer", "decimal", "boolean", "string")
XSD_INTEGER, XSD_DECIMAL, XSD_BOOLEAN, XSD_STRING = (f"http://www.w3.org/2001/XMLSchema#{x}" for x in _KINDS)
_INTEGER_END, _DECIMAL_END = (f'"^^<{each}>' for each in (XSD_INTEGER, XSD_DECIMAL))
_INTEGER_CUT, _DECIMAL_CUT = -len(_INTEGER_END), -len(_DECIMAL_END)
_LONG_INTEGER, _LONG_DECIMAL = 4 - _INTEGER_CUT, 8 - _DECIMAL_CUT  # texts that seldom come again
_IS_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,18})?").fullmatch


class _TermsById(dict[int, Term]):
    """Terms by id, made on first use; ``texts``: how they are written, ``inline``: the negative ids here."""

    def __init__(self, dictionary: TermDictionary, most: int) -> None:
        super().__init__()
        self.texts = dictionary.compact.front
        self.inline: list[int] = []
        self._dictionary, self.most = dictionary, most

    def __missing__(self, term_id: int) -> Term:
        if len(self) >= self.most:
            self._dictionary.let_go()
        if term_id < 0:
            self.inline.append(term_id)
        term = self[term_id] = inline_term(term_id) if term_id < 0 else term_of(self.texts[term_id])
        return term


class TermDictionary:
    """Term <-> id, with the forgetting of terms that nothing holds any more.

    A term is known by how N-Quads writes it. ``texts``, ``ids`` and ``terms`` are plain mappings, for hot
    loops to subscript: ``texts[text]`` and ``ids[term]`` give a new term its id, in any thread; ``terms[id]``
    makes the term where nobody has read it. While a slice of a sweep runs nobody may hold ids that no holder
    names.

    Whoever keeps ids across calls is a *holder* (`sweep.Holder`), registered with `hold`; holders whose ids
    others copy come first. Ids that must not be looked at again at each sweep (static tables) are pinned. A
    sweep drops entries that no holder names: `sweep_slice` goes on with one, and begins one when what is not
    pinned has doubled, so that it costs the same for each new term; `sweep` makes a whole one.
    """

    def __init__(self, pace: SweepPace | None = None, most: int = 262_144) -> None:
        """Make an empty one; ``most`` terms are remembered as such."""
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
        self._left = 0  # what a sweep had to look at behind its last slice
        self.forgotten = 0
        self._lock = threading.RLock()
        # Negative ids with a text, or with an entry in a cache that has not asked for the term or the text.
        self._passing: list[int] = []
        self._most_passing = self.pace.floor // _PASSING

    def __len__(self) -> int:
        return len(self.texts) + len(self.compact)

    def encode(self, term: Term | None) -> int:
        """The id of a term in the store's form; None (unbound) is 0."""
        return UNBOUND if term is None else self.ids[term]

    def decode(self, term_id: int) -> Term | None:
        """The term of an id; 0 is None. Raises KeyError for an id that was forgotten."""
        return None if term_id == UNBOUND else self.terms[term_id]

    # --- what must stay -------------------------------------------------------------------------

    def hold(self, holder: Holder) -> Callable[[], None]:
        """Register a holder; the function returned ends its hold."""
        with self._lock:
            self._holders.append(holder)

        def release() -> None:
            with self._lock:
                if holder in self._holders:
                    self._holders.remove(holder)

        return release

    def holders(self) -> list[Holder]:
        """The holders, in the order in which they were registered."""
        with self._lock:
            return list(self._holders)

    def pin(self, term_ids: Iterable[int], *, compact: bool = False) -> None:
        """Keep these ids until they are unpinned as often; ``compact``: they are of a table."""
        with self._lock:
            entries = [term_id for term_id in term_ids if term_id > 0]
            self._pins.update(entries)
            deque(map(self._young.pop, entries, repeat(None)), maxlen=0)
            if compact:
                self.compact.take(entries, self.texts, self.text_of)

    def unpin(self, term_ids: Iterable[int]) -> None:
        """Undo one `pin` of each id."""
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
        """Drop the entries of a cache by id together with the ids."""
        self._caches.append(cache)

    def met_inline(self, term_id: int) -> None:
        """There is a text or an entry of a cache for a negative id; the oldest of many are forgotten."""
        passing = self._passing
        passing.append(term_id)
        if len(passing) > self._most_passing:
            gone = passing[: self._most_passing // _PARTS + 1]
            del passing[: len(gone)]
            self._forget(gone, [])

    # --- sweeping -------------------------------------------------------------------------------

    @property
    def sweeping(self) -> bool:
        """True while a sweep is under way."""
        return self._sweep is not None

    @property
    def due(self) -> bool:
        """True when there is a slice of a sweep to do."""
        return self._sweep is not None or len(self._young) + len(self._by_id.inline) >= self._sweep_at

    def sweep_slice(self) -> None:
        """Go on with the sweep that is under way, or begin one.

        A slice grows with the terms that came since the last one, so that a sweep ends before the dictionary
        has grown much; without new terms all holders together do `SweepPace.slice`.
        """
        with self._lock:
            if self._sweep is None:
                self._begin()
            pace, entered = self.pace, self._to_sweep() - self._left
            self._go_on(max(pace.slice // (len(self._holders) or 1), pace.least, pace.per_term * entered))

    def sweep(self) -> int:
        """End the sweep that is under way and make a whole one; the number of entries dropped."""
        with self._lock:
            before = self.forgotten
            if self._sweep is not None:
                self._go_on(sys.maxsize)
            self._begin()
            self._go_on(sys.maxsize)
            return self.forgotten - before

    def _begin(self) -> None:
        self._sweep = Sweep(self, self._marked)
        # What came before it has no part in its pace.
        self._left = self._to_sweep()
        # What is asked for by term from here on is asked for by text once, and marked then.
        self.ids.clear()
        self.texts.__class__ = self._marking

    def _go_on(self, units: int) -> None:
        assert self._sweep is not None
        if self._sweep.work(units):
            self._sweep = None
            self.texts.__class__ = self._unmarked
            # Behind the change of class: an id that another thread marks just then stays once more.
            self._marked.clear()
            self._sweep_at = max(self.pace.floor, 2 * self._to_sweep())
        self._left = self._to_sweep()

    def _to_sweep(self) -> int:
        """The number of ids that a sweep looks at; pinned ones are not among them."""
        return len(self._young) + len(self._by_id.inline)

    def take_inline(self) -> list[int]:
        """The negative ids that mappings and caches remember; called by a sweep."""
        taken: list[int] = []
        for noted in (self._by_id.inline, self._passing):
            taken += noted[: (number := len(noted))]
            del noted[:number]
        return taken

    def young(self) -> list[int]:
        """The entries that are not pinned; called by a sweep."""
        return list(self._young)

    def drop(self, term_ids: Iterable[int]) -> None:
        """Forget these ids, but for those that are pinned by now; called by a sweep."""
        young = self._young
        gone = [each for each in term_ids if each < 0 or young.pop(each, False)]
        self.forgotten += sum([each > 0 for each in gone])
        self._forget(gone, list(map(self.terms.pop, gone, repeat(None))))

    def _forget(self, term_ids: list[int], terms: list[Term | None]) -> None:
        """Forget terms, how these ids are written, and what caches have of them. Its loops are in C."""
        texts = list(map(self.text_of.pop, term_ids, repeat("")))
        pops: list[tuple[dict[Any, Any], list[Any]]] = [(self.texts, texts), (self.ids, terms)]
        for mapping, keys in pops + [(cache, term_ids) for cache in self._caches]:
            deque(map(mapping.pop, keys if mapping else (), repeat(None)), maxlen=0)

    def enter(self, term: Term) -> int:
        """The id of a term that ``ids`` does not know, which does from here on."""
        with self._lock:
            if term_id := inline_id(term):
                self._by_id.inline.append(term_id)
            else:
                term_id = self.texts[term_text(term) if type(term) is Triple else str(term)]
            if len(self.terms) >= self._by_id.most:
                self.let_go()
            # What is found by its term is found by its id, too, when it is dropped.
            self.terms[term_id], self.ids[term] = term, term_id
            return term_id

    def let_go(self) -> None:
        """Remember no terms as such: they are made again when somebody reads them."""
        with self._lock:
            self.ids.clear()
            self.terms.clear()


class _IdsByTerm(dict[Term, int]):
    """Ids of terms that are remembered as such; a term that is missing is entered."""

    def __init__(self, dictionary: TermDictionary) -> None:
        super().__init__()
        self._dictionary = dictionary

    def __missing__(self, term: Term) -> int:
        return self._dictionary.enter(term)


class _Entering(dict[str, int]):
    """Settled ids by the text of the term; one that is not in front of them either is entered there."""

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
            # Another thread may have entered it, or moved it from one to the other between two looks.
            if (known := dictionary.texts.get(text) or self.get(text)) is None:
                known = dictionary.texts[text] = next(self._numbers)
                dictionary.text_of[known] = text
                dictionary._young[known] = True
            return known


def ids_of(texts: Iterable[str], ids: Mapping[str, int]) -> list[int]:
    """The ids of terms by how N-Quads writes them: long numbers are read, ``ids`` is asked for the others."""
    return [
        (len(text) > _LONG_DECIMAL and text.endswith(_DECIMAL_END) and _decimal_id(text[1:_DECIMAL_CUT]))
        or (len(text) > _LONG_INTEGER and text.endswith(_INTEGER_END) and _integer_id(text[1:_INTEGER_CUT]))
        or ids[text]
        for text in texts
    ]


def inline_text_id(text: str) -> int:
    """The negative id of a literal by how N-Quads writes it, or 0 as for `inline_id`."""
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
    """The negative id that holds the term, or 0 when the term cannot be rebuilt exactly from its bits."""
    if type(term) is not Literal or (inline := _INLINE.get(term.datatype.value)) is None:
        return 0
    return inline(term.value)


def inline_term(term_id: int) -> Term:
    """The term inside a negative id."""
    text, datatype = inline_text(term_id)
    return Literal(text, datatype=_NODES[datatype])


def inline_text(term_id: int) -> tuple[str, str]:
    """The text of the literal inside a negative id, which is ASCII, and its datatype."""
    value, kind = ~term_id >> TYPE_BITS, ~term_id & _TYPE_MASK
    if kind == _INTEGER:
        return str(_unfolded(value)), XSD_INTEGER
    if kind == _DECIMAL:
        return _decimal_text(_unfolded(value >> _SCALE_BITS), value & _SCALE_MASK), XSD_DECIMAL
    if kind == _BOOLEAN:
        return ("false", "true")[value], XSD_BOOLEAN
    return (value >> 3).to_bytes(value & 7, "big").decode("ascii"), XSD_STRING


def integer_id(value: int) -> int:
    """The id of the xsd:integer ``value``, or 0 when it does not fit in 58 bits."""
    return ~((value << 1 ^ -(value < 0)) << TYPE_BITS) if _LEAST <= value <= _MOST else 0


def _integer_id(text: str) -> int:
    try:
        value = int(text) if len(text) < 20 else _MOST + 1
    except ValueError:
        return 0
    return integer_id(value) if str(value) == text else 0


def decimal_id(mantissa: int, scale: int) -> int:
    """The id of the xsd:decimal ``mantissa`` / 10^``scale``, or 0 when it is too large or too long.

    The term has ``scale`` digits behind the point: in the store's form the least that it needs.
    """
    if scale > _SCALE_MOST or not -(end := _DECIMAL_ENDS[scale]) < mantissa < end:
        return 0
    return ~(((mantissa << 1 ^ -(mantissa < 0)) << _SCALE_BITS | scale) << TYPE_BITS | _DECIMAL)


def inline_decimal(term_id: int) -> int | None:
    """The xsd:decimal in a negative id, times 10^18; None for a term of another type."""
    if (bits := ~term_id) & _TYPE_MASK != _DECIMAL:
        return None
    folded = bits >> TYPE_BITS + _SCALE_BITS
    return (folded >> 1 ^ -(folded & 1)) * DECIMAL_UNITS[bits >> TYPE_BITS & _SCALE_MASK]


def inline_integer(term_id: int) -> int | None:
    """The xsd:integer in a negative id; None for a term of another type."""
    return _unfolded(~term_id >> TYPE_BITS) if ~term_id & _TYPE_MASK == _INTEGER else None


def _decimal_id(text: str) -> int:
    """Text that `_decimal_text` gives back: no plus sign, no zeros in front, no negative zero."""
    whole, _, fraction = text.partition(".")
    try:
        mantissa, scale = int(digits := whole + fraction), len(fraction)
    except ValueError:
        return 0
    # Most digits are what Python writes of their number; of the others an expression tells.
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
    """Canonical text: no exponent, no point without digits behind it."""
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
