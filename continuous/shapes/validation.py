"""Validation of a whole data graph."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from quadrill.store.terms import in_store_form

from ..rules.facts import MemoryFacts
from ..rules.terms import RuleTerms
from .data_graph import DataGraph
from .result import Result
from .shape import Shape


def validate(shapes: Iterable[Shape], data: DataGraph) -> list[Result]:
    """Return the results of all focus nodes of shapes: a multiset in no particular order.

    Raises:
        ShapesBudgetError: the validation exceeds the budget of ``data``.
    """
    found: list[Result] = []
    for shape in shapes:
        for focus in shape.focus_nodes(data):
            for result in shape.results(focus, data):
                found.append(result)
                data.budget.check_results(len(found))
    return found


def facts_of(quads: Iterable[Quad], terms: RuleTerms) -> MemoryFacts:
    """Return the triples of quads as facts in memory; the names of the graphs are ignored."""
    facts = MemoryFacts()
    ids = terms.dictionary.ids
    if terms.in_store_form:
        quads = in_store_form(quads)
    for quad in quads:
        facts.add((ids[quad.subject], ids[quad.predicate], ids[quad.object]))
    return facts
