"""The triples that a SPARQL-based constraint depends on, as paths from its focus node.

A walk from ``$this`` goes over triple patterns that share variables: from the patterns of a group to those of
the same group and of the groups inside it. If the walk reaches a pattern, it gives a path from the focus node
to the pattern. A changed triple that matches the pattern can then change results only at the nodes from which
this path leads to the triple. A changed triple that matches a pattern without a path can change the results
of every focus node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyoxigraph import NamedNode

from ...algebra import nodes as n
from ...algebra.build import all_nodes, expressions, patterns_of
from ...algebra.variables import certain
from ...rules.paths import may_be_empty
from ...rules.triggers import union
from ..dependencies import ANY_PROPERTY, Dependencies, bounded, joined, predicates_of
from .bound_query import BoundQuery

Reached = Mapping[str, n.PathExpr | None]
"""Paths from the focus node to the values of variables; None leads to the focus node itself."""


def query_dependencies(query: BoundQuery, path: n.PathExpr | None) -> Dependencies:
    """Return the dependencies of a query; ``path`` leads from the focus node to ``$value``."""
    fixed: dict[str, n.PathExpr | None] = {"this": None}
    if "value" in query.prebound:
        fixed["value"] = path
    walk = _Walk(fixed)
    walk.visit(query.body, fixed)
    return bounded(walk.paths, walk.anywhere)


@dataclass(frozen=True, slots=True)
class _Step:
    """A triple pattern or a path pattern, as a path from its subject to its object."""

    subject: n.TermPattern
    path: n.PathExpr
    object: n.TermPattern


@dataclass(slots=True)
class _Walk:
    """The walk over one query; ``fixed`` has the paths to pre-bound variables, which all groups share."""

    fixed: Reached
    paths: set[n.PathExpr] = field(default_factory=set)
    anywhere: frozenset[NamedNode] | None = frozenset()

    def visit(self, node: n.Algebra, around: Reached) -> None:
        """Add the dependencies of a group; ``around`` has the paths to variables of the groups around it."""
        parts = _conjunction(node)
        steps = [step for part in parts for step in _steps(part)]
        reached = _extended(around, steps)
        for step in steps:
            self._add(step, reached)
        for part in parts:
            self._visit_part(part, reached)

    def _visit_part(self, node: n.Algebra, reached: Reached) -> None:
        match node:
            case n.Bgp() | n.Path():
                pass
            case n.Filter(_, inner) | n.Extend(inner, _, _):
                self._visit_exists(node, self._only(reached, certain(inner)))
            case n.LeftJoin(left, right, _):
                self.visit(left, reached)
                steps = [step for part in _conjunction(left) for step in _steps(part)]
                # Without a match of the right side, its variables are unbound and join with every value. So
                # only variables that the left side always binds lead to patterns of the right side.
                inside = self._only(_extended(reached, steps), certain(left))
                self.visit(right, inside)
                self._visit_exists(node, inside)
            case n.Union(left, right):
                self.visit(left, reached)
                self.visit(right, reached)
            case n.Graph(name, inner):
                if name != n.Var("shapesGraph"):
                    self._add_anywhere(inner)
            case n.Project(inner, variables):
                self.visit(inner, self._only(reached, [each.name for each in variables]))
            case n.Group(inner, keys, _):
                inside = self._only(reached, {key.name for key in keys} & certain(inner))
                self.visit(inner, inside)
                self._visit_exists(node, inside)
            case n.Distinct(inner) | n.OrderBy(inner, _):
                self.visit(inner, reached)
            case _:
                raise AssertionError(f"a SPARQL constraint has no {type(node).__name__}")

    def _visit_exists(self, node: n.Algebra, reached: Reached) -> None:
        for expression in expressions(node):
            for pattern in patterns_of(expression):
                self.visit(pattern, reached)

    def _only(self, reached: Reached, names: Collection[str]) -> Reached:
        return {name: path for name, path in reached.items() if name in names or name in self.fixed}

    def _add(self, step: _Step, reached: Reached) -> None:
        for end, path in ((step.subject, step.path), (step.object, n.Inverse(step.path))):
            if isinstance(end, n.Var) and end.name in reached:
                self.paths.add(joined(reached[end.name], path))
                self._add_node(end.name, path, reached[end.name])
                return
        self._add_predicates(step.path)

    def _add_node(self, name: str, path: n.PathExpr, before: n.PathExpr | None) -> None:
        """Add the triples that make a pre-bound node a node of the graph, if the path asks whether it is one.

        A path of length zero between two variables matches only nodes of the graph. A node that a triple
        leads to is one. A pre-bound variable is a constant, which a path of length zero matches in any graph.
        """
        if name in self.fixed:
            nodes = [before] if _has_empty_part_after_empty_part(path) else []
        elif before is None or may_be_empty(before):
            nodes = list(self.fixed.values()) if _begins_with_empty_part(path) else []
        else:
            nodes = []
        for node in nodes:
            self.paths |= {joined(node, ANY_PROPERTY), joined(node, n.Inverse(ANY_PROPERTY))}

    def _add_anywhere(self, node: n.Algebra) -> None:
        for each in all_nodes(node):
            for step in _steps(each):
                self._add_predicates(step.path)

    def _add_predicates(self, path: n.PathExpr) -> None:
        # A path of length zero matches at every node of the graph, and a triple with any predicate can add a
        # node.
        self.anywhere = union(self.anywhere, None if may_be_empty(path) else predicates_of(path))


def _conjunction(node: n.Algebra) -> list[n.Algebra]:
    """Return the joined operands of a group, which every solution matches, its FILTERs and its BINDs."""
    match node:
        case n.Join(left, right):
            return [*_conjunction(left), *_conjunction(right)]
        case n.Filter(_, inner) | n.Extend(inner, _, _):
            return [*_conjunction(inner), node]
        case _:
            return [node]


def _steps(node: n.Algebra) -> Iterable[_Step]:
    match node:
        case n.Bgp(patterns):
            return [
                _Step(
                    each.subject,
                    n.Link(each.predicate) if isinstance(each.predicate, NamedNode) else ANY_PROPERTY,
                    each.object,
                )
                for each in patterns
            ]
        case n.Path(subject, path, object_):
            return [_Step(subject, path, object_)]
        case _:
            return ()


def _extended(around: Reached, steps: Iterable[_Step]) -> Reached:
    """Return the paths to ``around``, and to the variables that steps connect with them."""
    reached = dict(around)
    waiting = list(steps)
    while True:
        rest = []
        for step in waiting:
            subject, value = (
                each.name if isinstance(each, n.Var) else None for each in (step.subject, step.object)
            )
            if subject in reached:
                if value is not None:
                    reached.setdefault(value, joined(reached[subject], step.path))
            elif value in reached:
                if subject is not None:
                    reached.setdefault(subject, joined(reached[value], n.Inverse(step.path)))
            else:
                rest.append(step)
        if len(rest) == len(waiting):
            return reached
        waiting = rest


def _begins_with_empty_part(path: n.PathExpr, *, inverse: bool = False) -> bool:
    """Return True if a part of length zero can begin at the start of a path; with ``inverse`` at its end."""
    match path:
        case n.Inverse(inner):
            return _begins_with_empty_part(inner, inverse=not inverse)
        case n.Alternative(left, right):
            return any(_begins_with_empty_part(each, inverse=inverse) for each in (left, right))
        case n.Sequence(left, right):
            near, far = (right, left) if inverse else (left, right)
            return _begins_with_empty_part(near, inverse=inverse) or (
                may_be_empty(near) and _begins_with_empty_part(far, inverse=inverse)
            )
        case _:
            return may_be_empty(path)


def _has_empty_part_after_empty_part(path: n.PathExpr, *, inverse: bool = False) -> bool:
    """Return True if a path can begin with two parts of length zero; with ``inverse`` if it can end so."""
    match path:
        case n.Inverse(inner):
            return _has_empty_part_after_empty_part(inner, inverse=not inverse)
        case n.Alternative(left, right):
            return any(_has_empty_part_after_empty_part(each, inverse=inverse) for each in (left, right))
        case n.Sequence(left, right):
            near, far = (right, left) if inverse else (left, right)
            return _has_empty_part_after_empty_part(near, inverse=inverse) or (
                may_be_empty(near) and _begins_with_empty_part(far, inverse=inverse)
            )
        case _:
            return False
