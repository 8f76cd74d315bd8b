"""Custom functions that corrected query texts call (algebra/corrected_expressions.py)."""

from __future__ import annotations

from collections.abc import Callable

from pyoxigraph import Literal, NamedNode

from quadrill.store.terms import Term

from ..algebra.corrected_expressions import ADD, ADJUST, PATTERN, REPLACEMENT
from ..algebra.order import XSD
from ..algebra.regex_text import has_back_reference, pattern_text, replacement_text
from .functions import adjust
from .numeric import add
from .values import term_of, value_of

_STRING = XSD + "string"


def _add(left: Term, right: Term) -> Term | None:
    """Return the sum of two numbers, two durations, or a time and a duration; None for an error."""
    value = add(value_of(left), value_of(right))
    return None if value is None else term_of(value)


def _adjust(moment: Term, zone: Term) -> Term | None:
    """Return a moment in another time zone or without a zone; None for an error."""
    value = adjust(value_of(moment), value_of(zone))
    return None if value is None else term_of(value)


def _pattern(pattern: Term, flags: Term | None = None) -> Term | None:
    """Translate an XPath regular expression to Oxigraph's syntax.

    Returns None (an error) for a pattern with back-references.
    """
    text, mode = _string(pattern), "" if flags is None else _string(flags)
    if text is None or mode is None or has_back_reference(text, mode):
        return None
    return Literal(pattern_text(text, mode))


def _replacement(replacement: Term, pattern: Term, flags: Term | None = None) -> Term | None:
    """Translate the replacement of REPLACE to Oxigraph's syntax; None if it is an error in XPath."""
    text, of, mode = _string(replacement), _string(pattern), "" if flags is None else _string(flags)
    if text is None or of is None or mode is None:
        return None
    found = replacement_text(text, of, mode)
    return None if found is None else Literal(found)


def _string(term: Term) -> str | None:
    return term.value if isinstance(term, Literal) and term.datatype.value == _STRING else None


CORRECTING_FUNCTIONS: dict[NamedNode, Callable[..., Term | None]] = {
    ADD: _add,
    ADJUST: _adjust,
    PATTERN: _pattern,
    REPLACEMENT: _replacement,
}
