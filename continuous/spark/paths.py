"""Property paths as frames of pairs (from, to), with a graph column in GRAPH ?variable.

Source of property paths: SPARQL 1.1, section 18.4. As in the store, an alternative path returns each pair
once, and a path of zero steps connects the nodes of the graph, and a constant end of the path, with
themselves. Paths of any length are evaluated by iteration to the fixed point.
"""

from __future__ import annotations

from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ..algebra.columnar import Graphs
from ..algebra.corrected_patterns import matches_nothing
from ..algebra.nodes import (
    Alternative,
    Inverse,
    Link,
    NegatedSet,
    OneOrMore,
    PathExpr,
    Sequence,
    TermPattern,
    TripleTerm,
    Var,
    ZeroOrMore,
    ZeroOrOne,
)
from ..expressions.oxigraph import canonical
from .expressions import refuse
from .frames import Frame
from .scans import GraphName, in_graph, nodes_of
from .source import Quads

MOST_PAIRS = 20_000_000
"""Maximum number of pairs of a path of any length; the store evaluates paths with more pairs."""


class Paths:
    """Compiles property paths to Spark over one dataset."""

    def __init__(self, quads: Quads, dataset: Graphs) -> None:
        self._quads = quads
        self._dataset = dataset

    def pattern(self, subject: TermPattern, path: PathExpr, object_: TermPattern, graph: GraphName) -> Frame:
        """Return the frame of a property path pattern's solutions."""
        from pyspark.sql import functions as f

        data = self._pairs(path, graph)
        fixed = [term for term in (subject, object_) if not isinstance(term, (Var, TripleTerm))]
        if fixed and matches_nothing(path):
            data = self._with_itself(data, term_text(canonical(fixed[0])), graph)
        columns: dict[str, str] = {}
        places = [("from", subject), ("to", object_)]
        if isinstance(graph, Var):
            places.append(("g", graph))
        for place, term in places:
            match term:
                case Var(name) if name in columns:
                    data = data.where(f.col(place) == f.col(columns[name]))
                case Var(name):
                    columns[name] = place
                case TripleTerm():
                    raise refuse("a triple term with variables")
                case _:
                    data = data.where(f.col(place) == term_text(canonical(term)))
        nodes = {name for name, place in columns.items() if place == "g"}
        rows = float(self._quads.facts(None).rows)
        selected = data.select(*(f.col(place).alias(name) for name, place in columns.items()))
        return Frame(selected, frozenset(columns), frozenset(nodes), rows)

    def _with_itself(self, pairs: Any, text: str, graph: GraphName) -> Any:
        """Add the pair of a constant with itself, which a path of zero steps connects in every graph."""
        if graph is not None:
            raise refuse("a path of length zero from a constant in GRAPH")
        itself = self._quads.rows(["from", "to"], [(text, text)])
        return pairs.unionByName(itself.join(pairs, ["from", "to"], "left_anti"))

    def _pairs(self, path: PathExpr, graph: GraphName) -> Any:
        match path:
            case Link(iri):
                return self._edges(self._quads.of(iri.value), graph)
            case Inverse(inner):
                return _swapped(self._pairs(inner, graph))
            case Sequence(left, right):
                return _composed(self._pairs(left, graph), self._pairs(right, graph))
            case Alternative(left, right):
                return self._pairs(left, graph).unionByName(self._pairs(right, graph)).distinct()
            case NegatedSet(forward, inverse):
                return self._negated(forward, inverse, graph)
            case ZeroOrOne(inner):
                return self._loops(graph).unionByName(self._pairs(inner, graph)).distinct()
            case ZeroOrMore(inner):
                return self._loops(graph).unionByName(self._closure(inner, graph)).distinct()
            case OneOrMore(inner):
                return self._closure(inner, graph)

    def _edges(self, quads: Any, graph: GraphName) -> Any:
        from pyspark.sql import functions as f

        data = in_graph(quads, graph, self._dataset)
        if isinstance(graph, NamedNode):
            data = data.where(f.col("g") == term_text(graph))
        context = ["g"] if isinstance(graph, Var) else []
        return data.select(f.col("s").alias("from"), f.col("o").alias("to"), *context)

    def _negated(
        self, forward: tuple[NamedNode, ...], inverse: tuple[NamedNode, ...], graph: GraphName
    ) -> Any:
        from pyspark.sql import functions as f

        sides = []
        for excluded, turned in ((forward, False), (inverse, True)):
            if excluded:
                kept = self._quads.of(None).where(~f.col("p").isin(*map(term_text, excluded)))
                edges = self._edges(kept, graph)
                sides.append(_swapped(edges) if turned else edges)
        return sides[0] if len(sides) == 1 else sides[0].unionByName(sides[1]).distinct()

    def _loops(self, graph: GraphName) -> Any:
        """Return the pairs of a path of zero steps: each node of the graph with itself."""
        from pyspark.sql import functions as f

        nodes = nodes_of(graph, self._quads, self._dataset)
        context = ["g"] if isinstance(graph, Var) else []
        return nodes.select(f.col("node").alias("from"), f.col("node").alias("to"), *context)

    def _closure(self, inner: PathExpr, graph: GraphName) -> Any:
        """Return the pairs of one or more steps: compose pairs with themselves until no pair is new."""
        reached = self._pairs(inner, graph).distinct().localCheckpoint()
        size = reached.count()
        while size <= MOST_PAIRS:
            longer = reached.unionByName(_composed(reached, reached)).distinct().localCheckpoint()
            found = longer.count()
            if found == size:
                return reached
            reached, size = longer, found
        raise refuse(f"a path that connects more than {MOST_PAIRS:,} pairs")


def _swapped(pairs: Any) -> Any:
    from pyspark.sql import functions as f

    context = ["g"] if "g" in pairs.columns else []
    return pairs.select(f.col("to").alias("from"), f.col("from").alias("to"), *context)


def _composed(left: Any, right: Any) -> Any:
    """Compose pairs of paths: join the end of each left pair with the start of each right pair."""
    on = ["_middle", *(["g"] if "g" in left.columns else [])]
    return (
        left.withColumnRenamed("to", "_middle")
        .join(right.withColumnRenamed("from", "_middle"), on)
        .drop("_middle")
    )
