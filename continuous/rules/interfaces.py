"""What the fixpoint asks of a compiled rule and of its triggers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .facts import Fact, Facts, Pattern
from .triggers import Occurrence


@dataclass(frozen=True, slots=True)
class Premise:
    """What one triple pattern of a body matches.

    Attributes:
        triple: term ids; None where the pattern has a triple term.
        graph: the id of the graph of a GRAPH pattern.
        named: True inside GRAPH.
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
        """Return True if a solution over ``facts`` gives the fact."""
        ...

    def explain(self, fact: Fact, facts: Facts) -> Iterable[Sequence[Premise]]:
        """Return the premises of each solution, or of some solutions, that give the fact."""
        ...

    def triggers(self) -> Sequence[TriggerLike]:
        """Return a trigger for each triple pattern of the body."""
        ...


class TriggerLike(Protocol):
    """One triple pattern of a rule body: which solutions changed facts can affect."""

    @property
    def closed(self) -> bool:
        """True if a new fact can remove solutions."""
        ...

    @property
    def predicates(self) -> frozenset[int] | None:
        """Ids of the predicates of facts that can match; None for all."""
        ...

    @property
    def value(self) -> int | None:
        """The id of the object of facts that can match; None for all."""
        ...

    @property
    def key(self) -> int | None:
        """The place where all facts of a call of ``heads`` have the same term; None if they may differ."""
        ...

    @property
    def together(self) -> bool:
        """True if one call of ``heads`` gets facts of all predicates."""
        ...

    @property
    def selective(self) -> bool:
        """True if some facts with the predicate and object of the trigger do not match."""
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
            changed: changed facts that match the pattern, at least one, grouped as ``key`` says.
            graph: the id of their graph for a GRAPH pattern.
            facts: the facts that the body is matched with.
            states: the facts before and after the change, between which paths may differ.
        """
        ...
