"""SELECT and ASK queries with pre-bound variables (SHACL appendix A), evaluated on facts.

A pre-bound variable has its value everywhere in the query: also in sub-selects, in UNION, and in the
conditions of OPTIONAL and FILTER. A pre-bound variable is therefore compiled like a constant, whose slot in
the frame is filled before each evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from ...algebra import nodes as n
from ...algebra.query import ContinuousQuery
from ...algebra.rewrites import rename_subquery_variables
from ...algebra.variables import in_scope
from ...expressions.compile import ValueFunction, compile_id
from ...expressions.values import OrderKeys
from ...rules.facts import Facts
from ...rules.layout import Layout, Matcher
from ...rules.matching import BodyCompiler
from ...rules.terms import RuleTerms

Row = dict[str, int]
"""The term ids of one solution by variable; unbound variables are left out."""


class BoundQuery:
    """One query, compiled at its first evaluation.

    Attributes:
        body: the pattern of the query, without the projection, DISTINCT, ORDER BY and LIMIT around it.
        prebound: the names of the pre-bound variables.
    """

    def __init__(self, query: ContinuousQuery, prebound: frozenset[str], terms: RuleTerms) -> None:
        self.prebound = prebound
        self._terms = terms
        root = query.root
        self._slice = root if isinstance(root, n.Slice) else None
        root = root.input if isinstance(root, n.Slice) else root
        self._distinct = isinstance(root, n.Distinct)
        root = root.input if isinstance(root, n.Distinct) else root
        self._columns = sorted(in_scope(root) | prebound)
        root = root.input if isinstance(root, n.Project) else root
        self._order: tuple[n.OrderCondition, ...] = ()
        if isinstance(root, n.OrderBy):
            self._order, root = root.conditions, root.input
        self.body = rename_subquery_variables(root, prebound)
        self._layout = Layout(terms)
        self._compiled: tuple[Matcher, dict[str, int]] | None = None

    def rows(self, facts: Facts, values: Mapping[str, int]) -> Iterator[Row]:
        """Yield the solutions of a SELECT with the pre-bound variables, whose ids are ``values``."""
        found = self._solutions(facts, values)
        ordered = found if self._slice is None else iter(self._in_order(found))
        columns = self._columns
        rows = ({name: row[name] for name in columns if name in row} for row in ordered)
        if self._distinct:
            rows = (dict(row) for row in dict.fromkeys(tuple(row.items()) for row in rows))
        if self._slice is None:
            return rows
        limit = self._slice.limit
        return islice(rows, self._slice.offset, None if limit is None else self._slice.offset + limit)

    def holds(self, facts: Facts, values: Mapping[str, int]) -> bool:
        """Return the answer of an ASK with the pre-bound variables, whose ids are ``values``."""
        return any(True for _ in self._solutions(facts, values))

    def _solutions(self, facts: Facts, values: Mapping[str, int]) -> Iterator[Row]:
        if self._compiled is None:
            compiler = BodyCompiler(self._layout, facts.count, constants=self.prebound)
            scope = compiler.scope(in_scope(self.body) | self.prebound)
            bound = self.prebound & in_scope(self.body)
            row = {name: scope[name] for name in self.prebound}
            self._compiled = compiler.compile(self.body, scope, bound, row), scope
        matcher, scope = self._compiled
        frame = self._layout.frame()
        for name, value in values.items():
            frame[scope[name]] = value
        for _ in matcher(frame, facts):
            yield {name: frame[slot] for name, slot in scope.items() if frame[slot]}

    def _in_order(self, rows: Iterator[Row]) -> list[Row]:
        """Return solutions in the order of ORDER BY; solutions with equal keys are ordered by their terms."""
        found = list(rows)
        keys = OrderKeys(self._terms.context.values)
        columns = tuple(self._columns)
        found.sort(key=lambda row: [keys.total(row.get(name, 0)) for name in columns])
        names = tuple(sorted(in_scope(self.body) | self.prebound))
        for condition in reversed(self._order):
            value: ValueFunction = compile_id(condition.expr, names, self._terms.context)

            def key(row: Row, value: ValueFunction = value) -> object:
                return keys.value(value(tuple([row.get(name, 0) for name in names])))  # type: ignore[arg-type]

            found.sort(key=key, reverse=condition.descending)  # type: ignore[arg-type]
        return found
