"""The algebra as SPARQL 1.2 text that Oxigraph accepts and reads back as the same algebra.

Every group is written so that the translation of SPARQL 1.1 section 18.2.2 gives the node again: a
FILTER stands at the end of a group of its own, a LeftJoin whose right side is a Filter keeps it apart
from its condition, grouping and solution modifiers become sub-selects. Blank nodes of patterns are written
as variables with a reserved prefix.

With `Choices` the text also fixes what SPARQL leaves open (docs/semantics.md, section 1): set functions
become custom aggregates, ORDER BY sorts by keys of the total order with all columns as tie-breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import UnsupportedError
from quadrill.store.terms import term_text

from . import nodes as n
from .join_order import may_be_lateral
from .nodes import Algebra, Expr, Term, Var
from .printer import PRIMARY, Printer, T
from .set_functions import STATISTICAL
from .variables import in_scope, mentioned


class Choices(Protocol):
    """Names for what the text calls by custom functions; the evaluation registers them with Oxigraph."""

    def aggregate(self, aggregate: n.Aggregate) -> NamedNode | None:
        """The custom aggregate that computes this set function; None to leave it to the store."""
        ...

    def skipped(self, aggregate: n.Aggregate) -> Term | None:
        """The term that stands for an error which the aggregate passes over; None when errors count."""
        ...

    @property
    def value_order(self) -> NamedNode:
        """The function of one argument that gives the key of `order.value_text`."""
        ...

    @property
    def total_order(self) -> NamedNode:
        """The function of one argument that gives the key of `order.total_text`."""
        ...

    def function(self, name: str) -> NamedNode | None:
        """The custom function that replaces a built-in without arguments (NOW), or None."""
        ...


TableText = Mapping[str, Sequence[Mapping[int, NamedNode]]]
"""How the rows of a `Table` are stored: for each set of bound columns the predicate of each column.
A row is a node with one quad per bound column (and, without any, one quad of the predicate -1)."""


def to_text(node: Algebra) -> str:
    """The pattern as one SELECT query of all its visible columns, in plain SPARQL.

    >>> from .nodes import Bgp, TriplePattern, Var
    >>> to_text(Bgp((TriplePattern(Var("s"), NamedNode("http://p"), Var("o")),)))
    'SELECT ?o ?s WHERE { ?s <http://p> ?o . }'
    """
    return SparqlText(node).select()


def row_text(row: Sequence[Term | None]) -> str:
    """A row of VALUES as SPARQL writes it."""
    return "(" + " ".join(["UNDEF" if term is None else term_text(term) for term in row]) + ")"


class SparqlText(Printer):
    """Prints one query; names of blank node variables are numbered over the whole of it.

    ``tables`` says how the rows of static parts are stored in an evaluation store; with it, joins are
    written as LATERAL where they may be. ``base_iri`` is what IRI() resolves against.
    """

    def __init__(
        self,
        root: Algebra,
        *,
        choices: Choices | None = None,
        tables: TableText | None = None,
        base_iri: str | None = None,
    ) -> None:
        super().__init__()
        self._root = root
        self._base = f"BASE <{base_iri}> " if base_iri else ""
        self._choices = choices
        self._tables = tables
        self._hidden: dict[str, str] = {}
        self._fresh = 0
        self._inside_graph = False
        self._prefix = "_h"
        while any(name.startswith(self._prefix) for name in mentioned(root)):
            self._prefix += "_"

    # --- whole queries -------------------------------------------------------------------------

    def select(self, columns: Iterable[str] | None = None) -> str:
        """The root as a SELECT query; ``columns`` (default: all visible) matter only for a bare pattern."""
        node = self._root
        if isinstance(node, (n.Project, n.Slice, n.Distinct, n.Reduced)):
            return self._base + self._sub_select(node)
        names = (
            sorted(name for name in in_scope(node) if not name.startswith("_:"))
            if columns is None
            else columns
        )
        return self._base + self._sub_select(n.Project(node, tuple(map(Var, names))))

    def ask(self) -> str:
        """The root as an ASK query."""
        return f"{self._base}ASK {{ {self._body(self._root)} }}"

    separator = "; SEPARATOR="

    # --- groups --------------------------------------------------------------------------------

    def _body(self, node: Algebra) -> str:
        """The text between the braces of a group that translates to ``node``."""
        match node:
            case n.Join(left, right):
                return self._join(left, right)
            case n.LeftJoin(left, right, condition):
                return f"{self._sequence(left)} {self._optional(right, condition)}".strip()
            case n.Minus(left, right):
                return f"{self._sequence(left)} MINUS {{ {self._body(right)} }}".strip()
            case n.Filter(condition, inner):
                return f"{self._body(inner)} FILTER({self.expression(condition)})".strip()
            case n.Extend(inner, var, expr):
                return f"{self._sequence(inner)} BIND({self.expression(expr)} AS {self.var(var)})".strip()
            case _:
                return self._element(node)

    def _join(self, left: Algebra, right: Algebra) -> str:
        """Over an evaluation store tables and windows are looked up row by row where they may be.

        A hash join would scan them all. Inside a window Oxigraph's own order is the better one.
        """
        plain = self._tables is None or self._inside_graph or isinstance(right, n.Values)
        if plain or not may_be_lateral(left, right):
            return f"{self._sequence(left)} {self._element(right)}".strip()
        return f"{self._sequence(left)} LATERAL {{ {self._body(right)} }}".strip()

    def _sequence(self, node: Algebra) -> str:
        """The text with which a group may begin; a FILTER must not reach the rest of the group."""
        if isinstance(node, n.Filter):
            return f"{{ {self._body(node)} }}"
        return self._body(node)

    def _optional(self, right: Algebra, condition: Expr | None) -> str:
        """OPTIONAL reads a FILTER at the end of its group as the condition of the left join."""
        if isinstance(right, n.Filter):
            condition = n.Constant(_TRUE) if condition is None else condition
            inner = f"{{ {self._body(right)} }}"
        else:
            inner = self._body(right)
        if condition is not None:
            inner += f" FILTER({self.expression(condition)})"
        return f"OPTIONAL {{ {inner} }}"

    def _element(self, node: Algebra) -> str:
        """The text of ``node`` as one member of a group."""
        match node:
            case n.Bgp(patterns):
                # Annotated triples first: looked up by one of their parts each would be a scan of its own.
                ordered = sorted(patterns, key=lambda pattern: not isinstance(pattern.object, n.TripleTerm))
                return " ".join(map(self._triple, ordered))
            case n.Path(subject, path, object_):
                return f"{self.term(subject)} {self.path(path)} {self.term(object_)} ."
            case n.Union():
                return " UNION ".join(f"{{ {self._body(each)} }}" for each in _branches(node))
            case n.Graph(name, inner):
                return self._graph(name, inner)
            case n.Service(name, inner, silent):
                return f"SERVICE {'SILENT ' if silent else ''}{self.term(name)} {{ {self._body(inner)} }}"
            case n.Values(variables, rows):
                return self._values(variables, rows)
            case n.Table():
                return self._rows(node)
            case n.Group() | n.OrderBy() | n.Project() | n.Distinct() | n.Reduced() | n.Slice():
                return f"{{ {self._sub_select(node)} }}"
            case n.Window():
                raise UnsupportedError(
                    "WINDOW", "a window can not be written in SPARQL: it has no dataset here"
                )
            case _:
                return f"{{ {self._body(node)} }}"

    def _graph(self, name: NamedNode | Var, inner: Algebra) -> str:
        outside, self._inside_graph = self._inside_graph, True
        text = f"GRAPH {self.term(name)} {{ {self._body(inner)} }}"
        self._inside_graph = outside
        return text

    def _triple(self, pattern: n.TriplePattern) -> str:
        terms = (pattern.subject, pattern.predicate, pattern.object)
        return " ".join(map(self.term, terms)) + " ."

    def _values(self, variables: Sequence[Var], rows: Iterable[Sequence[Term | None]]) -> str:
        head = " ".join(map(self.var, variables))
        return f"VALUES ({head}) {{ {' '.join(map(row_text, rows))} }}"

    def _rows(self, table: n.Table) -> str:
        shapes = () if self._tables is None else self._tables.get(table.name, ())
        if not shapes:
            return "VALUES () { }"
        texts = [self._row_pattern(table, shape) for shape in shapes]
        return texts[0] if len(texts) == 1 else " UNION ".join(f"{{ {text} }}" for text in texts)

    def _row_pattern(self, table: n.Table, shape: Mapping[int, NamedNode]) -> str:
        row = self._fresh_name()
        triples = []
        for column, predicate in shape.items():
            value = self.var(table.vars[column]) if column >= 0 else self._fresh_name()
            triples.append(f"{row} {predicate} {value} .")
        return " ".join(triples)

    # --- sub-selects ---------------------------------------------------------------------------

    def _sub_select(self, node: Algebra) -> str:
        limits, distinct, ordered = "", "", False
        sliced = isinstance(node, n.Slice)
        if isinstance(node, n.Slice):
            limits = f" OFFSET {node.offset}" if node.offset else ""
            limits += f" LIMIT {node.limit}" if node.limit is not None else ""
            node = node.input
        if isinstance(node, (n.Distinct, n.Reduced)):
            distinct = "DISTINCT " if isinstance(node, n.Distinct) else "REDUCED "
            node = node.input
        if isinstance(node, n.Project):
            variables, node = node.vars, node.input
        elif isinstance(node, n.Group) and not sliced and not distinct:
            return self._group(node)
        else:
            variables = tuple(Var(name) for name in sorted(in_scope(node)))
        conditions: tuple[n.OrderCondition, ...] = ()
        if isinstance(node, n.OrderBy):
            ordered, conditions, node = True, node.conditions, node.input
        head = " ".join(map(self.var, variables)) or f"(true AS {self._fresh_name()})"
        order = self._order(conditions, variables) if ordered or sliced else ""
        return f"SELECT {distinct}{head} WHERE {{ {self._body(node)} }}{order}{limits}"

    def _order(self, conditions: Sequence[n.OrderCondition], columns: Sequence[Var]) -> str:
        parts = []
        for each in conditions:
            text = self.expression(each.expr)
            if self._choices is not None:
                text = f"{self._choices.value_order}({text})"
            parts.append(f"{'DESC' if each.descending else 'ASC'}({text})")
        if self._choices is not None:
            parts += [f"ASC({self._choices.total_order}({self.var(column)}))" for column in columns]
        return " ORDER BY " + " ".join(parts) if parts else ""

    def _group(self, node: n.Group) -> str:
        body = node.input
        if any(each.name == "COUNT" and each.distinct and each.expr is None for _, each in node.aggregates):
            visible = sorted(name for name in in_scope(body) if not name.startswith("_:"))
            body = n.Project(body, tuple(map(Var, visible)))
        head = [self.var(key) for key in node.keys]
        head += [f"({self.aggregate(aggregate)} AS {self.var(var)})" for var, aggregate in node.aggregates]
        if not head:
            head = [f"(COUNT(*) AS {self._fresh_name()})"]
        keys = " GROUP BY " + " ".join(map(self.var, node.keys)) if node.keys else ""
        return f"SELECT {' '.join(head)} WHERE {{ {self._body(body)} }}{keys}"

    # --- names, expressions and paths ----------------------------------------------------------

    def hidden(self, var: Var) -> str:
        """A variable with a number."""
        if var.name not in self._hidden:
            self._hidden[var.name] = self._fresh_name()
        return self._hidden[var.name]

    def _fresh_name(self) -> str:
        self._fresh += 1
        return f"?{self._prefix}{self._fresh}"

    def bracketed(self, text: str, own: int, level: int) -> str:
        """Every operator stands in brackets."""
        return text if own == PRIMARY else f"({text})"

    def unary(self, name: str, arg: Expr) -> str:
        """Apart from what it stands before."""
        return f"{name[-1]} {self.expression(arg)}"

    def negated(self, members: list[str]) -> str:
        """In brackets, even of one."""
        return f"!({'|'.join(members)})"

    def chain(
        self, node: T, operands: Callable[[T], tuple[T, T] | None], combine: Callable[[T, T], T]
    ) -> list[T]:
        """The two operands, with brackets of their own: a long row of them would nest too deeply."""
        return list(operands(node) or (node,))

    def exists(self, pattern: Algebra, negated: bool) -> str:
        """EXISTS with its group."""
        return f"{'NOT ' if negated else ''}EXISTS {{ {self._body(pattern)} }}"

    def call(self, name: str, args: Iterable[Expr]) -> str:
        """A call; of a custom function where a built-in leaves something open."""
        custom = self._choices.function(name) if self._choices is not None and not args else None
        return super().call(name if custom is None else str(custom), args)

    def aggregate(self, aggregate: n.Aggregate) -> str:
        """A set function, as a custom aggregate where it leaves something open."""
        custom = None
        if self._choices is not None and aggregate.expr is not None:
            custom = self._choices.aggregate(aggregate)
        if custom is None:
            if aggregate.name in STATISTICAL:
                raise UnsupportedError(aggregate.name, f"SPARQL has no set function {aggregate.name}")
            return super().aggregate(aggregate)
        assert self._choices is not None and aggregate.expr is not None
        argument, skipped = self.expression(aggregate.expr), self._choices.skipped(aggregate)
        return f"{custom}({argument})" if skipped is None else f"{custom}(COALESCE({argument}, {skipped}))"


_TRUE = Literal("true", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#boolean"))


def _branches(node: Algebra) -> list[Algebra]:
    """The branches of a left-deep Union."""
    if isinstance(node, n.Union):
        return [*_branches(node.left), node.right]
    return [node]
