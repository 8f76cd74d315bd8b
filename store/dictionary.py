"""The term dictionary: RDF terms as integers while they are joined, grouped and compared.

An id is an integer. 0 is *unbound*. Negative ids carry their term inside, the sign bit is the flag of
section 4.2 of the first CQELS paper (ISWC 2011): five bits of type, the rest is the value. Positive ids are
entries of the dictionary, counted up and never given twice, so that a cache that still holds an id of a
forgotten term can be stale but never wrong.

Terms must be in the store's own forms (an in-memory Oxigraph store gives them back in these forms): equal
terms then have equal ids whether they came from a stream, a table or an expression. What cannot be rebuilt
exactly from the bits goes to the dictionary.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from pyoxigraph import Literal, NamedNode

from .documents.statements import term_of
from .sweep import Holder, Sweep, SweepPace
from .terms import Term

UNBOUND = 0
TYPE_BITS = 5
VALUE_BITS = 58
_TYPE_MASK = (1 << TYPE_BITS) - 1
_MOST = (1 << (VALUE_BITS - 1)) - 1
_LEAST = -(1 << (VALUE_BITS - 1))
_SCALE_BITS = 5
_DECIMAL_MOST = (1 << (VALUE_BITS - 1 - _SCALE_BITS)) - 1
_SCALE_MOST = 16
_DECIMAL_TEXT = re.compile(r"(-?(?:0|[1-9][0-9]{0,15}))(?:\.([0-9]{1,16}))?\Z").match

_INTEGER, _DECIMAL, _BOOLEAN, _STRING = range(4)
_STRING_BYTES = 6

_XSD = "http://www.w3.org/2001/XMLSchema#"
XSD_INTEGER = NamedNode(_XSD + "integer")
XSD_DECIMAL = NamedNode(_XSD + "decimal")
XSD_BOOLEAN = NamedNode(_XSD + "boolean")


class _TermsById(dict[int, Term]):
    """Entries by id; the terms of negative ids are rebuilt on first use and kept until the next sweep."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[int] = []

    def __missing__(self, term_id: int) -> Term:
        if term_id >= 0:
            raise KeyError(f"term id {term_id} is unbound or was forgotten")
        term = inline_term(term_id)
        self[term_id] = term
        self.inline.append(term_id)
        return term


