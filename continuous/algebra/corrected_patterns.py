"""Rewrites graph patterns that Oxigraph evaluates incorrectly into patterns with SPARQL's solutions.

Source: SPARQL 1.1 Query, sections 18.4 (paths), 18.5 (set functions) and 18.6 (the evaluation of GRAPH).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count

from pyoxigraph import BlankNode, Literal

from . import nodes as n
from .build import UNIT, all_nodes, children, expressions, join, with_children, with_expressions
from .canonical import rename
from .corrected_expressions import Calls, is_language, lower_text, rewritten
from .nodes import Algebra, Call, Expr, TermPattern, Var
from .variables import certain, in_scope, mentioned

IsNode = Callable[[n.Term, TermPattern | None], bool]
"""A function that tells whether a graph is known to contain a term as a node.

In the question whether a term is a node, None as the graph stands for the default graph.
"""


@dataclass(slots=True)
class Corrections:
    """One pass over a query that corrects the patterns which Oxigraph evaluates incorrectly.

    Attributes:
        is_node: tells which constants occur in the graph, so that a zero-length path from them needs no
            correction.
        calls: the kinds of calls in expressions that are corrected.
        native: the native engine evaluates the pattern, too; paths of length zero and GRAPH then need no
            correction.
        outer: the variables bound before the enclosing LATERAL; None outside LATERAL.
        count_differs: the query has a COUNT of an expression, in whose place text.py counts a variable.
    """

    is_node: IsNode
    calls: Calls
    native: bool = False
    outer: frozenset[str] | None = None
    count_differs: bool = False
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def rewrite(self, node: Algebra, graph: TermPattern | None = None) -> Algebra:
        """Return the pattern corrected for Oxigraph; ``graph`` is the GRAPH block around it, None without."""
        match node:
            case n.Path():
                return self._path(node, graph)
            case n.Graph(name, _) if not self.native:
                scoped = self._scoped(node)
                if scoped is not node:
                    return self.rewrite(scoped, graph)
                return with_children(node, [self.rewrite(node.input, name)])
            case n.Service(name, _) if name != n.LATERAL:
                # The remote endpoint, not Oxigraph, evaluates the pattern of a SERVICE call, so it needs no
                # correction.
                return node
            case n.Service():
                return self._lateral(node, frozenset(), graph)
            case n.Group():
                node = self._group(node)
            case n.Join():
                node = _with_lower_tags(node)
            case n.Minus() if isinstance(graph, Var) and not self.native:
                parted = self._minus(node)
                if parted is not node:
                    return self.rewrite(parted, graph)
        changed = [
            rewritten(each, self.calls, lambda below: self.rewrite(below, graph))
            for each in expressions(node)
        ]
        new = with_expressions(node, changed)
        if isinstance(new, n.Join) and isinstance(new.right, n.Service) and new.right.name == n.LATERAL:
            return with_children(
                new, [self.rewrite(new.left, graph), self._lateral(new.right, in_scope(new.left), graph)]
            )
        below = [self.rewrite(each, graph) for each in children(new)]
        if isinstance(new, n.Join):
            left, right = below
            if left is new.left and right is new.right:
                return new
            # A zero-length path from a constant has few rows, so the path is joined first.
            return join(right, left) if _is_zero(right) and not _is_zero(left) else join(left, right)
        return with_children(new, below)

    def _lateral(self, node: n.Service, bound: frozenset[str], graph: TermPattern | None) -> Algebra:
        before = self.outer
        self.outer = bound if before is None else before | bound
        try:
            return with_children(node, [self.rewrite(node.input, graph)])
        finally:
            self.outer = before

    def hidden(self) -> Var:
        """Return a new variable whose name no query text can contain."""
        return Var(f"_:corrected {next(self._numbers)}")

    # --- GRAPH ?g: patterns in the block do not see the variable ?g (SPARQL 1.1, section 18.6)

    def _scoped(self, node: n.Graph) -> Algebra:
        name, inner = node.name, node.input
        if not isinstance(name, Var) or name.name not in mentioned(inner) or _binds_plainly(inner, name.name):
            return node
        if any(isinstance(each, n.TableNode) for each in all_nodes(inner)):
            # The rows of a static part belong to no graph, so a GRAPH block with a static part is not
            # changed.
            return node
        own = self.hidden()
        inside = rename(inner, {name.name: own.name})
        if name.name not in in_scope(inner):
            return replace(node, input=inside)
        if any(isinstance(each, _UNNAMED) for each in all_nodes(inner)):
            return node  # Oxigraph does not say in which graph a sub-query was evaluated
        # The block of GRAPH ?g may leave ?g unbound, so the graph name is joined by a condition, as SPARQL
        # defines.
        graph = self.hidden()
        same = Call("||", (Call("!", (Call("BOUND", (own,)),)), Call("SAMETERM", (own, graph))))
        found = n.Filter(same, n.Graph(graph, inside))
        columns = tuple(Var(each) for each in sorted(in_scope(node)))
        return n.Project(n.Extend(found, name, graph), columns)

    def _minus(self, node: n.Minus) -> Algebra:
        """Rewrite MINUS in the block of GRAPH ?g, where Oxigraph takes ?g for a shared variable.

        In SPARQL, MINUS removes only solutions that share another bound variable with the right side.
        """
        left, right = node.left, node.right
        shared = in_scope(left) & in_scope(right)
        if not shared:
            return left
        if shared & certain(left) & certain(right) or any(
            isinstance(each, n.TableNode) for each in all_nodes(right)
        ):
            return node
        hidden = {name: self.hidden() for name in sorted(mentioned(right))}
        pairs = [(Var(name), hidden[name]) for name in sorted(shared)]
        both = [Call("&&", (Call("BOUND", (a,)), Call("BOUND", (b,)))) for a, b in pairs]
        alike = [
            Call("||", (Call("!", (bound,)), Call("SAMETERM", pair)))
            for bound, pair in zip(both, pairs, strict=True)
        ]
        condition = reduce(lambda a, b: Call("||", (a, b)), both)
        condition = reduce(lambda a, b: Call("&&", (a, b)), alike, condition)
        renamed = rename(right, {name: var.name for name, var in hidden.items()})
        return n.Filter(n.Exists(n.Filter(condition, renamed), True), left)

    # --- set functions (18.5.1)

    def _group(self, node: n.Group) -> n.Group:
        aggregates = []
        for var, each in node.aggregates:
            if each.name == "COUNT" and each.expr is not None and not isinstance(each.expr, Var):
                self.count_differs = True
            if each.name == "GROUP_CONCAT" and each.expr is not None and not _is_text(each.expr):
                each = replace(each, expr=Call("STR", (each.expr,)))
            aggregates.append((var, each))
        return node if tuple(aggregates) == node.aggregates else replace(node, aggregates=tuple(aggregates))

    # --- property paths (18.4)

    def _path(self, node: n.Path, graph: TermPattern | None) -> Algebra:
        subject, path, obj = node.subject, node.path, node.object
        match path:
            case n.Link(iri) if not isinstance(subject, Literal):
                return n.Bgp((n.TriplePattern(subject, iri, obj),))
            case n.Inverse(inner):
                turned = n.Path(obj, inner, subject)
                found = self._path(turned, graph)
                return node if found is turned else found
            case n.Alternative(left, right):
                return n.Union(
                    self._path(n.Path(subject, left, obj), graph),
                    self._path(n.Path(subject, right, obj), graph),
                )
            case n.Sequence(left, right):
                middle = self.hidden()
                return join(
                    self._path(n.Path(subject, left, middle), graph),
                    self._path(n.Path(middle, right, obj), graph),
                )
            case n.OneOrMore(inner) if matches_nothing(inner):
                return self._path(n.Path(subject, n.ZeroOrMore(inner), obj), graph)
        return self._zero(node, graph) if matches_nothing(path) and not self.native else node

    def _zero(self, node: n.Path, graph: TermPattern | None) -> Algebra:
        """Return a zero-length path that matches its constant end even if the graph lacks the constant."""
        subject, obj = node.subject, node.object
        fixed, free = (subject, obj) if _is_constant(subject) else (obj, subject)
        if not _is_constant(fixed) or self.is_node(fixed, graph):  # type: ignore[arg-type]
            return node
        here: Algebra = UNIT if graph is None else n.Graph(graph, UNIT)  # type: ignore[arg-type]
        if _is_constant(free):
            return here if free == fixed else node
        if not isinstance(free, Var):
            return node
        same = Call("SAMETERM", (free, n.Constant(fixed)))  # type: ignore[arg-type]
        others = n.Filter(Call("!", (same,)), node)
        if self.outer is not None and free.name in self.outer:
            # A variable that is bound outside LATERAL must not be bound again inside it, not even by VALUES.
            return n.Union(others, n.Filter(same, here))
        itself = n.Values((free,), ((fixed,),))  # type: ignore[arg-type]
        return n.Union(others, itself if graph is None else join(here, itself))


_UNNAMED = (n.Project, n.Group, n.Distinct, n.Slice, n.Values)


def languages_of(root: Algebra) -> frozenset[str]:
    """Return the variables of a query that hold a language tag wherever they are bound."""
    found: dict[str, list[Expr]] = {}
    others: set[str] = set()

    def take(node: Algebra) -> None:
        if isinstance(node, n.Extend):
            found.setdefault(node.var.name, []).append(node.expr)
        elif isinstance(node, n.Group):
            others.update(var.name for var, _ in node.aggregates)
        elif not children(node):
            others.update(in_scope(node))
        for each in children(node):
            take(each)

    take(root)
    tags: frozenset[str] = frozenset()
    while True:
        more = frozenset(
            name
            for name, exprs in found.items()
            if name not in others and all(is_language(each, tags) for each in exprs)
        )
        if more == tags:
            return tags
        tags = more


def _with_lower_tags(node: n.Join) -> n.Join:
    """Return a join with VALUES strings in lower case where the other side binds language tags."""
    left = _lower_values(node.left, node.right)
    right = _lower_values(node.right, node.left)
    return node if left is node.left and right is node.right else n.Join(left, right)


def _lower_values(node: Algebra, other: Algebra) -> Algebra:
    if isinstance(node, n.Join):
        below = [_lower_values(each, other) for each in (node.left, node.right)]
        return node if below[0] is node.left and below[1] is node.right else n.Join(*below)
    if not isinstance(node, n.Values) or not (tags := languages_of(other) & in_scope(node)):
        return node
    rows = tuple(
        tuple(
            lower_text(term) if var.name in tags else term for var, term in zip(node.vars, row, strict=True)
        )
        for row in node.rows
    )
    return node if rows == node.rows else replace(node, rows=rows)


def _binds_plainly(inner: Algebra, name: str) -> bool:
    """Return True for triple patterns, perhaps in FILTERs, that bind ``name`` in every solution."""
    while isinstance(inner, n.Filter):
        inner = inner.input
    return isinstance(inner, n.Bgp) and name in certain(inner)


def _is_text(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.name in ("STR", "LANG", "CONCAT", "UCASE", "LCASE", "STRUUID")


def _is_zero(node: Algebra) -> bool:
    """Return True for the Union by which `Corrections` replaces a path of length zero."""
    return (
        isinstance(node, n.Union) and isinstance(node.left, n.Filter) and isinstance(node.left.input, n.Path)
    )


def _is_constant(term: TermPattern) -> bool:
    return not isinstance(term, (Var, n.TripleTerm, BlankNode))


def matches_nothing(path: n.PathExpr) -> bool:
    """Return True for a path that can lead from each node to itself without a step."""
    match path:
        case n.ZeroOrMore() | n.ZeroOrOne():
            return True
        case n.OneOrMore(inner) | n.Inverse(inner):
            return matches_nothing(inner)
        case n.Alternative(left, right):
            return matches_nothing(left) or matches_nothing(right)
        case n.Sequence(left, right):
            return matches_nothing(left) and matches_nothing(right)
        case _:
            return False
