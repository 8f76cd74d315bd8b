"""Layouts and frames of rules.

A frame is a list with the term ids of a rule's variables and constants, None for unbound ones. A slot is the
index of a variable or constant in the frame; a layout assigns the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ..algebra import nodes as n
from .facts import Facts
from .terms import RuleTerms

Frame: TypeAlias = list[Any]
Matcher: TypeAlias = Callable[[Frame, Facts], Iterator[None]]
Names: TypeAlias = frozenset[str]
Scope: TypeAlias = Mapping[str, int]
"""The slots of variables by name."""


class Layout:
    """The slots of one rule, which all matchers of the rule share."""

    def __init__(self, terms: RuleTerms) -> None:
        self.terms = terms
        self._values: list[int | None] = []
        self._constants: dict[int, int] = {}

    def slot(self) -> int:
        """Add a slot that is unbound in a new frame, and return it."""
        self._values.append(None)
        return len(self._values) - 1

    def constant(self, term: n.Term) -> int:
        """Return the slot that holds a constant in every frame; add it for a new constant."""
        term_id = self.terms.id_of(term)
        place = self._constants.get(term_id)
        if place is None:
            place = self._constants[term_id] = self.slot()
            self._values[place] = term_id
        return place

    def frame(self) -> Frame:
        """Return a new frame in which only the constants are bound."""
        return self._values.copy()
