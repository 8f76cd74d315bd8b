"""The texts of values where they may stand in a statement, as the store writes them."""

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
"""The text of a value that may stand in some place of a statement; None of another one."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ufffe\uffff]*+').fullmatch
_SMALL = 2.0**49
"""Below it all doubles are written by their shortest digits."""
INTEGER, _DOUBLE, _BOOLEAN = (f'"^^<{XSD}{name}>' for name in ("integer", "double", "boolean"))


def text_of(value: Value) -> str:
    """The text of a value's term, as the store writes it."""
    return object_text(value) or ""


def object_text(value: Maybe) -> str | None:
    """The text of a value that can be an object, as any can."""
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
"""Those of texts and of numbers but zero, whose signs are one key."""


def node_text(value: Maybe) -> str | None:
    """The text of a value that can be a subject or a graph's name."""
    return str(value) if type(value) is NamedNode or type(value) is BlankNode else None


def iri_text(value: Maybe) -> str | None:
    """The text of a value that can be a predicate."""
    return str(value) if type(value) is NamedNode else None


def same_value(left: Value, right: Value) -> bool:
    """True for values of one term."""
    kind = type(left)
    if kind is not type(right):
        return False
    return left == right if kind is str or kind is int else same_term(left, right)


def key_of(value: Value) -> str | Term:
    """A value as a key: another term's is another one."""
    return value if type(value) is str else term_of(value)


def triple_text(subject: str | None, predicate: str | None, value: str | None) -> str | None:
    """The text of a triple term; None when one of its terms is none."""
    return None if None in (subject, predicate, value) else f"<<( {subject} {predicate} {value} )>>"
