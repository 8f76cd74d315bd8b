"""Texts that may call a function or an aggregate of an extension, found without parsing them.

A call begins with an IRI or a prefixed name and a bracket, and a text that has neither the beginning of the
IRI nor an escape or BASE cannot name it. More texts are found than call one; none that does is missed, but
one that writes the IRI relative to the server's own base.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quadrill.continuous.algebra.extension_calls import is_extension_aggregate
from quadrill.continuous.algebra.scalar_functions import EXTENSION_FUNCTIONS
from quadrill.continuous.algebra.set_functions import FUNCTIONS, STANDARD

_NAME = re.compile(r"(?:<[^\s(<>{}\"|^`\\]*>|>|:[^\s(#:<>{}\"|^`]*)(\s*[(#])?")
"""An IRI or a name, and the bracket behind it, or a comment that may end at one.

IRIs have no bracket here, so that no comparison hides a call: ``?x<f:a(1)&&?y>2``.
"""
_LAST = re.compile("[/#?:]")
_BEGIN = re.compile(r"[^:]*:(?:.*[/#?])?")
"""The part of an IRI that its prefix declaration must have: local names hold none of these signs."""


def may_call_function(text: str) -> bool:
    """Return True when a text may call a function of an extension."""
    return bool(EXTENSION_FUNCTIONS) and _may_name((iri.value for iri in EXTENSION_FUNCTIONS), text)


def may_call_costly(text: str) -> bool:
    """Return True when a text may call a function that is registered as costly."""
    costly = [iri.value for iri, function in EXTENSION_FUNCTIONS.items() if function.is_costly]
    return any(_last(iri) in text for iri in costly) and _may_name(costly, text)


def may_call_aggregate(text: str) -> bool:
    """Return True when a text may call an aggregate of an extension."""
    if len(FUNCTIONS) == len(STANDARD):
        return False
    return _may_name((name[1:-1] for name in FUNCTIONS if is_extension_aggregate(name)), text)


def names_aggregate(text: str) -> bool:
    """Return True when the last part of an aggregate's IRI occurs in a text."""
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
