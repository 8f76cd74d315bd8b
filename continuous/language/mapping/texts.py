"""Conversion of expression values to the N-Triples texts of statements, as the store uses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.terms import Term, term_text

from ...algebra.set_functions import double_text
from ...expressions.functions import same_term
from ...expressions.values import XSD, Maybe, Value, term_of
from .memoised import MemoisedFunction

Kind: TypeAlias = Callable[[Maybe], str | None]
"""A function from a value to its text at one position of a statement; None if RDF forbids it there."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ufffe\uffff]*+').fullmatch
_SMALL = 2.0**49
"""Doubles between -2^49 and 2^49 can be written to statements with the digits of Python's `repr`."""
INTEGER, _DOUBLE, _BOOLEAN = (f'"^^<{XSD}{name}>' for name in ("integer", "double", "boolean"))


def text_of(value: Value) -> str:
    """Return the N-Triples text of an expression value's term, as the store writes terms."""
    return object_text(value) or ""


def object_text(value: Maybe) -> str | None:
    """Return the N-Triples text of a value as a statement's object.

    The object text is None only for the value None, because every term may be an object.
    """
    if value is None:
        return None
    kind = type(value)
    if kind is str:
        if value.isprintable() and '"' not in value and "\\" not in value:  # type: ignore[union-attr,operator]
            return f'"{value}"'
        return f'"{value}"' if _PLAIN(value) else str(Literal(value))  # type: ignore[arg-type]
    if kind is NamedNode:
        return str(value)
    if kind is int:
        return f'"{value}{INTEGER}'
    if kind is float:
        if -_SMALL < value < _SMALL:  # type: ignore[operator]
            text = repr(value)
            if "e" not in text:
                return f'"{text.removesuffix(".0")}{_DOUBLE}'
        return f'"{double_text(value)}{_DOUBLE}'  # type: ignore[arg-type]
    if kind is bool:
        return f'"true{_BOOLEAN}' if value else f'"false{_BOOLEAN}'
    return term_text(term_of(value))


TEXTS: MemoisedFunction[str, str | None] = MemoisedFunction(object_text)
NUMBERS: MemoisedFunction[float, str | None] = MemoisedFunction(object_text)
"""Memoised object texts of double values.

Zero must not be looked up in the memo of doubles, because 0.0 and -0.0 are one key of a dict.
"""


def node_text(value: Maybe) -> str | None:
    """Return the N-Triples text of a value as a subject or graph name.

    Returns None unless the value is an IRI or blank node.
    """
    return str(value) if type(value) is NamedNode or type(value) is BlankNode else None


def iri_text(value: Maybe) -> str | None:
    """Return the N-Triples text of a value as a predicate; None unless the value is an IRI."""
    return str(value) if type(value) is NamedNode else None


def same_value(left: Value, right: Value) -> bool:
    """Return True if two values stand for the same RDF term."""
    kind = type(left)
    if kind is not type(right):
        return False
    return left == right if kind is str or kind is int else same_term(left, right)


def key_of(value: Value) -> str | Term:
    """Return a dictionary key for an expression value; values of different terms have different keys."""
    return value if type(value) is str else term_of(value)


def triple_text(subject: str | None, predicate: str | None, value: str | None) -> str | None:
    """Return the N-Triples text of a triple term; None if a component is None."""
    return None if None in (subject, predicate, value) else f"<<( {subject} {predicate} {value} )>>"
