"""Shapes: their constraints, and the validation of one focus node (SHACL section 3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyoxigraph import Literal, NamedNode

from ..algebra.nodes import PathExpr, Term
from ..rules.paths import PathSteps
from .copied_facts import CopiedFacts
from .data_graph import DataGraph
from .dependencies import NONE, Dependencies, merged, reading
from .result import Result
from .targets import Target
from .value_sets import ValueSets
from .vocabulary import VIOLATION


class Constraint(Protocol):
    """One constraint of a shape: a constraint component with values for its parameters."""

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield the results of the constraint at a focus node, whose value nodes are ``values``."""
        ...

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the triples that the results depend on, except those that lead to the value nodes.

        ``path`` leads from the focus node to the value nodes; None if the focus node is its own value node.
        """
        ...

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return at least the focus nodes at which the constraint has results.

        The answer is None if the constraint can only be checked at each focus node.
        """
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """A node shape, or, if it has a path, a property shape.

    Shapes are equal only if they are the same object.

    Attributes:
        node: the node of the shape in the shapes graph.
        targets: the target declarations; none for a shape that only other shapes use.
        path: the path from a focus node to its value nodes; None for a node shape.
        steps: the evaluation of ``path``.
        predicate: the id of the predicate if ``path`` is a single predicate, whose objects are looked up
            instead of an evaluation of ``steps``.
        constraints: the constraints that are checked at each focus node.
        severity: the severity of results.
        messages: values of sh:message, which replace the built-in messages.
        deactivated: True if every node conforms to the shape.
        known: the cached result of `reads`; empty before its first call.
    """

    node: Term
    targets: tuple[Target, ...] = ()
    path: PathExpr | None = None
    steps: PathSteps | None = None
    predicate: int | None = None
    constraints: tuple[Constraint, ...] = ()
    severity: NamedNode = VIOLATION
    messages: tuple[Literal, ...] = ()
    deactivated: bool = False
    known: list[Dependencies] = field(default_factory=list, repr=False)

    def focus_nodes(self, data: DataGraph) -> set[int]:
        """Return the ids of the focus nodes that the targets select; none for a deactivated shape."""
        if self.deactivated:
            return set()
        return {node for target in self.targets for node in target.nodes(data)}

    def focus_terms(self, facts: CopiedFacts) -> set[Term]:
        """Return the focus nodes that the targets select; none for a deactivated shape."""
        if self.deactivated:
            return set()
        return {node for target in self.targets for node in target.terms(facts)}

    def is_focus_node(self, node: int, data: DataGraph) -> bool:
        """Return True if a target selects a node and the shape is not deactivated."""
        return not self.deactivated and any(target.selects(node, data) for target in self.targets)

    def values(self, focus: int, data: DataGraph) -> Sequence[int]:
        """Return the ids of the value nodes of a focus node, each once."""
        if self.predicate is not None:
            return data.objects(focus, self.predicate)
        return (focus,) if self.steps is None else data.reached(self.steps, focus)

    def results(
        self, focus: int, data: DataGraph, constraints: Sequence[Constraint] | None = None
    ) -> Iterator[Result]:
        """Yield the results of validating one node, whether or not a target selects it.

        With ``constraints``, only these constraints of the shape are checked.
        """
        if self.deactivated:
            return
        values = self.values(focus, data)
        for constraint in self.constraints if constraints is None else constraints:
            yield from constraint.check(self, focus, values, data)

    def candidates(self, values: ValueSets) -> tuple[set[Term], Sequence[Constraint]]:
        """Return nodes that may have results, and the constraints that must be checked at the other nodes.

        Args:
            values: the nodes, each its own value node.
        """
        if self.deactivated:
            return set(), ()
        found = set[Term]()
        if self.path is not None:
            column = values.facts.along(self.path)
            if column is None:
                return found, self.constraints
            values = replace(values, column=column)
        unchecked = []
        for constraint in self.constraints:
            values.checks.left -= 1
            nodes = constraint.candidates(values) if values.checks.left >= 0 else None
            if nodes is None:
                unchecked.append(constraint)
            else:
                found |= nodes
        return found, unchecked

    def conforms(self, node: int, data: DataGraph) -> bool:
        """Return True if the validation of the node has no results of any severity."""
        known = data.conforming.get((self, node))
        if known is None:
            known = next(self.results(node, data), None) is None
            data.remember(self, node, known)
        return known

    def reads(self) -> Dependencies:
        """Return the triples that the results of validating one node depend on, without its targets."""
        if self.deactivated:
            return NONE
        if not self.known:
            parts = [constraint.reads(self.path) for constraint in self.constraints]
            if self.path is not None:
                parts.append(reading(self.path))
            self.known.append(merged(parts))
        return self.known[0]

    def dependencies(self) -> Dependencies:
        """Return the triples that the results of the shape and the choice of its focus nodes depend on."""
        return merged((self.reads(), *(target.reads() for target in self.targets)))

    def result(
        self,
        data: DataGraph,
        component: NamedNode,
        focus: int,
        value: int | None,
        message: str,
        *,
        path: PathExpr | None = None,
    ) -> Result:
        """Return a result of a built-in constraint.

        Args:
            data: the data graph.
            component: the constraint component.
            focus: the id of the focus node.
            value: the id of the value node that is wrong; None if no single value is.
            message: the built-in message, which the messages of the shape replace.
            path: the path of the result; the path of the shape if it is None.
        """
        return Result(
            data.term(focus),
            self.path if path is None else path,
            None if value is None else data.term(value),
            self.node,
            component,
            None,
            self.severity,
            self.messages or (Literal(message),),
        )
