"""Compiles rule bodies: every node of the algebra becomes a matcher, a generator over a frame of term ids.

A frame is a list with a slot for each variable and each constant of a rule; an unbound slot has None. A
matcher binds slots, yields once for each solution, and unbinds the slots again, as in Prolog. Slots that are
bound before restrict the solutions: a matcher yields exactly the solutions of its node that are compatible
with the frame (SPARQL 1.1 section 18.3). FILTER, BIND, OPTIONAL, MINUS, EXISTS and aggregates must read the
solutions of their operand without this restriction. If their operand may leave a variable unbound, the
variable therefore has a private slot in the operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyoxigraph import Literal, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.build import map_expression
from ..algebra.set_functions import FUNCTIONS, percentile_parameter, set_function
from ..algebra.variables import certain, expression_variables, in_scope, term_variables
from ..expressions.compile import compile_condition, compile_id
from .elements import JoinElement, cost_of, cost_of_cells, order_after
from .facts import Facts
from .layout import Frame, Layout, Matcher, Names, Scope
from .lists import FIRST, ListCells
from .matchers import bind, chain, match_in_graph, match_path, match_triple, unified, union
from .paths import PathSteps, may_be_empty
from .terms import RuleTerms
from .trace import Entry, Trace

_BOOLEAN = NamedNode("http://www.w3.org/2001/XMLSchema#boolean")
_TRUE, _FALSE = Literal("true", datatype=_BOOLEAN), Literal("false", datatype=_BOOLEAN)


class BodyCompiler:
    """Compiles nodes of the algebra of one rule to matchers.

    The order of joins depends on the variables that are bound before the matcher runs. So a node is compiled
    separately for each set of bound variables.
    """

    def __init__(
        self,
        layout: Layout,
        count: Callable[[int | None], int] = lambda _: 1_000_000,
        trace: Trace | None = None,
        constants: Names = frozenset(),
    ) -> None:
        """Create a compiler.

        Args:
            layout: the layout of the rule, to which private slots are added.
            count: estimates the number of facts with a predicate; of all facts for None.
            trace: a trace in which the matchers record the triples that patterns match; None for none.
            constants: variables that stand for constants, whose values are bound before a matcher runs.
        """
        self.layout = layout
        self.constants = constants
        self.trace = trace
        self._count = count

    def scope(self, names: Iterable[str], given: Scope | None = None) -> dict[str, int]:
        """Return slots for variables: those of ``given``, and new ones for the others."""
        known = given or {}
        return {name: known[name] if name in known else self.layout.slot() for name in sorted(names)}

    def compile(
        self,
        node: n.Algebra,
        scope: Scope,
        bound: Names = frozenset(),
        row: Scope | None = None,
        graph: int | None = None,
    ) -> Matcher:
        """Compile a node.

        Args:
            node: the node.
            scope: a slot for each variable in scope of the node.
            bound: variables whose slots are bound before the matcher runs.
            row: inside EXISTS, the slots of the tested row's variables, which inner expressions can read.
            graph: inside GRAPH, the slot of the graph's name.
        """
        return _Place(self, scope, row or {}, graph).matcher(node, bound)

    def estimate(self, predicate: n.TermPattern | NamedNode) -> int:
        """Return the estimated number of facts with a predicate; of all facts for a variable."""
        if isinstance(predicate, NamedNode):
            return self._count(self.layout.terms.id_of(predicate))
        return self._count(None)


class _Place:
    """The context in which a node is compiled.

    It has the slots of the variables, the slots of the row that an enclosing EXISTS tests, and the slot of
    the enclosing GRAPH's name.
    """

    def __init__(self, compiler: BodyCompiler, scope: Scope, row: Scope, graph: int | None) -> None:
        self._compiler = compiler
        self._layout = compiler.layout
        self._trace = compiler.trace
        self._scope = scope
        self._row = row
        self._graph = graph

    def matcher(self, node: n.Algebra, bound: Names) -> Matcher:
        match node:
            case n.Bgp() | n.Join() | n.Filter() | n.Extend():
                return self._conjunction(node, bound)
            case n.Path():
                return self._path(node)
            case n.Union(left, right):
                return union(self.matcher(left, bound), self.matcher(right, bound))
            case n.Graph(name, inner):
                return self._in_graph(name, inner, bound)
            case n.Values(variables, rows):
                return _values(self._scope, self._layout.terms, variables, rows)
            case n.LeftJoin():
                return self._optional(node, bound)
            case n.Minus():
                return self._minus(node, bound)
            case n.Group():
                return self._group(node, bound)
            case n.Project(inner, _):
                hidden = in_scope(inner) - in_scope(node) - self._row.keys()
                inside = self._with({**self._scope, **self._compiler.scope(hidden)})
                return inside.matcher(inner, bound & in_scope(node))
            case n.Distinct(inner):
                return self._distinct(inner, bound)
            case n.OrderBy(inner, _):
                return self.matcher(inner, bound)
            case _:
                raise AssertionError(f"a rule body has no {type(node).__name__}")

    def _with(self, scope: Scope) -> _Place:
        return _Place(self._compiler, scope, self._row, self._graph)

    def _slot_of(self, term: n.TermPattern) -> int:
        if isinstance(term, n.Var):
            return self._scope[term.name]
        assert not isinstance(term, n.TripleTerm)
        return self._layout.constant(term)

    # --- conjunctions -------------------------------------------------------------------------

    def _conjunction(self, node: n.Algebra, bound: Names, *, private: bool = False) -> Matcher:
        """Compile joins, filters and BINDs; the next step is always the one with the lowest cost estimate.

        ``private`` is True if variables that the operand of the node may leave unbound have private slots.
        """
        elements: list[JoinElement] = []
        self._flatten(node, elements, private=private)
        steps: list[Matcher] = []
        while elements:
            ready = [each for each in elements if each.needs <= bound and not each.follows(elements)]
            element = min(ready or elements, key=lambda each: each.cost(bound))
            elements.remove(element)
            steps.append(element.compile(bound))
            bound |= element.binds
        return chain(steps)

    def _flatten(self, node: n.Algebra, elements: list[JoinElement], *, private: bool = False) -> None:
        match node:
            case n.Join(left, right):
                self._flatten(left, elements)
                self._flatten(right, elements)
            case n.Bgp(patterns):
                elements += [self._triple_element(pattern) for pattern in patterns]
            case n.Filter(condition, inner):
                inside = None if private else self._observing(inner, expression_variables(condition))
                if inside is None:
                    inner_elements = self._added(inner, elements)
                    elements.append(self._filter_element(condition, inner, inner_elements))
                else:
                    elements.append(self._observed(node, inside))
            case n.Extend(inner, var, expr):
                inside = None if private else self._observing(inner, expression_variables(expr))
                if inside is None:
                    inner_elements = self._added(inner, elements)
                    elements.append(self._extend_element(var, expr, inner, inner_elements))
                else:
                    elements.append(self._observed(node, inside))
            case n.Path() if isinstance(node.path, ListCells):
                cost = cost_of_cells(node, self._compiler.estimate(FIRST))
                elements.append(JoinElement(lambda bound: self.matcher(node, bound), certain(node), cost))
            case _:
                elements.append(
                    JoinElement(lambda bound: self.matcher(node, bound), certain(node), cost_of(node))
                )

    def _added(self, node: n.Algebra, elements: list[JoinElement]) -> list[JoinElement]:
        start = len(elements)
        self._flatten(node, elements)
        return elements[start:]

    def _observing(self, inner: n.Algebra, names: Names) -> dict[str, int] | None:
        """Return private slots for the ``names`` that ``inner`` may leave unbound; None if there are none."""
        unsure = ((in_scope(inner) - certain(inner)) & names) - self._row.keys()
        private = {name: self._scope[name] for name in unsure if name in self._scope}
        return self._compiler.scope(private) if private else None

    def _observed(self, node: n.Algebra, private: dict[str, int]) -> JoinElement:
        """Return an element that evaluates a node with private slots, then unifies them with outer slots."""
        inside = self._with({**self._scope, **private})
        pairs = [(slot, self._scope[name]) for name, slot in private.items()]

        def compile(bound: Names) -> Matcher:
            return unified(inside._conjunction(node, bound - private.keys(), private=True), pairs)

        return JoinElement(compile, certain(node), cost_of(node))

    def _filter_element(self, condition: n.Expr, inner: n.Algebra, before: list[JoinElement]) -> JoinElement:
        names = expression_variables(condition) & in_scope(inner)
        test = _step(self._trace, self._condition(condition, in_scope(inner)))
        return JoinElement(lambda _: test, frozenset(), lambda _: -1.0, *order_after(names, inner, before))

    def _extend_element(
        self, var: n.Var, expr: n.Expr, inner: n.Algebra, before: list[JoinElement]
    ) -> JoinElement:
        names = expression_variables(expr) & in_scope(inner)
        value = self._value(expr, in_scope(inner))
        slot = self._scope[var.name]

        def step(frame: Frame, facts: Facts) -> Iterator[None]:
            computed = value(frame, facts)
            known = frame[slot]
            if not computed or known == computed:
                yield
            elif known is None:
                frame[slot] = computed
                yield
                frame[slot] = None

        traced = _step(self._trace, step)
        return JoinElement(lambda _: traced, frozenset(), lambda _: 0.0, *order_after(names, inner, before))

    # --- triple patterns ----------------------------------------------------------------------

    def _triple_element(self, pattern: n.TriplePattern) -> JoinElement:
        names = frozenset(
            name
            for term in (pattern.subject, pattern.predicate, pattern.object)
            for name in term_variables(term)
        )
        size = float(self._compiler.estimate(pattern.predicate))

        def cost(bound: Names) -> float:
            subject, object_ = (
                all(name in bound for name in term_variables(term))
                for term in (pattern.subject, pattern.object)
            )
            predicate = all(name in bound for name in term_variables(pattern.predicate))
            if subject and object_:
                return 1.0 if predicate else 2.0
            if subject or object_:
                return (2.0 if subject else 3.0) + math.sqrt(size) * (1 if predicate else 2)
            return 10.0 + size * (1 if predicate else 2)

        return JoinElement(lambda _: self._triple(pattern), names, cost)

    def _triple(self, pattern: n.TriplePattern) -> Matcher:
        nested = isinstance(pattern.subject, n.TripleTerm) or isinstance(pattern.object, n.TripleTerm)
        if nested:
            return self._triple_with_terms(pattern)
        s, p, o = (self._slot_of(term) for term in (pattern.subject, pattern.predicate, pattern.object))
        return _triple_at(pattern, (s, p, o), self._graph, self._trace)

    def _triple_with_terms(self, pattern: n.TriplePattern) -> Matcher:
        """Compile a pattern with triple terms: match any term in their places, then compare these terms."""
        terms: list[tuple[int, n.TripleTerm]] = []
        slots = []
        for term in (pattern.subject, pattern.predicate, pattern.object):
            if isinstance(term, n.TripleTerm):
                place = self._layout.slot()
                terms.append((place, term))
                slots.append(place)
            else:
                slots.append(self._slot_of(term))
        s, p, o = slots
        steps = [
            _triple_at(pattern, (s, p, o), self._graph, self._trace),
            *(self._triple_term(place, term) for place, term in terms),
        ]
        return chain(steps)

    def _triple_term(self, place: int, pattern: n.TripleTerm) -> Matcher:
        """Return a matcher that compares the triple term in a bound slot with a pattern."""
        dictionary = self._layout.terms.dictionary
        slots: list[int] = []
        inner: list[Matcher] = []
        for term in (pattern.subject, pattern.predicate, pattern.object):
            if isinstance(term, n.TripleTerm):
                slots.append(self._layout.slot())
                inner.append(self._triple_term(slots[-1], term))
            else:
                slots.append(self._slot_of(term))

        def step(frame: Frame, _: Facts) -> Iterator[None]:
            term = dictionary.terms[frame[place]]
            if not isinstance(term, Triple):
                return
            ids = [dictionary.ids[each] for each in (term.subject, term.predicate, term.object)]
            yield from bind(frame, slots, ids)

        return chain([step, *inner])

    def _path(self, node: n.Path) -> Matcher:
        slots = self._slot_of(node.subject), self._slot_of(node.object)
        # Between two variables, a path of length zero starts only at a node of the graph (SPARQL 1.1, 18.4).
        free = all(
            isinstance(end, n.Var) and end.name not in self._compiler.constants
            for end in (node.subject, node.object)
        )
        steps = PathSteps(node.path, self._layout.terms)
        matcher = match_path(*slots, steps, self._graph, free and may_be_empty(node.path))
        return matcher if self._trace is None else self._trace.path(matcher, node, slots, steps, self._graph)

    # --- graphs and values --------------------------------------------------------------------

    def _in_graph(self, name: NamedNode | n.Var, inner: n.Algebra, bound: Names) -> Matcher:
        slot = self._slot_of(name)
        inside = _Place(self._compiler, self._scope, self._row, slot)
        if not isinstance(name, n.Var):
            return inside.matcher(inner, bound)
        if isinstance(inner, n.Bgp) and inner.patterns:
            return inside.matcher(inner, bound)
        matcher = inside.matcher(inner, bound | {name.name})

        def each_graph(frame: Frame, facts: Facts) -> Iterator[None]:
            if frame[slot] is not None:
                if frame[slot] in facts.graph_names():
                    yield from matcher(frame, facts)
                return
            for graph in facts.graph_names():
                frame[slot] = graph
                yield from matcher(frame, facts)
            frame[slot] = None

        return each_graph

    # --- nodes that read the solutions of an operand ------------------------------------------

    def _optional(self, node: n.LeftJoin, bound: Names) -> Matcher:
        left, right = node.left, node.right
        watched = in_scope(right) | (expression_variables(node.condition) if node.condition else frozenset())
        private = self._observing(left, watched) or {}
        own = in_scope(right) - in_scope(left) - self._row.keys()
        extra = self._compiler.scope(own)
        scope = {**self._scope, **private, **extra}
        inside = self._with(scope)
        match_left = inside.matcher(left, bound - private.keys())
        known = certain(left)
        match_right = inside.matcher(right, known)
        if node.condition is not None:
            visible = in_scope(left) | in_scope(right)
            match_right = chain([match_right, _step(self._trace, inside._condition(node.condition, visible))])
        pairs = [(slot, self._scope[name]) for name, slot in {**private, **extra}.items()]

        def optional(frame: Frame, facts: Facts) -> Iterator[None]:
            for _ in match_left(frame, facts):
                missing = True
                for _ in match_right(frame, facts):
                    missing = False
                    yield
                if missing:
                    yield

        return unified(optional, pairs)

    def _minus(self, node: n.Minus, bound: Names) -> Matcher:
        left, right = node.left, node.right
        shared = in_scope(left) & in_scope(right)
        if not shared:
            return self.matcher(left, bound)
        private = self._observing(left, shared) or {}
        inside = self._with({**self._scope, **private})
        match_left = inside.matcher(left, bound - private.keys())
        sure = shared & certain(right)
        others = self._compiler.scope(in_scope(right) - sure)
        place = self._with({**inside._scope, **others})
        match_right = place.matcher(right, sure & certain(left))
        always = bool(sure & certain(left))
        compared = [(others[name], inside._scope[name]) for name in shared - sure]
        overlap = [inside._scope[name] for name in sure]

        def minus(frame: Frame, facts: Facts) -> Iterator[None]:
            for _ in match_left(frame, facts):
                row = frame.copy()
                before = [row[slot] is not None for slot in overlap]
                for _ in match_right(row, facts):
                    pairs = [(row[theirs], row[ours]) for theirs, ours in compared]
                    both = [(one, other) for one, other in pairs if one is not None and other is not None]
                    if all(one == other for one, other in both) and (always or both or any(before)):
                        break
                else:
                    yield

        return unified(minus, [(slot, self._scope[name]) for name, slot in private.items()])

    def _distinct(self, inner: n.Algebra, bound: Names) -> Matcher:
        unsure = in_scope(inner) - certain(inner) - self._row.keys()
        private = self._compiler.scope(unsure)
        inside = self._with({**self._scope, **private})
        matcher = inside.matcher(inner, bound - private.keys())
        slots = [inside._scope[name] for name in sorted(in_scope(inner))]

        def distinct(frame: Frame, facts: Facts) -> Iterator[None]:
            seen = set()
            for _ in matcher(frame, facts):
                values = tuple([frame[slot] for slot in slots])
                if values not in seen:
                    seen.add(values)
                    yield

        return unified(distinct, [(slot, self._scope[name]) for name, slot in private.items()])

    def _group(self, node: n.Group, bound: Names) -> Matcher:
        inner = node.input
        keys = [var.name for var in node.keys]
        shared = frozenset(keys) & certain(inner)
        given = shared | self._row.keys()
        scope = {**self._scope, **self._compiler.scope(in_scope(inner) - given)}
        inside = self._with(scope)
        matcher = inside.matcher(inner, bound & given & in_scope(inner))
        key_slots = [scope.get(name, -1) for name in keys]
        folds = [_fold(inside, aggregate, in_scope(inner)) for _, aggregate in node.aggregates]
        outer = [self._scope[name] for name in keys] + [self._scope[var.name] for var, _ in node.aggregates]

        trace = self._trace

        def group(frame: Frame, facts: Facts) -> Iterator[None]:
            size = 0 if trace is None else trace.size()
            traced: dict[tuple[int | None, ...], list[Entry]] = {}
            row = frame.copy()
            groups: dict[tuple[int | None, ...], list[list[Any]]] = {}
            for _ in matcher(row, facts):
                key = tuple([row[slot] if slot >= 0 else None for slot in key_slots])
                values = groups.setdefault(key, [[] for _ in folds])
                for (read, _), into in zip(folds, values, strict=True):
                    into.append(read(row, facts))
                if trace is not None:
                    trace.collect(traced.setdefault(key, []), size)
            if not groups and not keys:
                groups[()] = [[] for _ in folds]
            for key, values in groups.items():
                results = [finish(listed) or None for (_, finish), listed in zip(folds, values, strict=True)]
                bound_group = bind(frame, outer, [*key, *results])
                if trace is None:
                    yield from bound_group
                else:
                    for _ in bound_group:
                        yield from trace.with_entries(traced.get(key, ()), size)

        return group

    # --- expressions --------------------------------------------------------------------------

    def _condition(self, condition: n.Expr, visible: Names) -> Matcher:
        expr, schema, slots, tests = self._expression(condition, visible)
        if expr is None:  # the condition is a single EXISTS
            ((_, exists, negated),) = tests

            def tested(frame: Frame, facts: Facts) -> Iterator[None]:
                if exists(frame, facts) != negated:
                    yield

            return tested
        holds = compile_condition(expr, schema, self._layout.terms.context)

        def check(frame: Frame, facts: Facts) -> Iterator[None]:
            if holds(_row(frame, facts, slots, tests)):
                yield

        return check

    def _value(self, expr: n.Expr, visible: Names) -> Callable[[Frame, Facts], int]:
        pure, schema, slots, tests = self._expression(expr, visible, whole=False)
        assert pure is not None
        value = compile_id(pure, schema, self._layout.terms.context)
        return lambda frame, facts: value(_row(frame, facts, slots, tests))

    def _expression(
        self, expr: n.Expr, visible: Names, *, whole: bool = True
    ) -> tuple[n.Expr | None, tuple[str, ...], list[int], list[tuple[int, Any, bool]]]:
        """Return an expression with variables in place of EXISTS, its variables, their slots, and the tests.

        A test has the slot of such a variable, a function that evaluates the EXISTS, and True if the caller
        must negate the result. The returned expression is None if ``expr`` is a single EXISTS and ``whole``
        is True.
        """
        tests: list[tuple[int, Any, bool]] = []
        columns: dict[str, int] = {}

        def replace(each: n.Expr) -> n.Expr | None:
            if isinstance(each, n.Exists):
                name = f"exists {len(tests)}"
                columns[name] = self._layout.slot()
                tests.append((columns[name], self._exists(each.pattern, visible), each.negated))
                return n.Var(name)
            if isinstance(each, n.Var):
                if each.name in self._row:
                    columns[each.name] = self._row[each.name]
                elif each.name in visible and each.name in self._scope:
                    columns[each.name] = self._scope[each.name]
                return each
            return None

        if whole and isinstance(expr, n.Exists):
            replace(expr)
            return None, (), [], tests
        pure = map_expression(expr, replace)
        id_of = self._layout.terms.id_of
        true, false = id_of(_TRUE), id_of(_FALSE)
        wrapped = [(slot, _as_id(test, negated, true, false), False) for slot, test, negated in tests]
        return pure, tuple(columns), list(columns.values()), wrapped

    def _exists(self, pattern: n.Algebra, visible: Names) -> Callable[[Frame, Facts], bool]:
        row = {**{name: self._scope[name] for name in visible if name in self._scope}, **self._row}
        scope = {**row, **self._compiler.scope(in_scope(pattern) - row.keys())}
        place = _Place(self._compiler, scope, row, self._graph)
        matcher = place.matcher(pattern, frozenset(row) & in_scope(pattern))
        if self._trace is not None:
            return self._trace.exists(matcher)

        def exists(frame: Frame, facts: Facts) -> bool:
            for _ in matcher(frame.copy(), facts):
                return True
            return False

        return exists


def _triple_at(
    pattern: n.TriplePattern, slots: tuple[int, int, int], graph: int | None, trace: Trace | None
) -> Matcher:
    """Return the matcher of a triple pattern, given the slots of its terms and of the enclosing graph."""
    matcher = match_triple(*slots) if graph is None else match_in_graph(graph, *slots)
    return matcher if trace is None else trace.pattern(matcher, pattern, slots, graph)


def _step(trace: Trace | None, matcher: Matcher) -> Matcher:
    """Return the matcher of a FILTER or BIND; with a trace, it records the triples that EXISTS match."""
    return matcher if trace is None else trace.step(matcher)


def _as_id(
    test: Callable[[Frame, Facts], bool], negated: bool, true: int, false: int
) -> Callable[[Frame, Facts], int]:
    return lambda frame, facts: true if test(frame, facts) != negated else false


def _row(frame: Frame, facts: Facts, slots: list[int], tests: list[tuple[int, Any, bool]]) -> tuple[int, ...]:
    for slot, test, _ in tests:
        frame[slot] = test(frame, facts)
    return tuple([frame[slot] or 0 for slot in slots])


def _values(
    scope: Scope, terms: RuleTerms, variables: Sequence[n.Var], rows: Sequence[Sequence[n.Term | None]]
) -> Matcher:
    slots = [scope[var.name] for var in variables]
    id_of = terms.id_of
    table = [
        [(slot, id_of(term)) for slot, term in zip(slots, row, strict=True) if term is not None]
        for row in rows
    ]

    def each_row(frame: Frame, _: Facts) -> Iterator[None]:
        for row in table:
            yield from bind(frame, [slot for slot, _ in row], [value for _, value in row])

    return each_row


def _fold(
    place: _Place, aggregate: n.Aggregate, visible: Names
) -> tuple[Callable[[Frame, Facts], Any], Callable[[list[Any]], int]]:
    """Return two functions for an aggregate.

    The first reads the argument from a frame. The second returns the id of the result for the arguments of a
    group, or 0 for an error.
    """
    terms = place._layout.terms
    if aggregate.expr is None:
        slots = [place._scope[name] for name in sorted(visible) if name in place._scope]

        def whole_row(frame: Frame, _: Facts) -> Any:
            return tuple([frame[slot] for slot in slots])

        def count_rows(rows: list[Any]) -> int:
            return terms.context.values.id_of(len(set(rows)) if aggregate.distinct else len(rows))

        return whole_row, count_rows
    value = place._value(aggregate.expr, visible)

    def result(ids: list[Any]) -> int:
        bound_ids = [term_id for term_id in ids if term_id]
        if aggregate.distinct:
            bound_ids = list(dict.fromkeys(bound_ids))
        if aggregate.name == "COUNT":
            return terms.context.values.id_of(len(bound_ids))
        if len(bound_ids) < len(ids) and 0 in ids and not FUNCTIONS[aggregate.name].passes_over_errors:
            return 0
        found = set_function(
            aggregate.name,
            [terms.term(term_id) for term_id in bound_ids],
            separator=aggregate.separator,
            parameter=None if aggregate.parameter is None else percentile_parameter(aggregate),
        )
        return 0 if found is None else terms.id_of(found)

    return value, result