class TermDictionary:
    """Term <-> id, with the forgetting of terms that nothing holds any more.

    ``ids``, ``texts`` and ``terms`` are plain mappings, for hot loops to subscript (``ids[term]`` gives a new
    term its id, in any thread; ``texts`` the same by how N-Quads writes the term). While a slice of a sweep
    runs nobody may hold ids that no holder names.

    Whoever keeps ids across calls is a *holder* (`sweep.Holder`), registered with `hold`; holders whose ids
    others copy come first. Ids that must not be looked at again at each sweep (static tables) are pinned
    instead. A sweep drops the entries that no holder names: `sweep_slice` goes on with one, and begins one
    when what is not pinned has doubled, so that its cost per new term is constant; `sweep` makes a whole one.
    """

    def __init__(self, pace: SweepPace | None = None, texts: int = 262_144) -> None:
        """Make an empty one; ``texts`` of terms are remembered at most."""
        self.pace = pace or SweepPace()
        self._by_id = _TermsById()
        self.terms: dict[int, Term] = self._by_id
        self._by_term = _IdsByTerm(self)
        self.ids: dict[Term, int] = self._by_term
        self.texts: dict[str, int] = _IdsByText(self, texts)
        self._numbers = count(1)
        self._young: dict[int, Term] = {}
        self._pins: Counter[int] = Counter()
        self._holders: list[Holder] = []
        self._caches: list[dict[int, Any]] = []
        self._sweep: Sweep | None = None
        self._sweep_at = self.pace.floor
        self._entered = 0
        self.forgotten = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.ids)

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

    def pin(self, term_ids: Iterable[int]) -> None:
        """Keep these ids until they are unpinned as often as they were pinned."""
        with self._lock:
            for term_id in term_ids:
                if term_id > 0:
                    self._pins[term_id] += 1
                    self._young.pop(term_id, None)

    def unpin(self, term_ids: Iterable[int]) -> None:
        """Undo one `pin` of each id."""
        with self._lock:
            for term_id in term_ids:
                if term_id > 0:
                    self._pins[term_id] -= 1
                    if not self._pins[term_id]:
                        del self._pins[term_id]
                        self._young[term_id] = self.terms[term_id]
                        if self._sweep is not None:
                            self._sweep.marked.add(term_id)

    def forget_with(self, cache: dict[int, Any]) -> None:
        """Drop the entries of a cache by id together with the ids."""
        self._caches.append(cache)

    def met_inline(self, term_id: int) -> None:
        """A cache has an entry for a negative id without having asked for its term."""
        self._by_id.inline.append(term_id)

    # --- sweeping -------------------------------------------------------------------------------

    @property
    def sweeping(self) -> bool:
        """True while a sweep is under way."""
        return self._sweep is not None

    @property
    def due(self) -> bool:
        """True when there is a slice of a sweep to do."""
        return self._sweep is not None or self._to_sweep() >= self._sweep_at

    def sweep_slice(self) -> None:
        """Go on with the sweep that is under way, or begin one.

        A slice grows with the terms that came since the last one, so that a sweep ends before the dictionary
        has grown much; without new terms all holders together do `SweepPace.slice`.
        """
        with self._lock:
            if self._sweep is None:
                self._begin()
            entered, self._entered = self._entered, 0
            pace = self.pace
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
        self._sweep = Sweep(self)
        # What came before it has no part in its pace.
        self._entered = 0
        self._by_term.marked = self._sweep.marked
        # What is asked for by text from here on is asked for by term once, and marked then.
        self.texts.clear()
        self._by_term.__class__ = _MarkingIdsByTerm

    def _go_on(self, units: int) -> None:
        assert self._sweep is not None
        if self._sweep.work(units):
            self._sweep = None
            self._by_term.__class__ = _IdsByTerm
            self._by_term.marked = set()
            self._sweep_at = max(self.pace.floor, 2 * self._to_sweep())

    def _to_sweep(self) -> int:
        """The number of ids that a sweep looks at; pinned ones are not among them."""
        return len(self._young) + len(self._by_id.inline)

    def take_inline(self) -> list[int]:
        """The negative ids that mappings and caches remember; called by a sweep."""
        taken, self._by_id.inline = self._by_id.inline, []
        return taken

    def young(self) -> list[int]:
        """The entries that are not pinned; called by a sweep."""
        return list(self._young)

    def drop(self, term_ids: Iterable[int]) -> None:
        """Forget these ids, but for those that are pinned by now; called by a sweep."""
        for term_id in term_ids:
            if term_id > 0:
                if self._young.pop(term_id, None) is None:
                    continue
                self.forgotten += 1
            term = self.terms.pop(term_id, None)
            if term is not None:
                self.ids.pop(term, None)
            for cache in self._caches:
                cache.pop(term_id, None)

    def enter(self, term: Term) -> int:
        """Called by ``ids`` for a term that it does not know; of two threads at once one gives the id."""
        self._entered += 1
        term_id = inline_id(term) if type(term) is Literal else 0
        if term_id:
            self._by_id.inline.append(term_id)
            self._by_id[term_id] = term
            return self._by_term.setdefault(term, term_id)
        term_id = next(self._numbers)
        self._young[term_id] = self._by_id[term_id] = term
        known = self._by_term.setdefault(term, term_id)
        if known != term_id:
            del self._young[term_id], self._by_id[term_id]
        return known


class Pins:
    """Ids that one owner pins, to be let go together."""

    def __init__(self, terms: TermDictionary) -> None:
        self._terms = terms
        self._ids: list[int] = []

    def pin(self, term_ids: Iterable[int]) -> None:
        """Pin ids in the dictionary until `release`."""
        pinned = list(term_ids)
        self._ids += pinned
        self._terms.pin(pinned)

    def release(self) -> None:
        """Undo every pin; a second call does nothing."""
        pinned, self._ids = self._ids, []
        self._terms.unpin(pinned)


class _IdsByTerm(dict[Term, int]):
    """Ids by term; a term that is missing is entered."""

    def __init__(self, dictionary: TermDictionary) -> None:
        super().__init__()
        self.marked: set[int] = set()
        self._dictionary = dictionary

    def __missing__(self, term: Term) -> int:
        return self._dictionary.enter(term)


class _MarkingIdsByTerm(_IdsByTerm):
    """The class of ``ids`` while a sweep is under way: every id that is given is marked.

    The object stays the same, since everybody keeps it; only its class changes, so that a look-up costs
    nothing more while there is no sweep.
    """

    def __getitem__(self, term: Term) -> int:
        term_id = super().__getitem__(term)
        self.marked.add(term_id)
        return term_id

    def get(self, term: Term, default: Any = None) -> Any:
        return self[term] if term in self else default


class _IdsByText(dict[str, int]):
    """Ids by the text of the term, as far as they were asked for since the last sweep began."""

    def __init__(self, dictionary: TermDictionary, most: int) -> None:
        super().__init__()
        self._ids = dictionary.ids
        self._met_inline = dictionary.met_inline
        self._most = most

    def __missing__(self, text: str) -> int:
        if text[0] == "<" and text[1] != "<":
            term_id = self._ids[NamedNode(text[1:-1])]
        else:
            term_id = inline_text_id(text) if text[0] == '"' else 0
            if term_id:
                self._met_inline(term_id)
            else:
                term_id = self._ids[term_of(text)]
        if len(self) >= self._most:
            self.clear()
        self[text] = term_id
        return term_id


