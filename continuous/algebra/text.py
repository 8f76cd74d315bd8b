"""The algebra as SPARQL 1.2 text that Oxigraph accepts and reads back as the same algebra.

The algebra is rewritten to nodes that SPARQL can express, then printed: rows of static parts become patterns,
a left join whose right side is a Filter gets a condition of its own, each grouping is a sub-select. Blank
nodes of patterns are written as variables.

With `FunctionNames` the text also fixes what SPARQL leaves open (docs/semantics.md, section 1): set functions
become custom aggregates, ORDER BY sorts by keys of the total order with all columns as tie-breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import UnsupportedError

from . import nodes as n
from .build import (
    UNIT,
    children,
    expressions,
    is_plain,
    map_expression,
    union,
    with_children,
    with_expressions,
)
from .corrections import corrected
from .join_order import may_be_lateral
from .nodes import Algebra, Expr, Term, Var
from .order import XSD
from .print_triples import TermPrinter
from .printer import Printer
from .query import ContinuousQuery
from .select_parts import select_parts
from .set_functions import STATISTICAL
from .static import projected
from .variables import in_scope

_TRUE = n.Constant(Literal("true", datatype=NamedNode(XSD + "boolean")))


class FunctionNames(Protocol):
    """Names of the custom functions that a text calls; the evaluation registers them with Oxigraph."""

    def aggregate(self, aggregate: n.Aggregate) -> NamedNode | None:
        """Return the custom aggregate for a set function; None if the store's own implementation is used."""
        ...

    def skipped(self, aggregate: n.Aggregate) -> Term | None:
        """Return the term that stands for an error which the aggregate ignores; None if errors count."""
        ...

    @property
    def value_order(self) -> NamedNode:
        """IRI of the function of one argument that returns `order.value_text`."""
        ...

    @property
    def total_order(self) -> NamedNode:
        """IRI of the function of one argument that returns `order.total_text`."""
        ...

    def function(self, name: str) -> NamedNode | None:
        """The custom function that replaces an operator, a built-in or the function of an IRI, or None."""
        ...


TableText = Mapping[str, Sequence[Mapping[int, NamedNode]]]
"""How the rows of a `Table` are stored: for each set of bound columns the predicate of each column.
A row is a node with one quad per bound column (and, without any, one quad of the predicate -1)."""


