"""Plans triple patterns and property paths of a window, and blocks evaluated for each graph.

The rows of ``GRAPH ?g { }`` and ``STREAM ?s [w] { }`` have a column for the graph or stream, the *context*.
Patterns in a block ``GRAPH ?g`` or ``STREAM ?s`` bind this context column themselves. Where the absence or
number of rows matters (OPTIONAL, MINUS, EXISTS, GROUP BY, LIMIT), rows without the graph or stream column are
joined with all existing graphs or streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from ..algebra.graphs import only_matches
from ..algebra.nodes import (
    Algebra,
    Alternative,
    Inverse,
    Link,
    NegatedSet,
    OneOrMore,
    PathExpr,
    TermPattern,
    TriplePattern,
    TripleTerm,
    Var,
    ZeroOrMore,
    ZeroOrOne,
)
from ..algebra.nodes import Sequence as PathSequence
from ..algebra.variables import NO_NAMES, Names, mentioned
from ..expressions.oxigraph import canonical
from ..operators import linear
from ..operators.closure import Closure
from ..operators.linear import Scan, Select
from ..operators.star import Star
from ..rows import Schema
from .builder import PatternScope, PlanBuilder, PlanOutput


class Patterns:
    """Plans the triple patterns and property paths of one query."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        # Planned stars by their input, predicates and objects, so that patterns which differ only in variable
        # names share a star.
        self._stars: dict[tuple[int, tuple[Any, ...]], PlanOutput] = {}

    def basic(self, patterns: Sequence[TriplePattern], scope: PatternScope) -> list[PlanOutput]:
        """Return a join input for each star (patterns of one subject), and for each other pattern."""
        stars: dict[Var, list[TriplePattern]] = {}
        single: list[TriplePattern] = []
        taken: set[tuple[Var, Var]] = set()
        for pattern in dict.fromkeys(patterns):
            subject, object_ = pattern.subject, pattern.object
            starry = (
                isinstance(subject, Var)
                and isinstance(pattern.predicate, NamedNode)
                and not isinstance(object_, TripleTerm)
                and object_ != subject
            )
            if isinstance(object_, Var) and isinstance(subject, Var) and starry:
                starry = (subject, object_) not in taken and object_.name not in scope.context
                taken.add((subject, object_))
            if isinstance(subject, Var) and starry:
                stars.setdefault(subject, []).append(pattern)
            else:
                single.append(pattern)
        members = []
        for subject, each in stars.items():
            starred = len(each) > 1 and len(scope.columns) <= 1 and subject.name not in scope.context
            members += (
                [self._star(subject, each, scope)] if starred else [self.pattern(one, scope) for one in each]
            )
        return [*members, *(self.pattern(each, scope) for each in single)]

    def pattern(self, pattern: TriplePattern, scope: PatternScope, time: Var | None = None) -> PlanOutput:
        """Plan one triple pattern; ``time`` names an additional column for the triple's event time."""
        positions = (pattern.subject, pattern.predicate, pattern.object)
        shown = " ".join(map(_shown, positions))
        if time is None:
            return self._scan([*positions, *scope.columns], self._triples(scope), shown)
        if scope.graph is not None:
            raise UnsupportedError("timestamp() in a GRAPH block of a window")
        source = self._builder.times(scope)
        loose = NO_NAMES if "time" in source.schema.certain else frozenset((time.name,))
        return self._scan([*positions, time], source, f"{shown} at {_shown(time)}", loose)

    # --- paths ----------------------------------------------------------------------------------

    def path(
        self, subject: TermPattern, path: PathExpr, object_: TermPattern, scope: PatternScope
    ) -> PlanOutput:
        """Plan a property path pattern, with the solutions of SPARQL 1.1, section 18.4.

        An alternative path ``a|b`` yields each pair of nodes once, as in Oxigraph.
        """
        builder = self._builder
        match path:
            case Link(iri):
                return self.pattern(TriplePattern(subject, iri, object_), scope)
            case Inverse(inner):
                return self.path(object_, inner, subject, scope)
            case PathSequence(left, right):
                middle = builder.fresh("path")
                sides = [self.path(subject, left, middle, scope), self.path(middle, right, object_, scope)]
                return self._without(builder.join(*sides), middle)
            case Alternative(left, right):
                sides = [self.path(subject, left, object_, scope), self.path(subject, right, object_, scope)]
                return builder.distinct(builder.union(*sides))
            case NegatedSet(forward, inverse):
                ends = [(subject, forward, object_), (object_, inverse, subject)]
                sides = [self._except(*each, scope) for each in ends if each[1]]
                return sides[0] if len(sides) == 1 else builder.distinct(builder.union(*sides))
            case ZeroOrMore(inner):
                return self._closure(subject, inner, object_, scope, zero=True, many=True)
            case OneOrMore(inner):
                return self._closure(subject, inner, object_, scope, zero=False, many=True)
            case ZeroOrOne(inner):
                return self._closure(subject, inner, object_, scope, zero=True, many=False)

    def _except(
        self, start: TermPattern, excluded: Sequence[NamedNode], end: TermPattern, scope: PatternScope
    ) -> PlanOutput:
        """Plan the negated property set: the triples whose predicate is not in ``excluded``."""
        source = self._triples(scope)
        others = {*map(self._builder.pinned, excluded)}
        select = Select(source.schema, range(len(source.schema.vars)), lambda row: row[1] not in others)
        kept = self._builder.add("except", select, [source], " ".join(map(str, excluded)))
        predicate = self._builder.fresh("path")
        return self._without(self._scan([start, predicate, end, *scope.columns], kept), predicate)

    def _closure(
        self,
        subject: TermPattern,
        inner: PathExpr,
        object_: TermPattern,
        scope: PatternScope,
        *,
        zero: bool,
        many: bool,
    ) -> PlanOutput:
        start, end, extra = self._builder.fresh("path"), self._builder.fresh("path"), scope.columns
        names = [each.name for each in (start, end, *extra)]
        edges = self._builder.project(self.path(start, inner, end, scope), names)
        ends = dict.fromkeys(each for each in (subject, object_) if not isinstance(each, Var | TripleTerm))
        constants = [self._builder.pinned(each) for each in ends]
        operator = Closure(
            Schema.bound(*names), zero=zero, many=many, constants=constants, by_context=bool(extra)
        )
        inputs = [edges, self._triples(scope)]
        if extra:
            inputs.append(self.context(scope))
        pairs = self._builder.add("closure", operator, inputs)
        # The scan reads the path's pairs (subject, object), which have no predicate column.
        return self._scan([subject, object_, *extra], pairs)

    # --- pieces ---------------------------------------------------------------------------------

    def _star(self, subject: Var, patterns: Sequence[TriplePattern], scope: PatternScope) -> PlanOutput:
        slots: list[tuple[int, int | None, str | None]] = []
        for each in patterns:
            assert isinstance(each.predicate, NamedNode) and not isinstance(each.object, TripleTerm)
            predicate = self._builder.pinned(each.predicate)
            if isinstance(each.object, Var):
                slots.append((predicate, None, each.object.name))
            else:
                slots.append((predicate, self._builder.pinned(each.object), None))
        extra, builder = scope.columns, self._builder
        operator = Star(subject.name, slots, extra[0].name if extra else None)
        source, key = self._triples(scope), tuple([(each[:2], each[2] is None) for each in slots])
        known = self._stars.get((source.place, key))
        if known is not None:
            pairs = zip(operator.schema.vars, known.schema.vars, strict=True)
            new = {name: Var(old) for name, old in pairs if name != old}
            if known.schema.certain.isdisjoint(new):
                # An equal star with other variable names is planned already, for example for OPTIONAL or
                # MINUS; its columns are renamed.
                named = reduce(lambda built, name: builder.extend(built, name, new[name]), new, known)
                return builder.project(named, operator.schema.vars)
        objects = "; ".join(f"{each.predicate} {_shown(each.object)}" for each in patterns)
        built = builder.add("star", operator, [source], f"{_shown(subject)} {objects}")
        return self._stars.setdefault((source.place, key), built)

    def _scan(
        self,
        positions: Sequence[TermPattern | NamedNode],
        source: PlanOutput,
        shown: str = "",
        loose: Names = NO_NAMES,
    ) -> PlanOutput:
        given = self._builder.compilation
        scan = Scan([_canonical(each) for each in positions], given.terms, given.pins, loose)
        return self._builder.add("scan", scan, [source], shown)

    def _triples(self, scope: PatternScope) -> PlanOutput:
        """Return the triples that a pattern in this scope matches, with graph and stream as last columns."""
        if scope.graph is None:
            return self._builder.triples(scope)
        source = self._builder.quads(scope)
        if isinstance(scope.graph, Var):
            return source
        graph = self._builder.pinned(scope.graph)
        columns = [place for place in range(len(source.schema.vars)) if place != 3]
        schema = Schema.bound(*(source.schema.vars[place] for place in columns))
        select = Select(schema, columns, lambda row: row[3] == graph)
        return self._builder.add("graph", select, [source], str(scope.graph))

    def _without(self, built: PlanOutput, column: Var) -> PlanOutput:
        return self._builder.project(built, [name for name in built.schema.vars if name != column.name])

    # --- blocks ---------------------------------------------------------------------------------

    def context(self, scope: PatternScope) -> PlanOutput:
        """Return the existing graphs or streams for which a GRAPH or STREAM block is evaluated, each once."""
        if not isinstance(scope.graph, Var):
            return self._builder.streams(scope)
        source = self._builder.quads(scope)
        schema = Schema.bound(*(each.name for each in scope.columns))
        graphs = linear.Deduplicate(schema, range(3, len(source.schema.vars)))
        return self._builder.add("graphs", graphs, [source])

    def graph_exists(self, name: NamedNode, scope: PatternScope) -> PlanOutput:
        """Return one row (per stream, for a stream variable) while the window has a named graph ``name``."""
        source = self._builder.quads(scope)
        graph = self._builder.pinned(name)
        names = (scope.stream,) if scope.stream else ()
        select = Select(Schema.bound(*names), range(4, 4 + len(names)), lambda row: row[3] == graph)
        return self._builder.distinct(self._builder.add("graph", select, [source], str(name)))

    def in_context(self, built: PlanOutput, scope: PatternScope) -> PlanOutput:
        """Return rows with graph and stream columns.

        A row without graph and stream columns is joined with every graph or stream.
        """
        if scope.context <= built.schema.certain:
            return built
        return self._builder.join(built, self.context(scope))

    def inside_name(self, name: str, inner: Algebra, outer: Names) -> str:
        """Return the name of a block's variable inside the block; a new name if the block uses the name too.

        ``GRAPH ?g { SELECT ... { ?g :p ?o } }`` binds ?g to the graph only after the inner SELECT, in which
        ?g is another variable. Raises UnsupportedError if an EXISTS replaces the block's variable by a value;
        ``outer`` has such variables.
        """
        if name not in mentioned(inner) or only_matches(inner):
            return name
        if name in outer:
            raise UnsupportedError("EXISTS over a block whose variable is used inside it and outside")
        return self._builder.fresh("in").name

    def renamed(self, built: PlanOutput, inside: str, name: str, scope: PatternScope) -> PlanOutput:
        """Rename a GRAPH or STREAM variable to ``name``, and omit rows that bind ``name`` to another term."""
        if inside == name:
            return built
        pairs = self._builder.extend(self.context(scope), name, Var(inside))
        return self._without(self._builder.join(built, pairs), Var(inside))


def _canonical(term: TermPattern | NamedNode) -> TermPattern:
    """Return a term in the store's canonical form, including terms inside a triple term."""
    if isinstance(term, TripleTerm):
        return TripleTerm(_canonical(term.subject), term.predicate, _canonical(term.object))
    return term if isinstance(term, Var) else canonical(term)  # type: ignore[return-value]


def _shown(term: TermPattern | NamedNode) -> str:
    if isinstance(term, Var):
        return f"?{term.name}"
    if isinstance(term, TripleTerm):
        return f"<<( {_shown(term.subject)} {_shown(term.predicate)} {_shown(term.object)} )>>"
    return str(term)
