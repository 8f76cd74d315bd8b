"""Triple patterns and property paths of a window as operators, and blocks evaluated graph by graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyoxigraph import NamedNode

from quadrill.store.dictionary import Pins, TermDictionary
from quadrill.store.errors import UnsupportedError

from ..algebra.graphs import only_matches
from ..algebra.nodes import (
    Algebra,
    Alternative,
    Bgp,
    Extend,
    Filter,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    NegatedSet,
    OneOrMore,
    Path,
    PathExpr,
    TermPattern,
    TriplePattern,
    TripleTerm,
    Union,
    Var,
    ZeroOrMore,
    ZeroOrOne,
)
from ..algebra.nodes import Sequence as PathSequence
from ..algebra.variables import mentioned
from ..expressions.compile import Condition
from ..expressions.oxigraph import canonical
from ..operators import linear
from ..operators.closure import Closure
from ..operators.join import Join as JoinOperator
from ..operators.linear import Scan, Select
from ..operators.star import Star
from ..rows import Schema
from .plan import Built, PlanBuilder
from .solutions import Solutions
from .sources import Names, Scope, Sources


class Patterns:
    """Plans the leaves of one query."""

    def __init__(
        self,
        terms: TermDictionary,
        pins: Pins,
        builder: PlanBuilder,
        sources: Sources,
        fresh: Iterator[int],
    ) -> None:
        self._terms = terms
        self._pins = pins
        self._builder = builder
        self._sources = sources
        self._fresh = fresh

    def basic(self, patterns: Sequence[TriplePattern], scope: Scope) -> list[Built]:
        """One member per star of two or more patterns, and per other pattern."""
        stars: dict[str, list[TriplePattern]] = {}
        single: list[TriplePattern] = []
        taken: set[str] = set()
        for pattern in dict.fromkeys(patterns):
            subject, object_ = pattern.subject, pattern.object
            starry = (
                isinstance(subject, Var)
                and isinstance(pattern.predicate, NamedNode)
                and not isinstance(object_, TripleTerm)
                and (not isinstance(object_, Var) or (object_.name != subject.name))
            )
            if not starry:
                single.append(pattern)
                continue
            assert isinstance(subject, Var)
            if isinstance(object_, Var):
                if (subject.name, object_.name) in taken or object_.name in scope.context:  # type: ignore[comparison-overlap]
                    single.append(pattern)
                    continue
                taken.add((subject.name, object_.name))  # type: ignore[arg-type]
            stars.setdefault(subject.name, []).append(pattern)
        members = []
        for name, each in stars.items():
            extra = self._extra(scope)
            starred = len(each) > 1 and len(extra) <= 1 and name not in scope.context
            members += (
                [self._star(name, each, scope)] if starred else [self.pattern(one, scope) for one in each]
            )
        return [*members, *(self.pattern(each, scope) for each in single)]

    def pattern(self, pattern: TriplePattern, scope: Scope, time: Var | None = None) -> Built:
        """One triple pattern; with ``time`` as a column the event time of its triple, if there is one."""
        positions = [self._constant(each) for each in (pattern.subject, pattern.predicate, pattern.object)]
        if time is None:
            operator = Scan([*positions, *self._extra(scope)], self._terms, self._pins)
            return self._builder.add("scan", operator, [self._triples(scope)], _shown(pattern))
        if scope.graph is not None:
            raise UnsupportedError("timestamp() in a GRAPH block of a window")
        source = self._sources.times(scope)
        loose = frozenset() if "time" in source.schema.certain else frozenset((time.name,))
        operator = Scan([*positions, time], self._terms, self._pins, loose)
        return self._builder.add("scan", operator, [source], f"{_shown(pattern)} at {_term(time)}")

    def graph_names(self, name: Var, scope: Scope) -> Built:
        """The names of the graphs in the window, each once."""
        source = self._sources.quads(scope)
        names = (name.name, *((scope.stream,) if scope.stream else ()))
        schema = Schema(names, frozenset(names))
        graphs = linear.Distinct(schema, range(3, len(source.schema.vars)))
        return self._builder.add("graphs", graphs, [source])

    def graph_exists(self, name: NamedNode, scope: Scope) -> Built:
        """One row, for each stream of a variable one, while the window has a graph of this name."""
        source = self._sources.quads(scope)
        graph = self._terms.ids[name]
        self._pins.pin([graph])
        names = (scope.stream,) if scope.stream else ()
        schema = Schema(names, frozenset(names))
        columns = range(4, 4 + len(names))
        chosen = self._builder.add(
            "graph", Select(schema, columns, lambda row: row[3] == graph), [source], str(name)
        )
        return self._builder.add("distinct", linear.Distinct(schema), [chosen])

    # --- paths ----------------------------------------------------------------------------------

    def path(self, subject: TermPattern, path: PathExpr, object_: TermPattern, scope: Scope) -> Built:
        """A property path pattern; solutions as SPARQL 1.1, section 18.4, has them."""
        match path:
            case Link(iri):
                return self.pattern(TriplePattern(subject, iri, object_), scope)
            case Inverse(inner):
                return self.path(object_, inner, subject, scope)
            case PathSequence(left, right):
                middle = self._variable()
                sides = [self.path(subject, left, middle, scope), self.path(middle, right, object_, scope)]
                joined = self._builder.add("join", JoinOperator([each.schema for each in sides]), sides)
                return self._without(joined, {middle.name})
            case Alternative(left, right):
                a, b = self.path(subject, left, object_, scope), self.path(subject, right, object_, scope)
                places = [b.schema.vars.index(name) for name in a.schema.vars]
                operator = linear.Union(a.schema, range(len(places)), places)
                return self._once(self._builder.add("union", operator, [a, b]))
            case NegatedSet(forward, inverse):
                return self._negated(subject, forward, inverse, object_, scope)
            case ZeroOrMore(inner):
                return self._closure(subject, inner, object_, scope, zero=True, many=True)
            case OneOrMore(inner):
                return self._closure(subject, inner, object_, scope, zero=False, many=True)
            case ZeroOrOne(inner):
                return self._closure(subject, inner, object_, scope, zero=True, many=False)

    def _negated(
        self,
        subject: TermPattern,
        forward: tuple[NamedNode, ...],
        inverse: tuple[NamedNode, ...],
        object_: TermPattern,
        scope: Scope,
    ) -> Built:
        sides = []
        for start, excluded, end in ((subject, forward, object_), (object_, inverse, subject)):
            if not excluded:
                continue
            source = self._triples(scope)
            ids = {self._terms.ids[canonical(each)] for each in excluded}
            self._pins.pin(ids)
            select = Select(source.schema, range(len(source.schema.vars)), _excludes(ids))
            kept = self._builder.add("except", select, [source], " ".join(map(str, excluded)))
            predicate = self._variable()
            positions = [self._constant(start), predicate, self._constant(end), *self._extra(scope)]
            scanned = self._builder.add("scan", Scan(positions, self._terms, self._pins), [kept])
            sides.append(self._without(scanned, {predicate.name}))
        if len(sides) == 1:
            return sides[0]
        a, b = sides
        places = [b.schema.vars.index(name) for name in a.schema.vars]
        return self._once(
            self._builder.add("union", linear.Union(a.schema, range(len(places)), places), sides)
        )

    def _closure(
        self,
        subject: TermPattern,
        inner: PathExpr,
        object_: TermPattern,
        scope: Scope,
        *,
        zero: bool,
        many: bool,
    ) -> Built:
        start, end, extra = self._variable(), self._variable(), self._extra(scope)
        names = (start.name, end.name, *(each.name for each in extra))
        edges = self._ordered(self.path(start, inner, end, scope), names)
        ends = dict.fromkeys(each for each in (subject, object_) if _is_constant(each))
        constants = [self._terms.ids[canonical(each)] for each in ends]
        self._pins.pin(constants)
        schema = Schema(names, frozenset(names))
        operator = Closure(schema, zero=zero, many=many, constants=constants, by_context=bool(extra))
        inputs = [edges, self._triples(scope)]
        if extra:
            by_graph = isinstance(scope.graph, Var)
            inputs.append(self.graph_names(extra[0], scope) if by_graph else self._sources.streams(scope))
        pairs = self._builder.add("closure", operator, inputs)
        # The pairs are read like triples without a predicate.
        positions = [self._constant(subject), self._constant(object_), *extra]
        return self._builder.add("scan", Scan(positions, self._terms, self._pins), [pairs])

    def _once(self, built: Built) -> Built:
        """Alternatives give a pair of nodes once, as the store's own evaluation has it."""
        return self._builder.add("distinct", linear.Distinct(built.schema), [built])

    # --- pieces ---------------------------------------------------------------------------------

    def _star(self, subject: str, patterns: Sequence[TriplePattern], scope: Scope) -> Built:
        slots: list[tuple[int, int | None, str | None]] = []
        for pattern in patterns:
            predicate = self._terms.ids[canonical(pattern.predicate)]
            self._pins.pin([predicate])
            if isinstance(pattern.object, Var):
                slots.append((predicate, None, pattern.object.name))
            else:
                object_ = self._terms.ids[canonical(pattern.object)]
                self._pins.pin([object_])
                slots.append((predicate, object_, None))
        extra = self._extra(scope)
        operator = Star(subject, slots, extra[0].name if extra else None)
        shown = f"?{subject} " + "; ".join(f"{each.predicate} {_term(each.object)}" for each in patterns)
        return self._builder.add("star", operator, [self._triples(scope)], shown)

    def _triples(self, scope: Scope) -> Built:
        """The triples that a pattern in this scope ranges over, with its context columns behind them."""
        if scope.graph is None:
            return self._sources.triples(scope)
        source = self._sources.quads(scope)
        if isinstance(scope.graph, Var):
            return source
        graph = self._terms.ids[scope.graph]
        self._pins.pin([graph])
        columns = [place for place in range(len(source.schema.vars)) if place != 3]
        names = tuple(source.schema.vars[place] for place in columns)
        select = Select(Schema(names, frozenset(names)), columns, lambda row: row[3] == graph)
        return self._builder.add("graph", select, [source], str(scope.graph))

    @staticmethod
    def _extra(scope: Scope) -> list[Var]:
        """Patterns for the columns behind s, p, o."""
        extra = [scope.graph] if isinstance(scope.graph, Var) else []
        return [*extra, Var(scope.stream)] if scope.stream else extra

    def _variable(self) -> Var:
        return Var(f"_:path{next(self._fresh)}")

    def _without(self, built: Built, names: set[str]) -> Built:
        return self._ordered(built, tuple(name for name in built.schema.vars if name not in names))

    def _ordered(self, built: Built, names: tuple[str, ...]) -> Built:
        if names == built.schema.vars:
            return built
        operator = linear.Project(Schema(names, frozenset(names)), built.schema.positions(names))
        return self._builder.add("project", operator, [built])

    @staticmethod
    def _constant(term: TermPattern | NamedNode) -> TermPattern:
        if isinstance(term, Var):
            return term
        if isinstance(term, TripleTerm):
            return TripleTerm(
                Patterns._constant(term.subject),
                term.predicate,
                Patterns._constant(term.object),
            )
        return canonical(term)  # type: ignore[return-value]


