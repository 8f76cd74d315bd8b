"""Triggers: the quads that can change the rows of a static pattern (docs/semantics.md, section 6).

A trigger is a triple pattern within a static pattern, with some of its variables. If a quad that matches a
trigger's triple pattern is added or removed, every row that changes has the quad's values for the trigger's
variables:

    Bgp(?x :p ?y . ?y :q ?z)   ->   (?x :p ?y) by (?x ?y),   (?y :q ?z) by (?y ?z)

For instance, if ``:a :p :b`` is added or removed, only rows with ?x = :a and ?y = :b can appear or disappear.
Every operator of a static pattern keeps this invariant of triggers: a row that the operator returns only
before or only after a change of quads binds the variables of some trigger to the values of a changed quad.
Variables that an operator hides (projection, aggregation) or may leave unbound (the right side of OPTIONAL)
are removed from the pattern's triggers. A trigger without variables means that any row of the static pattern
may have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from . import nodes as n
from .build import all_nodes, expressions, sub_expressions
from .nodes import Algebra, Term, TermPattern, TriplePattern, TripleTerm, Var
from .variables import NO_NAMES, Names, certain, in_scope, triple_variables

Key = tuple[str, ...]
"""The names of the variables of a trigger, in alphabetical order."""

_ANY = Var("")
"""A variable in a trigger's pattern that matches any term and binds nothing."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A triple pattern within a static pattern, with the variables that changed rows share with a quad.

    A trigger whose ``pattern`` is None stands for the creation and removal of graphs. A trigger's ``graph``
    None is the default graph of the query's dataset; a variable stands for any named graph of the dataset.
    ``graph_key`` is the variable that is bound to the graph's name in every changed row. ``names`` are the
    variables that are bound to terms of the quad in every changed row.
    """

    pattern: TriplePattern | None
    graph: NamedNode | Var | None
    names: Names = NO_NAMES
    graph_key: str | None = None

    @property
    def predicate(self) -> NamedNode | None:
        """The predicate that a quad must have to match the trigger; None if any predicate may match."""
        found = None if self.pattern is None else self.pattern.predicate
        return found if isinstance(found, NamedNode) else None

    @property
    def key(self) -> Key:
        """The variables whose values in every changed row equal those of the matching quad."""
        return tuple(sorted(self.names | ({self.graph_key} if self.graph_key else NO_NAMES)))

    def match(self, quad: Quad) -> dict[str, Term] | None:
        """Return the values of the trigger's key variables if a quad matches; None if it does not match.

        Key variables with blank nodes are omitted, because no query text can name a blank node.
        """
        assert self.pattern is not None
        bound: dict[str, Term] = {}
        if not (
            _unify(self.pattern.subject, quad.subject, bound)
            and _unify(self.pattern.predicate, quad.predicate, bound)
            and _unify(self.pattern.object, quad.object, bound)
        ):
            return None
        values = {name: bound[name] for name in self.names if can_be_named(bound[name])}
        if self.graph_key and isinstance(quad.graph_name, NamedNode):
            values[self.graph_key] = quad.graph_name
        return values


def triggers(pattern: Algebra) -> tuple[Trigger, ...] | None:
    """Return the triggers of a static pattern; None if the pattern has a SERVICE call."""
    if any(isinstance(each, n.Service) for each in all_nodes(pattern)):
        return None
    sure = certain(pattern)
    found = (_keep(each, sure) for each in _found(pattern, None))
    # A trigger with fewer key variables covers more rows, so removing variables that may be unbound is safe.
    return tuple(dict.fromkeys(found))


def _found(node: Algebra, graph: NamedNode | Var | None) -> Iterator[Trigger]:
    """Yield the triggers of an algebra node; ``graph`` is the name of the enclosing GRAPH block."""
    yield from _inside_expressions(node, graph)
    match node:
        case n.Bgp(patterns):
            for each in patterns:
                yield Trigger(each, graph, triple_variables(each))
        case n.Path(subject, path, object_):
            for each, names in _steps(path, subject, object_):
                yield Trigger(each, graph, names)
        case n.Values() | n.TableNode():
            return
        case n.Join(left, right) | n.Union(left, right):
            yield from _found(left, graph)
            yield from _found(right, graph)
        case n.LeftJoin(left, right, _) | n.Minus(left, right):
            yield from _found(left, graph)
            sure = certain(left)
            for found in _found(right, graph):
                yield _keep(found, sure)
        case n.Graph(name, inner):
            yield from _of_graph(name, inner)
        case n.Filter(_, inner) | n.Extend(inner, _, _) | n.Distinct(inner):
            yield from _found(inner, graph)
        case n.OrderBy(inner, _):
            yield from _found(inner, graph)
        case n.Project(inner, variables) | n.Group(inner, variables, _):
            shown = frozenset(each.name for each in variables)
            for found in _found(inner, graph):
                yield _keep(found, shown)
        case n.Slice(inner, _, _):
            for found in _found(inner, graph):
                yield _keep(found, NO_NAMES)
        case n.Window() | n.Service():
            raise AssertionError("not in a static part that follows the store")


def _of_graph(name: NamedNode | Var, inner: Algebra) -> Iterator[Trigger]:
    for found in _found(inner, name):
        if isinstance(name, Var) and found.graph == name:
            yield replace(found, names=found.names - {name.name}, graph_key=name.name)
        else:
            yield found
    if not _needs_quads(inner):
        yield Trigger(None, name, graph_key=name.name if isinstance(name, Var) else None)


def _inside_expressions(node: Algebra, graph: NamedNode | Var | None) -> Iterator[Trigger]:
    """Yield the triggers of the EXISTS patterns in a node's expressions."""
    patterns = [
        each.pattern
        for expr in expressions(node)
        for each in sub_expressions(expr)
        if isinstance(each, n.Exists)
    ]
    if not patterns:
        return
    tested = node.left if isinstance(node, n.LeftJoin) else getattr(node, "input", n.Bgp())
    sure = NO_NAMES if isinstance(node, n.Group) else certain(tested)
    for pattern in patterns:
        visible = in_scope(pattern)
        for found in _found(pattern, graph):
            yield _keep(found, sure & visible)


