"""Conversion of the algebra to SPARQL 1.2 text that Oxigraph parses to the same algebra.

The algebra is first rewritten to nodes that SPARQL can express, and then printed. Rows of static parts become
triple patterns, a left join whose right side is a Filter gets the condition ``true``, and each GROUP BY
becomes a sub-select. Blank nodes of patterns are printed as variables.

With custom functions (`FunctionNames`) the result of the text is determined even where SPARQL allows several
results (docs/semantics.md, section 1). In such a text, set functions become custom aggregates, and ORDER BY
sorts by a total order of terms, with all columns as further sort keys.
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
    """Names of the custom functions that a SPARQL text calls; the evaluation registers them with Oxigraph."""

    def aggregate(self, aggregate: n.Aggregate) -> NamedNode | None:
        """Return the custom aggregate for a set function; None if the store's own function is used."""
        ...

    def skipped(self, aggregate: n.Aggregate) -> Term | None:
        """Return the term that stands for errors which the aggregate ignores; None if errors count."""
        ...

    @property
    def value_order(self) -> NamedNode:
        """The IRI of a custom function of one argument that returns `order.value_text`."""
        ...

    @property
    def total_order(self) -> NamedNode:
        """The IRI of a custom function of one argument that returns `order.total_text`."""
        ...

    def function(self, name: str) -> NamedNode | None:
        """Return the custom function that replaces an operator, built-in or extension function, or None."""
        ...


TableText = Mapping[str, Sequence[Mapping[int, NamedNode]]]
"""A map from names of static parts to the encoding of their rows as quads in an evaluation store.

For the rows of a static part, each set of bound columns has a map from columns to predicates. A row of a
static part in the store is a node with one quad per bound column. A row of a static part without bound
columns is one quad whose predicate has the key -1.
"""


class SparqlText:
    """A converter of one query's algebra to SPARQL text; `corrections` must already have corrected ``root``.

    ``tables`` is the encoding of the rows of static parts in an evaluation store; with ``tables``, joins are
    printed as LATERAL where this is possible. ``base_iri`` is the base IRI of the function IRI().
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
        """Return the algebra as the text of a SELECT query.

        ``columns`` are the columns of the SELECT if the algebra has no projection; by default all visible
        variables.

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
        """Return the algebra as the text of an ASK query."""
        return self._base + "\n".join(
            self._printer.enclosed("ASK", self._printer.inside(self._rewrite(self._root)))
        )

    def query(self, query: ContinuousQuery) -> str:
        """Return the text of a one-shot query of any form, with the algebra as its WHERE clause."""
        terms = TermPrinter((query.template, query.describe))
        dataset = [f"FROM {iri}" for iri in query.dataset.default]
        dataset += [f"FROM NAMED {iri}" for iri in query.dataset.named]
        parts = select_parts(self._rewrite(self._root), projected=query.form == "select")
        lines = self._printer.select(parts, self._printer.head(query, terms), dataset)
        return self._base + "\n".join(lines)

    # --- rewriting of algebra nodes for Oxigraph ----------------------------------------------

    def _rewrite(self, node: Algebra) -> Algebra:
        match node:
            case n.Join(left, right):
                # The function `with_children` is not used, because it would merge the triple patterns of two
                # static tables.
                new = self._rewrite(left), self._rewrite(right)
                return node if new[0] is left and new[1] is right else n.Join(*new)
            case n.Bgp(patterns):
                # Annotated triples are matched first, because a later match by a part of the triple term
                # would scan all quads for each row.
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
                # Oxigraph moves the FILTER of an inner group to its outer group if that group has no other
                # content. The condition ``true`` prevents that Oxigraph moves the inner FILTER.
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
        """Return solution modifiers once each, in SPARQL's order, with at least one explicit column."""
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
        """Return a GROUP BY as a separate sub-select.

        In Oxigraph, an expression of a SELECT clause cannot use every other expression of the clause.
        """
        inner = _computed_keys(node.input)
        aggregates = [(var, self._aggregate(each)) for var, each in node.aggregates]
        if any(each.name == "COUNT" and each.distinct and each.expr is None for _, each in aggregates):
            inner = n.Project(inner, _visible(inner))
        for place, (var, each) in enumerate(node.aggregates):
            if each.name == "COUNT" and each.expr is not None and not isinstance(each.expr, Var):
                # If the expression of COUNT fails for one row, Oxigraph returns no count at all. A bound
                # variable instead of the expression of COUNT omits the rows with errors from the count.
                counted = self._hidden()
                inner = n.Extend(inner, counted, each.expr)
                aggregates[place] = var, replace(each, expr=counted)
        if not node.keys and not aggregates:
            aggregates = [(self._hidden(), n.Aggregate("COUNT", None))]
        return n.Join(UNIT, n.Group(self._rewrite(inner), node.keys, tuple(aggregates)))

    def _aggregate(self, aggregate: n.Aggregate) -> n.Aggregate:
        """Return a set function's call, as a custom aggregate if SPARQL does not determine its result."""
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
        # A generated variable name has a space, which no variable of a query text contains.
        return Var(f"_:text {next(self._numbers)}")


def _computed_keys(node: Algebra) -> Algebra:
    """Return the input of a GROUP BY with computed keys as function calls.

    Oxigraph ignores the name ?a in ``GROUP BY (?b AS ?a)``, but keeps the name of a function call.
    """
    if not isinstance(node, n.Extend):
        return node
    expr = n.Call("COALESCE", (node.expr,)) if isinstance(node.expr, Var) else node.expr
    return n.Extend(_computed_keys(node.input), node.var, expr)


def _by_row(left: Algebra, right: Algebra) -> bool:
    """Return True for a join that is evaluated row by row, because a hash join would scan all rows."""
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
    """Return the SPARQL text with which the store evaluates a static part.

    With ``choices``, the text of a static part calls custom functions; otherwise it is plain SPARQL.
    ``merged`` is True if the default graph that the text reads is merged from several graphs.
    """
    if tuple(columns) != projected(pattern) or not isinstance(pattern, (n.Project, n.Distinct, n.Slice)):
        pattern = n.Project(pattern, tuple(columns))
    if merged or not is_plain(pattern):
        pattern, _ = corrected(pattern, merged=merged, replaces=choices is None)
    return SparqlText(pattern, choices=choices, base_iri=base_iri).select()
