"""Interfaces of compiled rules and of their triggers, which the fixpoint uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .facts import Fact, Facts, Pattern
from .triggers import Occurrence


@dataclass(frozen=True, slots=True)
class Premise:
    """A triple that a pattern of a rule body matches in one solution.

    Attributes:
        triple: the term ids of the triple.
        graph: the id of the named graph that a pattern inside GRAPH matches; None outside of GRAPH.
        named: True for a pattern inside GRAPH.
    """

    triple: tuple[Pattern, Pattern, Pattern]
    graph: int | None = None
    named: bool = False


class RuleLike(Protocol):
    """A parsed rule; see `rule.Rule`."""

    @property
    def text(self) -> str:
        """The text of the rule; of a built-in rule its W3C name."""
        ...

    @property
    def patterns(self) -> Sequence[Occurrence]:
        """The triple patterns and paths of the body."""
        ...


class Evaluable(Protocol):
    """A compiled rule."""

    @property
    def rule(self) -> RuleLike:
        """The rule."""
        ...

    def heads(self, facts: Facts) -> Iterable[Fact]:
        """Return the head triples of all solutions over ``facts``; triples may repeat."""
        ...

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if the rule derives the fact from ``facts`` in one step."""
        ...

    def explain(self, fact: Fact, facts: Facts) -> Iterable[Sequence[Premise]]:
        """Return the premises of each solution that derives the fact; a list rule has one for each axiom."""
        ...

    def triggers(self) -> Sequence[TriggerLike]:
        """Return triggers that together cover every triple pattern and path of the body."""
        ...


class TriggerLike(Protocol):
    """Finds the solutions of a rule that changed facts can affect through a pattern of its body."""

    @property
    def closed(self) -> bool:
        """True if a new fact can remove solutions."""
        ...

    @property
    def predicates(self) -> frozenset[int] | None:
        """The ids of the predicates that a matching fact can have; None for any predicate."""
        ...

    @property
    def value(self) -> int | None:
        """The id of the object that a matching fact must have; None for any object."""
        ...

    @property
    def key(self) -> int | None:
        """The position (1 predicate, 2 object) in which all facts of a call of ``heads`` agree, or None."""
        ...

    @property
    def together(self) -> bool:
        """True if one call of ``heads`` gets all matching facts; False if each call gets one predicate's."""
        ...

    @property
    def selective(self) -> bool:
        """True if a fact with the predicate and object of the trigger may fail to match: call ``matches``."""
        ...

    @property
    def graph(self) -> int | None:
        """The id of the graph of a GRAPH pattern, 0 for a variable graph, None outside of GRAPH."""
        ...

    def matches(self, fact: Fact) -> bool:
        """Return True if a fact with the predicate and object of the trigger matches the pattern."""
        ...

    def heads(
        self, changed: Sequence[Fact], graph: int | None, facts: Facts, states: Sequence[Facts]
    ) -> Iterable[Fact]:
        """Return the head triples of all solutions over ``facts`` that changed facts can affect.

        Args:
            changed: changed facts that match the pattern, at least one; all agree in the position ``key``.
            graph: for a GRAPH pattern, the id of the graph of the changed facts.
            facts: the facts that the body is matched with.
            states: the states of the facts (before the change, after it, or both) in which paths through
                changed facts are searched.
        """
        ...
