"""Logical constraints: sh:not, sh:and, sh:or, sh:xone (SHACL section 4.6)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from quadrill.store.terms import term_text

from ...algebra.nodes import PathExpr, Term
from ..data_graph import DataGraph
from ..dependencies import Dependencies, merged
from ..shape import Shape
from ..value_sets import ValueSets
from .common import OnValues


@dataclass(frozen=True, slots=True)
class Not(OnValues):
    """``sh:not``: no value node conforms to a shape."""

    shape: Shape

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a node that does not conform to the shape."""
        return not self.shape.conforms(value, data)

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the shape."""
        return f"conforms to the shape {term_text(self.shape.node)}, but must not"

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependencies of the shape."""
        return self.shape.reads().after(path)


@dataclass(frozen=True, slots=True)
class _Listed(OnValues):
    """A constraint with a list of shapes."""

    shapes: tuple[Shape, ...]

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependencies of the shapes."""
        return merged(shape.reads() for shape in self.shapes).after(path)


class And(_Listed):
    """``sh:and``: each value node conforms to all shapes of a list."""

    __slots__ = ()

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a node that conforms to all shapes."""
        return all(shape.conforms(value, data) for shape in self.shapes)

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return the focus nodes with a value node that may not conform to one of the shapes."""
        found = set[Term]()
        for shape in self.shapes:
            nodes = values.failing_shape(shape)
            if nodes is None:
                return None
            found |= nodes
        return found

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that lists the shapes."""
        return f"does not conform to all of the shapes {_names(self.shapes)}"


class Or(_Listed):
    """``sh:or``: each value node conforms to at least one shape of a list."""

    __slots__ = ()

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a node that conforms to at least one of the shapes."""
        return any(shape.conforms(value, data) for shape in self.shapes)

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return the focus nodes with a value node that may conform to none of the shapes."""
        found = [nodes for shape in self.shapes if (nodes := values.failing_shape(shape)) is not None]
        return set.intersection(*found) if found else None

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that lists the shapes."""
        return f"conforms to none of the shapes {_names(self.shapes)}, but must conform to at least one"


class Xone(_Listed):
    """``sh:xone``: each value node conforms to exactly one member of a list of shapes.

    A shape that the list repeats counts as several members.
    """

    __slots__ = ()

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a node that conforms to exactly one of the shapes."""
        return sum(shape.conforms(value, data) for shape in self.shapes) == 1

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that lists the shapes."""
        return f"does not conform to exactly one of the shapes {_names(self.shapes)}"


def _names(shapes: tuple[Shape, ...]) -> str:
    return ", ".join(term_text(shape.node) for shape in shapes)
