"""The triples that a change adds to a data graph, and those that it removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..rules.facts import Fact

FactsByNode = Mapping[tuple[int, int], Sequence[Fact]]
"""Facts by position and node: 0 for the subject, 2 for the object."""


@dataclass(slots=True)
class FactChange:
    """The triples that only one of two states of a data graph has."""

    added: list[Fact] = field(default_factory=list)
    removed: list[Fact] = field(default_factory=list)
    _by_node: tuple[FactsByNode, FactsByNode] | None = None

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def by_node(self) -> tuple[FactsByNode, FactsByNode]:
        """Return the added and the removed triples by node; the change is complete before the first call."""
        if self._by_node is None:
            self._by_node = _by_node(self.added), _by_node(self.removed)
        return self._by_node


def _by_node(facts: Sequence[Fact]) -> FactsByNode:
    found: dict[tuple[int, int], list[Fact]] = {}
    for fact in facts:
        found.setdefault((0, fact[0]), []).append(fact)
        found.setdefault((2, fact[2]), []).append(fact)
    return found
