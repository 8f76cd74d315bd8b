"""Triple patterns as scans of the mirror, and the join order of a group's operands.

A comparison of an object with a number or a time is part of the scan, because the mirror has typed columns,
for which Parquet's statistics can skip row groups (docs/bulk.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.bulk.mirror import PredicateFacts
from quadrill.store.terms import term_text

from ..algebra.columnar import Graphs
from ..algebra.nodes import Expr, TermPattern, TriplePattern, TripleTerm, Var
from ..expressions.oxigraph import canonical
from . import ranges
from .expressions import refuse
from .frames import Frame, join, quoted
from .source import Quads

GraphName = NamedNode | Var | None
_NODES = frozenset(("iri", "blank"))


def in_graph(data: Any, graph: GraphName, dataset: Graphs) -> Any:
    """Filter the mirror's quads to those that a pattern in ``graph`` can match within the dataset."""
    from pyspark.sql import functions as f

    if graph is None:
        if not dataset.default:
            return data.where(f.lit(False))
        name = dataset.default[0]  # The compiler refuses datasets with several default graphs.
        return data.where(f.col("g").isNull() if name is None else f.col("g") == name)
    data = data.where(f.col("g").isNotNull())
    return data if dataset.named is None else data.where(f.col("g").isin(*dataset.named))


def scan(
    pattern: TriplePattern, graph: GraphName, quads: Quads, dataset: Graphs, conditions: Iterable[Expr] = ()
) -> Frame:
    """Return the solutions of a triple pattern by a scan, with filters that `absorbed` returned."""
    from pyspark.sql import functions as f

    predicate = pattern.predicate
    name = predicate.value if isinstance(predicate, NamedNode) else None
    facts = quads.facts(name)
    data = in_graph(quads.of(name), graph, dataset)
    for condition in conditions:
        data = data.where(ranges.column(condition))
    places: list[tuple[str, TermPattern]] = [("s", pattern.subject), ("o", pattern.object)]
    if isinstance(predicate, Var):
        places.append(("p", predicate))
    if graph is not None:
        places.append(("g", graph))
    columns: dict[str, str] = {}
    rows = float(facts.rows)
    for place, term in places:
        match term:
            case Var(each) if each in columns:
                data = data.where(f.col(place) == f.col(columns[each]))
            case Var(each):
                columns[each] = place
            case TripleTerm():
                raise refuse("a triple term with variables")
            case _:
                data = data.where(f.col(place) == term_text(canonical(term)))
                if place != "g":
                    rows /= max(1, facts.subjects if place == "s" else facts.objects)
    names = frozenset(columns)
    nodes = {each for each, place in columns.items() if place != "o" or facts.kinds <= _NODES}
    distinct = {each: float(_distinct(facts, place)) for each, place in columns.items() if place in "so"}
    selected = data.select(*(f.col(place).alias(each) for each, place in columns.items()))
    return Frame(selected, names, frozenset(nodes), rows, distinct)


def absorbed(pattern: TriplePattern, conditions: Iterable[Expr], quads: Quads) -> list[Expr]:
    """Return the conditions that the scan of a pattern can evaluate on typed columns."""
    predicate, target = pattern.predicate, pattern.object
    if not isinstance(predicate, NamedNode) or not isinstance(target, Var):
        return []
    facts = quads.facts(predicate.value)
    return [each for each in conditions if ranges.decides(each, target.name, facts.kinds)]


def join_all(operands: list[Frame]) -> Frame:
    """Join a group's operands: begin with the smallest, then add the one with the fewest joined rows."""
    left = sorted(operands, key=lambda frame: frame.rows)
    result = left.pop(0)
    while left:
        seen = set(result.names)
        connected = [each for each in left if seen & set(each.names)] or left
        trials = [(_expected(result, each), place) for place, each in enumerate(connected)]
        chosen = connected[min(trials)[1]]
        left = [each for each in left if each is not chosen]
        result = join(result, chosen)
    return result


def _expected(left: Frame, right: Frame) -> float:
    from .frames import expected_rows

    return expected_rows(left, right)


def nodes_of(graph: GraphName, quads: Quads, dataset: Graphs) -> Any:
    """Return a graph's distinct subjects and objects: columns ``node`` and, in GRAPH ?variable, ``g``."""
    from pyspark.sql import functions as f

    data = in_graph(quads.of(None), graph, dataset)
    if isinstance(graph, NamedNode):
        data = data.where(f.col("g") == term_text(graph))
    context = ["g"] if isinstance(graph, Var) else []
    sides = [data.select(f.col(place).alias("node"), *context) for place in "so"]
    return sides[0].union(sides[1]).distinct()


def _distinct(facts: PredicateFacts, place: str) -> int:
    return facts.subjects if place == "s" else facts.objects


def is_constant(term: TermPattern) -> bool:
    """Return True for a term without variables and blank nodes."""
    return not isinstance(term, (Var, TripleTerm, BlankNode))


__all__ = ["GraphName", "absorbed", "in_graph", "is_constant", "join_all", "nodes_of", "quoted", "scan"]
