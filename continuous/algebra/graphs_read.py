"""Which graphs of the background dataset a pattern looks into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import NamedNode

from .build import children, expressions, sub_expressions
from .nodes import MERGED, Algebra, Bgp, Exists, Graph, Path, Service, TermPattern, Var, Window


@dataclass(frozen=True, slots=True)
class GraphsRead:
    """The default graph, all named graphs (``GRAPH ?g``), and the named graphs that the pattern names."""

    default: bool
    every: bool
    names: frozenset[NamedNode]


def graphs_read(node: Algebra) -> GraphsRead:
    """What the pattern looks into, patterns of EXISTS counted in, windows and SERVICE calls not.

    Of windows only the merged one of C-SPARQL reads stored data: its background is the default graph.
    """
    found = set(_reads(node, None))
    return GraphsRead(
        None in found,
        any(isinstance(each, Var) for each in found),
        frozenset(each for each in found if isinstance(each, NamedNode)),
    )


def _reads(node: Algebra, graph: TermPattern | None) -> Iterator[TermPattern | None]:
    match node:
        case Bgp() | Path():
            yield graph
            return
        case Service():
            return
        case Window(name, _, _):
            if name == MERGED:
                yield None
            return
        case Graph(name, inner):
            # GRAPH asks whether there is such a graph even when nothing is matched in it.
            yield name
            yield from _reads(inner, name)
            return
    for expression in expressions(node):
        for each in sub_expressions(expression):
            if isinstance(each, Exists):
                yield from _reads(each.pattern, graph)
    for child in children(node):
        yield from _reads(child, graph)
