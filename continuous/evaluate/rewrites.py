"""The rewrites that a query goes through before it is split and evaluated, in order."""

from __future__ import annotations

from dataclasses import replace

from pyoxigraph import NamedNode

from ..algebra.build import map_children, map_expressions, map_patterns
from ..algebra.idle_minus import drop_idle_minus
from ..algebra.nodes import Algebra, Distinct, OrderBy, Project, Reduced, Slice, Var, Window
from ..algebra.query import ContinuousQuery
from ..algebra.scope import move_outward
from ..algebra.timestamps import read_timestamps
from ..algebra.variables import in_scope
from ..algebra.volatile import tie_to_rows


def prepare(query: ContinuousQuery) -> Algebra:
    """The algebra that is evaluated: every rewriting of docs/semantics.md, section 5, done."""
    root = bind_streams(
        query.root, {each.name: each.stream for each in query.windows if isinstance(each.stream, Var)}
    )
    root = lift_modifiers(drop_idle_minus(move_outward(root)))
    if query.form != "ask":
        root = with_projection(root)
    return tie_to_rows(read_timestamps(root))


def bind_streams(node: Algebra, streams: dict[NamedNode, Var]) -> Algebra:
    """Each window on a variable stream says that it binds that variable."""
    if not streams:
        return node
    if isinstance(node, Window) and isinstance(node.name, NamedNode) and node.name in streams:
        return replace(node, stream=streams[node.name])
    node = map_expressions(node, lambda expr: map_patterns(expr, lambda inner: bind_streams(inner, streams)))
    return map_children(node, lambda child: bind_streams(child, streams))


def lift_modifiers(node: Algebra) -> Algebra:
    """Projection and solution modifiers that stand inside a window move out of it.

    Before ``Window(w, Project(P, columns))``, as C-SPARQL's merged window has it around a whole query; after
    ``Project(Window(w, P), columns)``. Safe because a window changes only the dataset of patterns.
    """
    match node:
        case Window(NamedNode(), Project() | Distinct() | Reduced() | Slice() | OrderBy() as inner, None):
            inside = lift_modifiers(replace(node, input=inner.input))
            lifted: Algebra = replace(inner, input=inside)
            return map_expressions(
                lifted, lambda expr: map_patterns(expr, lambda pattern: replace(node, input=pattern))
            )
        case Project() | Distinct() | Reduced() | Slice() | OrderBy():
            return map_children(node, lift_modifiers)
        case _:
            return node


def with_projection(node: Algebra) -> Algebra:
    """The query with an explicit Project of its visible variables below its modifiers."""
    if isinstance(node, (Slice, Distinct, Reduced)):
        return map_children(node, with_projection)
    if isinstance(node, Project):
        return node
    return Project(node, tuple(Var(name) for name in sorted(in_scope(node)) if not name.startswith("_:")))
