"""Helpers of constraint components: texts of terms for messages, and constraints on single values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ...algebra.nodes import PathExpr, Term
from ..data_graph import DataGraph
from ..dependencies import NONE, Dependencies
from ..paths_in_rdf import path_text
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component


def shown(term_id: int, data: DataGraph) -> str:
    """Return the text of a term for a message, at most 200 characters."""
    text = term_text(data.term(term_id))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def of_path(shape: Shape) -> str:
    """Return ``of`` and the path of a property shape, for a message about its values; "" for a node shape."""
    return "" if shape.path is None else f" of {path_text(shape.path)}"


_LONGEST = 200


@dataclass(frozen=True, slots=True)
class OnValues:
    """A constraint that each value node fulfils or not, independent of other value nodes.

    The name of a subclass is the local name of its constraint component without ``ConstraintComponent``.
    """

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each value node that does not fulfil the constraint."""
        for value in values:
            if not self.accepts(value, data):
                message = f"{shown(value, data)} {self.asked(data)}"
                yield shape.result(data, self.component, focus, value, message)

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True if a value node fulfils the constraint."""
        raise NotImplementedError

    def asked(self, data: DataGraph) -> str:
        """Return how a value breaks the constraint, as the rest of a sentence that starts with the value."""
        raise NotImplementedError

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies: the constraint looks at the terms of the value nodes only."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return None: the constraint is checked at each focus node, unless a subclass can do more."""
        return None

    @property
    def component(self) -> NamedNode:
        """The IRI of the constraint component."""
        return component(type(self).__name__)


@dataclass(frozen=True, slots=True)
class OnTerms(OnValues):
    """A constraint that each value node fulfils or not, whatever triples it has."""

    def fits(self, term: Term) -> bool:
        """Return True if a value node fulfils the constraint."""
        raise NotImplementedError

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True if a value node fulfils the constraint."""
        return self.fits(data.term(value))

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that does not fulfil the constraint."""
        return values.failing(self.fits)
