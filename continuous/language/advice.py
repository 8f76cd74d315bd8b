"""Warnings about queries that are right and may still not be meant: growing windows, cross products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.build import all_nodes
from ..algebra.nodes import Algebra, Var
from ..algebra.query import WindowDeclaration
from ..algebra.variables import Names, expression_variables, in_scope, mentioned

_SHOWN = 3
Streams = Mapping[NamedNode, Var]


def advice(root: Algebra, windows: tuple[WindowDeclaration, ...]) -> Iterator[str]:
    """One sentence for each window with unbounded state and each group whose parts nothing connects."""
    for window in windows:
        if window.spec.kind == "all":
            stream = (
                f"<{window.stream.value}>" if isinstance(window.stream, NamedNode) else _var(window.stream)
            )
            yield f"The window [ALL] on {stream} keeps everything: its state is unbounded."
    streams = {window.name: window.stream for window in windows if isinstance(window.stream, Var)}
    for group in _groups(root):
        yield from _products(group, streams)


def _groups(root: Algebra) -> Iterator[Algebra]:
    """The patterns that are joined as a whole: of the query, its sub-queries, each branch of a UNION.

    What OPTIONAL, EXISTS and a UNION among other patterns hold is connected by what stands around it.
    """
    stack = [root]
    stack += [node.input for node in all_nodes(root) if isinstance(node, (a.Project, a.Group))]
    while stack:
        node = stack.pop(0)
        if isinstance(node, a.Union):
            stack[:0] = [node.left, node.right]
        else:
            yield node


def _products(group: Algebra, streams: Streams) -> Iterator[str]:
    components: list[Names] = []
    for names in _parts(group, streams):
        joined = names
        apart = []
        for component in components:
            if component & joined:
                joined |= component
            else:
                apart.append(component)
        components = [*apart, joined] if joined else apart
    shown = [text for component in components if (text := _shown(component))]
    if len(shown) > 1:
        yield (
            f"Nothing connects {' with '.join(sorted(shown))}: "
            "each row of one is combined with each row of the other."
        )


def _parts(node: Algebra, streams: Streams) -> Iterator[Names]:
    """The variables of each pattern that is joined, and of each condition that connects some."""
    match node:
        case a.Join(left, right):
            yield from _parts(left, streams)
            yield from _parts(right, streams)
        case a.Bgp(patterns):
            for pattern in patterns:
                yield mentioned(a.Bgp((pattern,)))
        case a.Filter(condition, inner):
            yield expression_variables(condition)
            yield from _parts(inner, streams)
        case a.Extend(inner, var, expr):
            used = expression_variables(expr)
            yield used | {var.name} if used else frozenset()
            yield from _parts(inner, streams)
        case a.LeftJoin(left, right, condition):
            yield from _parts(left, streams)
            yield from _parts(right, streams)
            yield frozenset() if condition is None else expression_variables(condition)
        case a.Minus(left, _):
            yield from _parts(left, streams)
        case a.Graph(name, inner) | a.Window(name, inner) | a.Service(name, inner):
            own = frozenset({name.name}) if isinstance(name, Var) else frozenset()
            if isinstance(name, NamedNode) and name in streams:
                own |= {streams[name].name}  # STREAM ?s
            for part in _parts(inner, streams):
                yield part | own if part else part
        case a.Values(_, rows) if len(rows) < 2:
            return  # one row makes no product
        case a.OrderBy(inner) | a.Distinct(inner) | a.Reduced(inner) | a.Slice(inner):
            yield from _parts(inner, streams)
        case a.Group(inner, keys, _) if not keys:
            return  # one row
        case a.Project(inner, variables):
            if not _is_one_row(inner):
                yield frozenset(var.name for var in variables)
        case _:
            yield in_scope(node)


def _is_one_row(node: Algebra) -> bool:
    while isinstance(node, (a.Extend, a.OrderBy, a.Filter)):
        node = node.input
    return isinstance(node, a.Group) and not node.keys


def _shown(component: Names) -> str:
    names = sorted(name for name in component if not name.startswith("_:"))
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(f"?{name}" for name in names[:_SHOWN]) + more


def _var(var: Var) -> str:
    return f"?{var.name}"