def _excludes(predicates: set[int]) -> Condition:
    """Accepts triples whose predicate is none of these."""
    return lambda row: row[1] not in predicates


def _is_constant(term: TermPattern) -> bool:
    return not isinstance(term, Var | TripleTerm)


def _term(term: TermPattern | NamedNode) -> str:
    if isinstance(term, Var):
        return f"?{term.name}"
    if isinstance(term, TripleTerm):
        return f"<<( {_term(term.subject)} {_term(term.predicate)} {_term(term.object)} )>>"
    return str(term)


def _shown(pattern: TriplePattern) -> str:
    return " ".join(_term(each) for each in (pattern.subject, pattern.predicate, pattern.object))


def touches_graph(node: Algebra) -> bool:
    """True when every solution comes from a quad of the graph, so that there is none without the graph."""
    match node:
        case Bgp(patterns):
            return bool(patterns)
        case Path(_, path, _):
            return not isinstance(path, ZeroOrMore | ZeroOrOne)
        case Join(left, right):
            return touches_graph(left) or touches_graph(right)
        case Union(left, right):
            return touches_graph(left) and touches_graph(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return touches_graph(left)
        case Filter(_, inner) | Extend(inner, _, _):
            return touches_graph(inner)
        case _:
            return False


class Blocks:
    """What the planner needs of the blocks of one query.

    They are evaluated graph by graph, or stream by stream: ``GRAPH ?g { }`` and ``STREAM ?s [w] { }``. Their
    rows carry the graph or stream as a column, the *context*. Patterns bind it by themselves; where it
    matters that there is no row, or how many there are (OPTIONAL, MINUS, EXISTS, GROUP BY, LIMIT), rows that
    hold for every graph are joined with the graphs that there are.
    """

    def __init__(
        self, patterns: Patterns, sources: Sources, solutions: Solutions, fresh: Iterator[int]
    ) -> None:
        self._patterns = patterns
        self._sources = sources
        self._solutions = solutions
        self._fresh = fresh

    def context(self, scope: Scope) -> Built:
        """The graphs, or streams, for each of which a block is evaluated."""
        if isinstance(scope.graph, Var):
            return self._patterns.graph_names(scope.graph, scope)
        return self._sources.streams(scope)

    def in_context(self, built: Built, scope: Scope) -> Built:
        """Rows that tell for which graph or stream they are; one that holds for all is there for each."""
        if scope.context <= built.schema.certain:
            return built
        return self._solutions.join(built, self.context(scope))

    def inside_name(self, name: str, inner: Algebra, outer: Names) -> str:
        """What a block's variable is called inside: a name of its own where the block has one like it.

        ``GRAPH ?g { SELECT ... { ?g :p ?o } }`` binds ?g behind its pattern, whose ?g is another variable.

        Raises:
            UnsupportedError: EXISTS substitutes it, as ``outer`` says.
        """
        if name not in mentioned(inner) or only_matches(inner):
            return name
        if name in outer:
            raise UnsupportedError("EXISTS over a block whose variable is used inside it and outside")
        return f"_:in{next(self._fresh)}"

    def renamed(self, built: Built, inside: str, name: str, scope: Scope) -> Built:
        """The rows with the block's variable, where they agree with what it is bound to already."""
        if inside == name:
            return built
        pairs = self._solutions.extend(self.context(scope), name, Var(inside))
        joined = self._solutions.join(built, pairs)
        return self._solutions.project(joined, [each for each in joined.schema.vars if each != inside])