def inline_text_id(text: str) -> int:
    """The negative id of a literal by how N-Quads writes it, or 0 as for `inline_id`."""
    if "\\" in text:
        return 0
    value, mark, datatype = text.rpartition('"^^<')
    if mark:
        inline = _INLINE.get(datatype[:-1])
        return 0 if inline is None else inline(value[1:])
    return _string_id(text[1:-1]) if text[-1] == '"' else 0


def inline_id(term: Term) -> int:
    """The negative id that holds the term, or 0 when the term cannot be rebuilt exactly from 58 bits."""
    if type(term) is not Literal:
        return 0
    inline = _INLINE.get(term.datatype.value)
    return inline(term.value) if inline is not None else 0


def inline_term(term_id: int) -> Term:
    """The term inside a negative id."""
    bits = ~term_id
    value = bits >> TYPE_BITS
    match bits & _TYPE_MASK:
        case 0:
            return Literal(str(_unfold(value)), datatype=XSD_INTEGER)
        case 1:
            scale = value & ((1 << _SCALE_BITS) - 1)
            return Literal(_decimal_text(_unfold(value >> _SCALE_BITS), scale), datatype=XSD_DECIMAL)
        case 2:
            return Literal("true" if value else "false", datatype=XSD_BOOLEAN)
        case 3:
            length = value & 7
            return Literal((value >> 3).to_bytes(length, "big").decode("ascii"))
        case kind:
            raise ValueError(f"term id {term_id} has the unknown inline type {kind}")


def integer_id(value: int) -> int:
    """The id of the xsd:integer ``value``, or 0 when it does not fit in 58 bits."""
    if _LEAST <= value <= _MOST:
        return ~(((value << 1) if value >= 0 else ((-value) << 1) - 1) << TYPE_BITS)
    return 0


def _integer_id(text: str) -> int:
    if len(text) > 19:
        return 0
    try:
        value = int(text)
    except ValueError:
        return 0
    return integer_id(value) if str(value) == text else 0


def decimal_id(mantissa: int, scale: int) -> int:
    """The id of the xsd:decimal ``mantissa`` / 10^``scale``, or 0 when it does not fit in 58 bits.

    The term has ``scale`` digits behind the point: in the store's form the least that it needs.
    """
    most = _SCALE_MOST if mantissa >= 0 else _SCALE_MOST - 1
    if scale > most or not -_DECIMAL_MOST <= mantissa <= _DECIMAL_MOST:
        return 0
    # Signed to unsigned, small magnitudes first, and `_pack`, written out: numbers of streams come this way.
    folded = mantissa << 1 if mantissa >= 0 else ((-mantissa) << 1) - 1
    return ~((((folded << _SCALE_BITS) | scale) << TYPE_BITS) | _DECIMAL)


def inline_decimal(term_id: int) -> tuple[int, int] | None:
    """Mantissa and scale of the xsd:decimal in a negative id; None for a term of another type."""
    bits = ~term_id
    if bits & _TYPE_MASK != _DECIMAL:
        return None
    value = bits >> TYPE_BITS
    return _unfold(value >> _SCALE_BITS), value & ((1 << _SCALE_BITS) - 1)


def _decimal_id(text: str) -> int:
    """Text that `_decimal_text` gives back: no plus sign, no zeros in front, no negative zero."""
    match = _DECIMAL_TEXT(text)
    if match is None:
        return 0
    whole, fraction = match.groups("")
    mantissa = int(whole + fraction)
    return decimal_id(mantissa, len(fraction)) if mantissa or text[0] != "-" else 0


def _string_id(text: str) -> int:
    if len(text) > _STRING_BYTES or not text.isascii():
        return 0
    return _pack(_STRING, (int.from_bytes(text.encode("ascii"), "big") << 3) | len(text))


def _boolean_id(text: str) -> int:
    return _pack(_BOOLEAN, ("false", "true").index(text)) if text in ("false", "true") else 0


def _decimal_text(mantissa: int, scale: int) -> str:
    """Canonical text: no exponent, no point without digits behind it."""
    if scale == 0:
        return str(mantissa)
    digits = str(abs(mantissa)).rjust(scale + 1, "0")
    sign = "-" if mantissa < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _pack(kind: int, value: int) -> int:
    return ~((value << TYPE_BITS) | kind)


def _unfold(value: int) -> int:
    return value >> 1 if not value & 1 else -((value + 1) >> 1)


_INLINE = {
    _XSD + "integer": _integer_id,
    _XSD + "decimal": _decimal_id,
    _XSD + "boolean": _boolean_id,
    _XSD + "string": _string_id,
}
