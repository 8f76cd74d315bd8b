"""The variables in scope of a pattern, in order of appearance (SPARQL 1.1 section 18.2.1)."""

from __future__ import annotations

from collections.abc import Iterator

from ..algebra.nodes import (
    Algebra,
    Bgp,
    Distinct,
    Extend,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Path,
    Project,
    Reduced,
    Service,
    Slice,
    Table,
    TriplePattern,
    TripleTerm,
    Union,
    Values,
    Var,
    Window,
)


class Scopes:
    """Answers for one translation and remembers, since groups grow one element at a time."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Algebra, dict[Var, None]]] = {}

    def of(self, node: Algebra) -> dict[Var, None]:
        """The in-scope variables of a pattern, hidden ones included, as the keys of an ordered dict."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        scope = self._compute(node)
        self._known[id(node)] = (node, scope)
        return scope

    def visible(self, node: Algebra) -> list[Var]:
        """The variables that ``SELECT *`` gives."""
        return [var for var in self.of(node) if not var.hidden]

    def _compute(self, node: Algebra) -> dict[Var, None]:
        match node:
            case Bgp(patterns):
                return dict.fromkeys(var for pattern in patterns for var in variables_of(pattern))
            case Path(subject, _, obj):
                return dict.fromkeys((*variables_of(subject), *variables_of(obj)))
            case Join(left, right) | LeftJoin(left, right) | Union(left, right):
                return {**self.of(left), **self.of(right)}
            case Minus(left, _):
                return self.of(left)
            case Graph(name, inner) | Service(name, inner) | Window(name, inner):
                return {**({name: None} if isinstance(name, Var) else {}), **self.of(inner)}
            case Extend(inner, var, _):
                return {**self.of(inner), var: None}
            case Values(vars_, _) | Table(_, vars_):
                return dict.fromkeys(vars_)
            case Group(_, keys, aggregates):
                return dict.fromkeys((*keys, *(var for var, _ in aggregates)))
            case Project(_, vars_):
                return dict.fromkeys(vars_)
            case Filter(_, inner) | OrderBy(inner) | Distinct(inner) | Reduced(inner) | Slice(inner):
                return self.of(inner)


def variables_of(term: object) -> Iterator[Var]:
    """The variables of a term or triple pattern, nested triple terms included."""
    if isinstance(term, Var):
        yield term
    elif isinstance(term, (TripleTerm, TriplePattern)):
        yield from variables_of(term.subject)
        if isinstance(term.predicate, Var):
            yield term.predicate
        yield from variables_of(term.object)