def _keep(found: Trigger, names: Names) -> Trigger:
    graph_key = found.graph_key if found.graph_key in names else None
    return replace(found, names=found.names & names, graph_key=graph_key)


def _steps(
    path: n.PathExpr, subject: TermPattern, object_: TermPattern
) -> Iterator[tuple[TriplePattern, Names]]:
    """Yield the triple patterns of a property path, each with its variables.

    Only the first and last steps of a property path contain the path's subject and object.
    """
    match path:
        case n.Link(iri):
            yield _step(subject, iri, object_)
        case n.Inverse(inner):
            yield from _steps(inner, object_, subject)
        case n.Sequence(left, right):
            yield from _steps(left, subject, _ANY)
            yield from _steps(right, _ANY, object_)
        case n.Alternative(left, right):
            yield from _steps(left, subject, object_)
            yield from _steps(right, subject, object_)
        case n.OneOrMore(inner):
            yield from _steps(inner, _ANY, _ANY)
        case n.NegatedSet(_, inverse):
            yield _step(subject, _ANY, object_)
            if inverse:
                yield _step(object_, _ANY, subject)
        case n.ZeroOrMore() | n.ZeroOrOne():
            # A path of length zero matches every node of the graph, so any quad may change any row.
            yield _step(_ANY, _ANY, _ANY)


def _step(
    subject: TermPattern, predicate: NamedNode | Var, object_: TermPattern
) -> tuple[TriplePattern, Names]:
    pattern = TriplePattern(subject, predicate, object_)
    return pattern, triple_variables(pattern) - {""}


def _needs_quads(node: Algebra) -> bool:
    """Return True if the pattern has no solution over a graph without quads."""
    match node:
        case n.Bgp(patterns):
            return bool(patterns)
        case n.Path(_, path, _):
            return not isinstance(path, n.ZeroOrMore | n.ZeroOrOne)
        case n.Join(left, right):
            return _needs_quads(left) or _needs_quads(right)
        case n.Union(left, right):
            return _needs_quads(left) and _needs_quads(right)
        case n.LeftJoin(left, _, _) | n.Minus(left, _):
            return _needs_quads(left)
        case n.Group(inner, keys, _):
            return bool(keys) and _needs_quads(inner)
        case n.Filter() | n.Extend() | n.Project() | n.Distinct() | n.Slice() | n.OrderBy():
            return _needs_quads(node.input)
        case _:
            return False


def _unify(pattern: TermPattern, term: Term, bound: dict[str, Term]) -> bool:
    """Return True if a term matches a pattern; the values of variables are added to ``bound``."""
    if isinstance(pattern, Var):
        if pattern is _ANY or not pattern.name:
            return True
        return bound.setdefault(pattern.name, term) == term
    if isinstance(pattern, TripleTerm):
        return (
            isinstance(term, Triple)
            and _unify(pattern.subject, term.subject, bound)
            and _unify(pattern.predicate, term.predicate, bound)
            and _unify(pattern.object, term.object, bound)
        )
    return pattern == term


def can_be_named(term: Term) -> bool:
    """Return False for terms with blank nodes, even in triple terms, which a query text cannot name."""
    if isinstance(term, Triple):
        return can_be_named(term.subject) and can_be_named(term.object)
    return not isinstance(term, BlankNode | DefaultGraph)


def unkeyed(pattern: Algebra) -> str | None:
    """Return the reason why the rows of a static pattern cannot be read by key; None if they can.

    The rows of a static pattern can be read by key if a row does not depend on other rows, and if every
    trigger has variables.
    """
    for each in all_nodes(pattern):
        if isinstance(each, n.Slice | n.Group):
            return f"it has {_NAMES[type(each)]}"
        if isinstance(each, n.Path) and "ZeroOr" in repr(each.path):
            return "it has a path of zero steps"
        for outer in expressions(each):
            if any(isinstance(inner, n.FunctionCall) for inner in sub_expressions(outer)):
                return "it calls an extension function"
    if not all(each.key for each in triggers(pattern) or ()):
        return "some commits change rows that no key tells of"
    return None


_NAMES = {n.Slice: "LIMIT or OFFSET", n.Group: "GROUP BY"}
