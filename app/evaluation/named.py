"""Fast test, without a parser, whether a text may call a function or an aggregate of an extension.

A call of a custom function starts with an IRI or a prefixed name, followed by a bracket. A query text without
the start of a function's IRI, without an escape and without BASE cannot name the function. The test may
return True for a query text that calls no function of an extension. For a query text that calls an
extension's function, the test returns False only if the function's IRI is relative to the base IRI of the
server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quadrill.continuous.algebra.extension_calls import is_extension_aggregate
from quadrill.continuous.algebra.scalar_functions import EXTENSION_FUNCTIONS
from quadrill.continuous.algebra.set_functions import FUNCTIONS, STANDARD

_NAME = re.compile(r"(?:<[^\s(<>{}\"|^`\\]*>|>|:[^\s(#:<>{}\"|^`]*)(\s*[(#])?")
"""Pattern of an IRI or a prefixed name, with the bracket or the comment that follows.

The pattern of an IRI allows no bracket, so that a comparison cannot hide a call: ``?x<f:a(1)&&?y>2``.
"""
_LAST = re.compile("[/#?:]")
_BEGIN = re.compile(r"[^:]*:(?:.*[/#?])?")
"""The part of a function's IRI that its PREFIX declaration must contain, as local names have no ``/#?:``."""


def may_call_function(text: str) -> bool:
    """Return True if a query text may call a function of an extension."""
    return bool(EXTENSION_FUNCTIONS) and _may_name((iri.value for iri in EXTENSION_FUNCTIONS), text)


def may_call_costly(text: str) -> bool:
    """Return True if a query text may call an extension's function that is registered as costly."""
    costly = [iri.value for iri, function in EXTENSION_FUNCTIONS.items() if function.is_costly]
    return any(_last(iri) in text for iri in costly) and _may_name(costly, text)


def may_call_aggregate(text: str) -> bool:
    """Return True if a query text may call an aggregate of an extension."""
    if len(FUNCTIONS) == len(STANDARD):
        return False
    return _may_name((name[1:-1] for name in FUNCTIONS if is_extension_aggregate(name)), text)


def names_aggregate(text: str) -> bool:
    """Return True if a query text contains the last part of the IRI of an extension's aggregate."""
    return any(_last(name[1:-1]) in text for name in FUNCTIONS if is_extension_aggregate(name))


def _may_name(iris: Iterable[str], text: str) -> bool:
    begins = {_begin(iri) for iri in iris}
    if not begins or not (any(each in text for each in begins) or "\\" in text or "base" in text.lower()):
        return False
    return any(found[1] for found in _NAME.finditer(text))


def _last(iri: str) -> str:
    return _LAST.split(iri)[-1]


def _begin(iri: str) -> str:
    found = _BEGIN.match(iri)
    return "" if found is None else found[0]