class SparqlText:
    """The text of one query; its root is corrected already (corrections.py).

    ``tables`` says how the rows of static parts are stored in an evaluation store; with it, joins are
    written as LATERAL where they may be. ``base_iri`` is what IRI() resolves against.
    """

    def __init__(
        self,
        root: Algebra,
        *,
        choices: FunctionNames | None = None,
        tables: TableText | None = None,
        base_iri: str | None = None,
    ) -> None:
        self._root = root
        self._base = f"BASE <{base_iri}> " if base_iri else ""
        self._choices = choices
        self._tables = tables
        self._numbers = count(1)
        terms = TermPrinter(root, free=True)
        self._printer = Printer(terms, by_row=None if tables is None else _by_row)

    def select(self, columns: Iterable[str] | None = None) -> str:
        """The root as a SELECT query; ``columns`` (default: all visible) matter only for a bare pattern.

        >>> pattern = n.TriplePattern(Var("s"), NamedNode("http://p"), Var("o"))
        >>> print(SparqlText(n.Bgp((pattern,))).select())
        SELECT ?o ?s
        WHERE {
          ?s <http://p> ?o .
        }
        """
        node = self._root
        if not isinstance(node, (n.Project, n.Slice, n.Distinct)):
            node = n.Project(node, _visible(node) if columns is None else tuple(map(Var, columns)))
        parts = select_parts(self._rewrite(node), projected=True)
        return self._base + "\n".join(self._printer.select(parts))

    def ask(self) -> str:
        """Return the root as an ASK query."""
        return self._base + "\n".join(
            self._printer.enclosed("ASK", self._printer.inside(self._rewrite(self._root)))
        )

    def query(self, query: ContinuousQuery) -> str:
        """Return the root as the WHERE clause of a one-shot query of any form, with its dataset clause."""
        terms = TermPrinter((query.template, query.describe))
        dataset = [f"FROM {iri}" for iri in query.dataset.default]
        dataset += [f"FROM NAMED {iri}" for iri in query.dataset.named]
        parts = select_parts(self._rewrite(self._root), projected=query.form == "select")
        lines = self._printer.select(parts, self._printer.head(query, terms), dataset)
        return self._base + "\n".join(lines)

    # --- what Oxigraph is to read in the place of a node ---------------------------------------

    def _rewrite(self, node: Algebra) -> Algebra:
        match node:
            case n.Join(left, right):
                # Not by `with_children`, which would make one pattern of two tables.
                new = self._rewrite(left), self._rewrite(right)
                return node if new[0] is left and new[1] is right else n.Join(*new)
            case n.Bgp(patterns):
                # Annotated triples first: looked up by one of their parts each would be a scan of its own.
                annotated = [each for each in patterns if isinstance(each.object, n.TripleTerm)]
                others = [each for each in patterns if not isinstance(each.object, n.TripleTerm)]
                return n.Bgp((*annotated, *others)) if annotated and others else node
            case n.TableNode(name):
                shapes = () if self._tables is None else self._tables.get(name, ())
                return union([self._row(node, shape) for shape in shapes])
            case n.Window():
                raise UnsupportedError(
                    "WINDOW", "a window can not be written in SPARQL: it has no dataset here"
                )
            case n.Group():
                return self._group(node)
            case n.Slice() | n.Distinct() | n.Project() | n.OrderBy():
                return self._select(node)
            case n.LeftJoin(_, n.Filter(), None):
                # Oxigraph reads a group of nothing but a group with a FILTER as if it had the FILTER.
                node = replace(node, condition=_TRUE)
        node = with_expressions(node, [self._expression(each) for each in expressions(node)])
        return with_children(node, [self._rewrite(each) for each in children(node)])

    def _row(self, table: n.TableNode, shape: Mapping[int, NamedNode]) -> Algebra:
        row = self._hidden()
        return n.Bgp(
            tuple(
                n.TriplePattern(row, predicate, table.vars[column] if column >= 0 else self._hidden())
                for column, predicate in shape.items()
            )
        )

    def _select(self, node: Algebra) -> Algebra:
        """Solution modifiers, each once and in SPARQL's order; a SELECT has a column and lists them all."""
        limits = distinct = conditions = None
        if isinstance(node, n.Slice):
            limits, node = node, node.input
        if isinstance(node, n.Distinct):
            distinct, node = node, node.input
        if isinstance(node, n.Project):
            columns, node = node.vars, node.input
        else:
            columns = tuple(map(Var, sorted(in_scope(node))))
        if isinstance(node, n.OrderBy):
            conditions, node = node.conditions, node.input
        result = self._rewrite(node)
        ordered = conditions is not None or limits is not None
        order = self._order(conditions or (), columns) if ordered else ()
        if not columns:
            columns = (self._hidden(),)
            result = n.Extend(result, columns[0], _TRUE)
        result = n.Project(n.OrderBy(result, order) if order else result, columns)
        if distinct is not None:
            result = replace(distinct, input=result)
        return result if limits is None else replace(limits, input=result)

    def _order(
        self, conditions: Sequence[n.OrderCondition], columns: Sequence[Var]
    ) -> tuple[n.OrderCondition, ...]:
        keys = [replace(each, expr=self._expression(each.expr)) for each in conditions]
        if self._choices is not None:
            value, total = self._choices.value_order, self._choices.total_order
            keys = [replace(each, expr=n.FunctionCall(value, (each.expr,))) for each in keys]
            keys += [n.OrderCondition(n.FunctionCall(total, (column,))) for column in columns]
        return tuple(keys)

    def _group(self, node: n.Group) -> Algebra:
        """A grouping in a group of its own: SELECT's expressions do not all see each other in Oxigraph."""
        inner = _computed_keys(node.input)
        aggregates = [(var, self._aggregate(each)) for var, each in node.aggregates]
        if any(each.name == "COUNT" and each.distinct and each.expr is None for _, each in aggregates):
            inner = n.Project(inner, _visible(inner))
        for place, (var, each) in enumerate(node.aggregates):
            if each.name == "COUNT" and each.expr is not None and not isinstance(each.expr, Var):
                # Oxigraph gives no count at all where one expression fails, but leaves out what is unbound.
                counted = self._hidden()
                inner = n.Extend(inner, counted, each.expr)
                aggregates[place] = var, replace(each, expr=counted)
        if not node.keys and not aggregates:
            aggregates = [(self._hidden(), n.Aggregate("COUNT", None))]
        return n.Join(UNIT, n.Group(self._rewrite(inner), node.keys, tuple(aggregates)))

    def _aggregate(self, aggregate: n.Aggregate) -> n.Aggregate:
        """A set function, as a custom aggregate where it leaves something open."""
        argument, choices = aggregate.expr, self._choices
        custom = choices.aggregate(aggregate) if choices is not None and argument is not None else None
        if argument is not None:
            argument = self._expression(argument)
        if custom is None:
            if aggregate.name in STATISTICAL:
                raise UnsupportedError(aggregate.name, f"SPARQL has no set function {aggregate.name}")
            return replace(aggregate, expr=argument)
        assert choices is not None and argument is not None
        skipped = choices.skipped(aggregate)
        if skipped is not None:
            argument = n.Call("COALESCE", (argument, n.Constant(skipped)))
        return n.Aggregate(str(custom), argument)

    def _expression(self, expr: Expr) -> Expr:
        return expr if isinstance(expr, Var) else map_expression(expr, self._changed)

    def _changed(self, expr: Expr) -> Expr | None:
        match expr:
            case n.Exists(pattern, negated):
                return n.Exists(self._rewrite(pattern), negated)
            case n.Call(name, args) if self._choices is not None:
                custom = self._choices.function(name)
                return None if custom is None else n.FunctionCall(custom, tuple(map(self._expression, args)))
            case n.FunctionCall(iri, (_,) as args) if self._choices is not None:
                custom = self._choices.function(iri.value)
                return None if custom is None else n.FunctionCall(custom, tuple(map(self._expression, args)))
            case _:
                return None

    def _hidden(self) -> Var:
        return Var(f"_:text {next(self._numbers)}")  # a variable of a query text never contains a space


