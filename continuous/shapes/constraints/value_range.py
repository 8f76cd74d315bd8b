"""Value range constraints: sh:minInclusive, sh:minExclusive, sh:maxInclusive and sh:maxExclusive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ...algebra.nodes import PathExpr, Term
from ...expressions.numeric import greater, greater_or_equal, less, less_or_equal
from ...expressions.values import Maybe
from ...rules.terms import RuleTerms
from ..data_graph import DataGraph
from ..datatypes import is_well_formed
from ..dependencies import NONE, Dependencies
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component
from .common import shown


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of the four components, with an operator of SPARQL and the words of its negation."""

    component: NamedNode
    holds: Callable[[Maybe, Maybe], bool | None]
    words: str


COMPARISONS = {
    "minExclusive": Comparison(component("MinExclusive"), greater, "is not greater than"),
    "minInclusive": Comparison(
        component("MinInclusive"), greater_or_equal, "is not greater than or equal to"
    ),
    "maxExclusive": Comparison(component("MaxExclusive"), less, "is not less than"),
    "maxInclusive": Comparison(component("MaxInclusive"), less_or_equal, "is not less than or equal to"),
}
"""The four value range components, by the local name of their parameter."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A limit of each value node; a value that SPARQL cannot compare with the limit is a violation."""

    comparison: Comparison
    limit: int

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each value node that is beyond the limit or not comparable with it."""
        comparison = self.comparison
        for value in values:
            if not self._accepts(value, data.terms):
                message = f"{shown(value, data)} {comparison.words} {term_text(data.term(self.limit))}"
                yield shape.result(data, comparison.component, focus, value, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that breaks the constraint."""
        terms = values.facts.terms
        return values.failing(lambda value: self._accepts(terms.id_of(value), terms))

    def _accepts(self, value: int, terms: RuleTerms) -> bool:
        table = terms.context.values
        return is_well_formed(table[value]) and self.comparison.holds(table[value], table[self.limit]) is True
