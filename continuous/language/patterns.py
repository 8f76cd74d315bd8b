"""Translation of graph patterns from syntax to algebra (SPARQL 1.1, section 18.2).

Section numbers in comments of this module refer to https://www.w3.org/TR/sparql11-query/#sparqlQuery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.build import all_nodes, fold, operands, with_operands
from ..algebra.nodes import MERGED, Algebra, Bgp, Call, Expr, Term, TriplePattern, Var
from ..algebra.variables import Scopes
from . import syntax as s
from .context import Context
from .expressions import ExpressionTranslator
from .select import SelectTranslator
from .sequences import sequence_block, step_of
from .terms import Terms, is_ground
from .triples import TripleTranslator
from .windows import Windows

UNIT = Bgp()


class PatternTranslator:
    """Translator of group graph patterns; `SelectTranslator` handles sub-selects."""

    def __init__(self, context: Context, terms: Terms, windows: Windows) -> None:
        self.context = context
        self.terms = terms
        self.windows = windows
        self.triples = TripleTranslator(context, terms)
        self.scopes = Scopes()
        self.expressions = ExpressionTranslator(context, terms, self.triples, self._exists)
        self.selects = SelectTranslator(context, self.scopes, self.expressions, self.triples, self.values)
        self._inside: str | None = None
        self._depth = 0

    # --- entry points

    def where(self, group: s.GroupPattern) -> Algebra:
        """Translate a query's WHERE; in C-SPARQL, patterns outside GRAPH read the merge of all windows."""
        self._depth += 1
        pattern = self.group(group)
        self._depth -= 1
        return self._merged(pattern)

    def _merged(self, pattern: Algebra) -> Algebra:
        merges = self.context.dialect == "csparql" and self.windows.declarations
        return over_merge(pattern) if merges else pattern

    def _exists(self, group: s.GroupPattern) -> Algebra:
        with self.triples.aside():
            pattern = self.group(group)
        # An EXISTS inside WHERE is merged together with WHERE. A pattern of EXISTS in HAVING or SELECT is
        # wrapped in C-SPARQL's merged window separately.
        return pattern if self._depth else self._merged(pattern)

    def group(self, group: s.GroupPattern) -> Algebra:
        """Translate a group graph pattern; its filters apply to the whole group (SPARQL 1.1, 18.2.2.7)."""
        pattern, conditions = self._parts(group)
        for condition in conditions:
            pattern = a.Filter(condition, pattern)
        return pattern

    # --- groups

    def _parts(self, group: s.GroupPattern) -> tuple[Algebra, list[Expr]]:
        """Translate a group to its pattern without filters, and the conditions of its FILTERs."""
        self.context.count_pattern(group.at)
        self.triples.new_block()
        joined: list[Algebra] = []
        run: list[TriplePattern | a.Path] = []
        conditions: list[Expr] = []
        stacked = 0  # In a group, each OPTIONAL, MINUS and BIND wraps the operators before it.
        for element in group.elements:
            match element:
                case s.Triples():
                    run.extend(self.triples.patterns(element))
                    continue
                case s.FilterClause(condition):
                    # FILTER does not end a basic graph pattern (SPARQL 1.1, 5.2.2).
                    conditions.append(self.expressions.translate(condition))
                    continue
            joined.extend(_blocks(run))
            run = []
            self.triples.new_block()
            if isinstance(element, (s.Optional, s.MinusGroup, s.BindClause)):
                stacked += 1
                if stacked > self.context.limits.operators:
                    self._refuse_stack(element.at)
                    break
            joined = self._element(element, joined)
            self.triples.new_block()
        joined.extend(_blocks(run))
        return _join(joined), conditions

    def _refuse_stack(self, at: int) -> None:
        limit = self.context.limits.operators
        self.context.fault(
            f"a group has more than {limit} OPTIONAL, MINUS and BIND", at, "Split the query.", "limit"
        )

    def _element(self, element: s.Element, joined: list[Algebra]) -> list[Algebra]:
        match element:
            case s.Optional(group):
                inner, conditions = self._parts(group)
                condition = None if not conditions else _and(conditions)
                return [a.LeftJoin(_join(joined), inner, condition)]
            case s.MinusGroup(group):
                return [a.Minus(_join(joined), self.group(group))]
            case s.BindClause():
                return [self._bind(element, _join(joined))]
            case _:
                pattern = self._pattern(element)
                return joined if pattern == UNIT else [*joined, pattern]

    def _pattern(self, element: s.Element) -> Algebra:
        match element:
            case s.Alternatives(groups):
                union: Algebra = fold(a.Union, [self.group(group) for group in groups])
                return union
            case s.SubSelect():
                return self.selects.sub_select(element, self.group(element.where))
            case s.ValuesBlock():
                return self.values(element)
            case s.GraphBlock():
                return self._graph(element)
            case s.ServiceBlock():
                return self._service(element)
            case s.StreamBlock(name, window, group, at, time):
                stream = self.triples.name(name)
                self._refuse_inside("STREAM", at)
                return self._window(self.windows.block(stream, window, at), group, "a STREAM block", time)
            case s.SequenceBlock():
                return self._sequence(element)
            case s.WindowBlock(name, group, at, time):
                window_name = self.triples.name(name)
                self._refuse_inside("WINDOW", at)
                self.windows.use(window_name, at)
                return self._window(window_name, group, "a WINDOW block", time)
            case _:
                raise AssertionError(element)

    def _bind(self, element: s.BindClause, pattern: Algebra) -> Algebra:
        expression = self.expressions.translate(element.expression)
        variable = self.triples.variable(element.variable)
        if variable in self.scopes.of(pattern):
            self.context.fault(
                f"BIND cannot set ?{variable.name}: it is already used before it in the same group",
                element.variable.at,
                "Choose another name, or compare with FILTER.",
            )
        return a.Extend(pattern, variable, expression)

    def values(self, block: s.ValuesBlock) -> a.Values:
        """Translate a VALUES block to algebra (SPARQL 1.1, 18.2.2.8)."""
        variables = tuple(self.triples.variable(variable) for variable in block.variables)
        if len(set(variables)) < len(variables):
            self.context.fault("VALUES lists a variable twice", block.at)
        rows = []
        for row in block.rows:
            if len(row.cells) != len(variables):
                self.context.fault(
                    f"VALUES has {len(variables)} variables, this row has {len(row.cells)} values", row.at
                )
            rows.append(tuple(self._cell(cell) for cell in row.cells))
        return a.Values(variables, tuple(rows))

    def _cell(self, cell: s.Node | s.Undef) -> Term | None:
        if isinstance(cell, s.Undef):
            return None
        term = self.triples.node(cell, [])
        if is_ground(term) and not isinstance(term, Var):
            return term  # type: ignore[return-value]
        self.context.fault("VALUES holds terms only: no variables and no blank nodes", cell.at)
        return None

    # --- GRAPH, WINDOW and other blocks with a separate dataset

    def _graph(self, element: s.GraphBlock) -> Algebra:
        if isinstance(element.name, s.Variable) and element.name.name in self.context.window_variables:
            window = self.context.window_variables[element.name.name]
            self._refuse_inside(f"GRAPH ?{element.name.name}, which is a window,", element.at)
            self.windows.use(window, element.at)
            return self._window(window, element.group, f"the window ?{element.name.name}")
        name = self.triples.name(element.name)
        with self._within(self._inside or "GRAPH"):
            return a.Graph(name, self.group(element.group))

    def _service(self, element: s.ServiceBlock) -> Algebra:
        name = self.triples.name(element.name)
        if self._inside is not None and self._inside not in ("GRAPH", "SERVICE"):
            self.context.missing(
                f"SERVICE inside {self._inside}", element.at, "Put it next to the block: it means the same."
            )
        with self._within("SERVICE"):
            call = a.Service(name, self.group(element.group), element.silent)
        self.context.services.append(call)
        return replace(call, block=self.context.services.count(call) - 1)

    def _sequence(self, element: s.SequenceBlock) -> Algebra:
        self._refuse_inside("SEQ", element.at)
        steps = []
        for step in element.steps:
            with self._within("a step of SEQ"):
                pattern, conditions = self._parts(step.group)
            named = self.terms.iri(step.name)
            at = None if step.time is None else self.triples.variable(step.time)
            steps.append(step_of(self.context, self.windows, step, named, at, pattern, conditions))
        return sequence_block(self.context, self.windows, element, steps, self.terms.base)

    def _window(
        self, name: NamedNode | Var, group: s.GroupPattern, what: str, time: s.Variable | None = None
    ) -> Algebra:
        """Translate a block over a window; ``time`` is the variable of its AT."""
        with self._within(what):
            pattern = self.group(group)
        bounds = self.windows.bounds_of(name)
        if time is None:
            return a.Window(name, pattern, bounds=bounds)
        self.windows.read_by_element(name, time.at)
        if any(isinstance(each, a.Graph) for each in all_nodes(pattern)):
            hint = "An element's triples are one graph there: leave GRAPH out, or write a block without AT."
            self.context.missing("GRAPH in a block with AT", group.at, hint)
        return a.Window(name, pattern, time=self.triples.variable(time), bounds=bounds)

    def _refuse_inside(self, what: str, at: int) -> None:
        if self._inside is None:
            return
        where = self._inside if self._inside not in ("GRAPH", "SERVICE") else f"a {self._inside} block"
        self.context.fault(
            f"{what} cannot stand inside {where}",
            at,
            "Put the blocks side by side in one group; they join by their variables.",
        )

    @contextmanager
    def _within(self, what: str) -> Iterator[None]:
        outer, self._inside = self._inside, what
        yield
        self._inside = outer