def _computed_keys(node: Algebra) -> Algebra:
    """What a grouping reads: Oxigraph forgets the name in ``GROUP BY (?b AS ?a)``, but not that of a call."""
    if not isinstance(node, n.Extend):
        return node
    expr = n.Call("COALESCE", (node.expr,)) if isinstance(node.expr, Var) else node.expr
    return n.Extend(_computed_keys(node.input), node.var, expr)


def _by_row(left: Algebra, right: Algebra) -> bool:
    """Return True for a join evaluated row by row, because a hash join would scan tables and windows."""
    return not isinstance(right, n.Values) and may_be_lateral(left, right)


def _visible(node: Algebra) -> tuple[Var, ...]:
    return tuple(Var(name) for name in sorted(in_scope(node)) if not name.startswith("_:"))


def static_text(
    pattern: Algebra,
    columns: Sequence[Var],
    choices: FunctionNames | None,
    base_iri: str | None = None,
    *,
    merged: bool = False,
) -> str:
    """The text that the store evaluates for a static part; without choices, the plain SPARQL of it.

    ``merged``: its default graph is merged from several graphs.
    """
    if tuple(columns) != projected(pattern) or not isinstance(pattern, (n.Project, n.Distinct, n.Slice)):
        pattern = n.Project(pattern, tuple(columns))
    if merged or not is_plain(pattern):
        pattern, _ = corrected(pattern, merged=merged, replaces=choices is None)
    return SparqlText(pattern, choices=choices, base_iri=base_iri).select()