def _blocks(run: list[TriplePattern | a.Path]) -> Iterator[Algebra]:
    """Group adjacent triple patterns to basic graph patterns; a path is a pattern by itself (18.2.2.5)."""
    patterns: list[TriplePattern] = []
    for item in run:
        if isinstance(item, TriplePattern):
            patterns.append(item)
            continue
        if patterns:
            yield Bgp(tuple(patterns))
            patterns = []
        yield item
    if patterns:
        yield Bgp(tuple(patterns))


def _join(parts: list[Algebra]) -> Algebra:
    result: Algebra = fold(a.Join, parts) if parts else UNIT
    return result


def _and(conditions: list[Expr]) -> Expr:
    result: Expr = fold(lambda left, right: Call("&&", (left, right)), conditions)
    return result


def over_merge(node: Algebra) -> Algebra:
    """Wrap every maximal sub-pattern without GRAPH and SERVICE in C-SPARQL's merged window.

    ``Join(Bgp, Graph(g, P))`` becomes ``Join(Window(merged, Bgp), Graph(g, P))``. A window only changes the
    dataset of its pattern, so wrapping a pattern and wrapping its parts are equivalent.
    """
    if isinstance(node, a.Values) or node == a.Bgp():
        return node
    if not _has_graph(node):
        return a.Window(MERGED, node)
    if isinstance(node, (a.Graph, a.Service)):
        return node
    return with_operands(node, [over_merge(each) for each in operands(node)])


def _has_graph(node: Algebra) -> bool:
    return any(isinstance(each, (a.Graph, a.Service)) for each in all_nodes(node))
