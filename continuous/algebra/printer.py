"""Prints graph patterns, expressions and SELECTs as text, for Oxigraph and in all dialects.

Parsing the printed text of a pattern returns the same algebra. So that a printed text is parsed as the same
algebra, a FILTER is printed at the end of a separate group, and the condition of a LeftJoin is printed
separately from a Filter on its right side. The printer has further parameters: the prefixes of the text, the
names of windows (`BlockNames`), and which joins are evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import cast

from pyoxigraph import Literal, NamedNode

from quadrill.store.terms import term_text

from . import nodes as n
from .build import is_modifier
from .nodes import MERGED, Aggregate, Algebra, Call, Expr, Term, Var
from .print_triples import Pattern, TermPrinter, bracketed, parts_of, triple_lines
from .query import ContinuousQuery, Dialect, WindowDeclaration
from .select_parts import SelectParts, select_parts
from .set_functions import STATISTICAL, aggregate_iri

_LEVELS = {
    "||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT IN": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "!": 6, "UNARY+": 6, "UNARY-": 6,
}  # fmt: skip
_PRIMARY = 7


@dataclass(slots=True)
class BlockNames:
    """How the windows of one printed query text are written.

    ``clauses`` are the windows that are printed as graphs, with the names of the graphs. ``declared`` are the
    windows that STREAM blocks declare, with their window brackets, in the order of declaration. ``order`` is
    the order in which the STREAM blocks of the printed text declare their windows. A window that is neither
    printed as a graph nor as a STREAM block is printed as WINDOW with its name.
    """

    clauses: Mapping[NamedNode, str] = field(default_factory=dict)
    declared: Mapping[NamedNode, tuple[WindowDeclaration, str]] = field(default_factory=dict)
    order: list[NamedNode] = field(default_factory=list)


@dataclass(slots=True)
class GroupItem:
    """A part of a printed group: a run of triples, a block, or with ``last`` a node's right operand."""

    node: Algebra
    run: list[Pattern] | None = None
    last: bool = False

    def parts(self) -> object:
        """Return the algebra that is printed for this part of a group."""
        match self.node:
            case n.LeftJoin(_, right, condition) if self.last:
                return right, condition
            case n.Minus(_, last) | n.Join(_, last) | n.Extend(_, _, last) if self.last:
                return last
            case _:
                return self.node


class Printer:
    """Prints the patterns and expressions of one query text.

    ``by_row`` decides which joins outside GRAPH are printed as LATERAL; inside GRAPH, Oxigraph's own join
    order is better.
    """

    def __init__(
        self,
        terms: TermPrinter,
        dialect: Dialect = "sparql",
        blocks: BlockNames | None = None,
        by_row: Callable[[Algebra, Algebra], bool] | None = None,
    ) -> None:
        self.terms = terms
        self.blocks = BlockNames() if blocks is None else blocks
        self._dialect = dialect
        self._by_row = by_row
        # The set functions that replace their variables in the expressions of the current SELECT.
        self._computed: Mapping[Var, Aggregate] = {}

    # --- expressions

    def expression(self, expr: Expr, level: int = 0) -> str:
        """Return the text of an expression, in brackets if it binds less strongly than ``level``."""
        match expr:
            case Var():
                computed = self._computed.get(expr)
                return self.terms.var(expr) if computed is None else self.aggregate(computed)
            case n.Constant(term):
                return self.terms.term(term)
            case n.Exists(pattern, negated):
                # The lines of the EXISTS group keep their own indentation.
                return "\n".join(self.enclosed(f"{'NOT ' if negated else ''}EXISTS", self.inside(pattern)))
            case n.FunctionCall(iri, args):
                return self._call(self.terms.iri(iri), args)
            case Call("TIMESTAMP", args):
                # C-SPARQL writes the function ``timestamp`` in lower case.
                return self._call("timestamp", args)
            case Call(name, args):
                own = _LEVELS.get(name, _PRIMARY)
                return bracketed(self._operation(name, args, own), own, level)

    def _operation(self, name: str, args: tuple[Expr, ...], own: int) -> str:
        match name:
            case "||" | "&&":
                node = cast(Expr, Call(name, args))
                parts = self.terms.chain(
                    node, lambda each: _operands(each, name), lambda *two: Call(name, two)
                )
                return f" {name} ".join(self.expression(part, own + 1) for part in parts)
            case "IN" | "NOT IN":
                listed = ", ".join(map(self.expression, args[1:]))
                return f"{self.expression(args[0], own + 1)} {name} ({listed})"
            case "!":
                return f"!{self.expression(args[0], own)}"
            case "UNARY-" | "UNARY+":
                return f"{name[-1]}({self.expression(args[0])})"
            case "+" | "-" | "*" | "/":
                return f"{self.expression(args[0], own)} {name} {self.expression(args[1], own + 1)}"
            case _ if own < _PRIMARY:
                return f" {name} ".join(self.expression(arg, own + 1) for arg in args)
            case _:
                return self._call(name, args)

    def _call(self, name: str, args: Iterable[Expr]) -> str:
        return f"{name}({', '.join(map(self.expression, args))})"

    def aggregate(self, aggregate: Aggregate) -> str:
        """Return the text of a set function; if the dialect has no keyword for it, the text has its IRI."""
        if self._dialect == "sparql" and aggregate.name in STATISTICAL:
            iri, parameter = aggregate_iri(aggregate)
            aggregate = replace(aggregate, name=str(iri), parameter=parameter)
        argument = "*" if aggregate.expr is None else self.expression(aggregate.expr)
        inside = f"{'DISTINCT ' if aggregate.distinct else ''}{argument}"
        if aggregate.separator is not None:
            inside += f"; SEPARATOR = {Literal(aggregate.separator)}"
        if aggregate.parameter is not None:
            inside += f", {self.expression(aggregate.parameter)}"
        return f"{aggregate.name}({inside})"

    # --- groups

    def enclosed(self, head: str, lines: list[str]) -> list[str]:
        """Return ``head {``, the indented lines and ``}`` as lines of a printed query."""
        start = f"{head} {{".lstrip()
        return [start, *[f"  {line}" for line in lines], "}"] if lines else [f"{start} }}"]

    def inside(self, node: Algebra, optional: Sequence[Expr] | None = None) -> list[str]:
        """Return the lines between the braces of a group that is parsed as ``node``.

        The parser takes FILTERs at the end of an OPTIONAL group as conditions of the left join; ``optional``
        are these conditions.
        """
        node = _unmerged(node)
        conditions = [] if optional is None else list(optional)
        if optional is None and is_modifier(node):
            return self.select(select_parts(node, projected=True))
        while optional is None and isinstance(node, n.Filter):
            conditions.insert(0, node.condition)
            node = _unmerged(node.input)
        members = self._members(node)
        places = self._places(conditions, members)
        lines: list[str] = []
        for place, member in enumerate([*members, None]):
            for condition, at in zip(conditions, places, strict=True):
                if at == place:
                    lines += f"FILTER {self._constraint(condition)}".split("\n")
            if member is not None:
                lines += self._added(member) if member.run is None else triple_lines(self.terms, member.run)
        return lines

    def _places(self, conditions: Sequence[Expr], members: Sequence[GroupItem]) -> list[int]:
        """Return the places of FILTERs in a group: last, or before a block with a later-declared window."""
        limit = len(members)
        places: list[int] = []
        for condition in reversed(conditions):
            own = self._windows(condition)
            for place, member in enumerate(members[:limit] if own else ()):
                if any(window > min(own) for window in self._windows(member.parts())):
                    limit = place
                    break
            places.insert(0, limit)
        return places

    def _windows(self, node: object) -> frozenset[int]:
        """Return the numbers of the windows that an algebra node reads, if STREAM blocks declare windows."""
        numbers = {name: number for number, name in enumerate(self.blocks.declared)}
        return frozenset(numbers.get(name, 0) for name in window_names(node)) if numbers else frozenset()

    def _constraint(self, expr: Expr) -> str:
        """Return the text of an expression after FILTER or HAVING."""
        text = self.expression(expr)
        return text if isinstance(expr, n.Exists) else f"({text})"

    def _members(self, node: Algebra) -> list[GroupItem]:
        """Return the first parts of a printed group that is parsed as ``node``."""
        node = _unmerged(node)
        match node:
            case n.Bgp() | n.Path():
                return self._followed([], node)
            case n.LeftJoin() | n.Minus():
                return [*self._members(node.left), GroupItem(node, last=True)]
            case n.Extend():
                return [*self._members(node.input), GroupItem(node, last=True)]
            case n.Join(left, right) if self._by_row is not None and self._by_row(left, right):
                return [*self._members(left), GroupItem(node, last=True)]
            case n.Join(left, right) if not self.terms.abbreviates:
                return self._followed(self._members(left), right)
            case n.Join():
                first, *rest = self.terms.chain(cast(Algebra, node), _joined, n.Join)
                members = [GroupItem(first)] if isinstance(_unmerged(first), n.Join) else self._members(first)
                for part in rest:
                    members = self._followed(members, part)
                return members
            case _:
                return [GroupItem(node)]

    def _followed(self, members: list[GroupItem], node: Algebra) -> list[GroupItem]:
        """Return a printed group's parts with a further part; triples extend the run of triples before them.

        A second basic graph pattern is printed in braces, because the parser would merge it with the first.
        """
        node = _unmerged(node)
        match node:
            case n.Bgp(patterns):
                run: list[Pattern] = list(patterns)
            case n.Path():
                run = [node]
            case _:
                return [*members, GroupItem(node)]
        before = members[-1].run if members else None
        if not run:
            return members
        if before is None:
            return [*members, GroupItem(node, run)]
        both = isinstance(run[0], n.TriplePattern) and isinstance(before[-1], n.TriplePattern)
        if both and self.terms.abbreviates:
            return [*members, GroupItem(node)]
        before += run
        return members

    def _added(self, member: GroupItem) -> list[str]:
        """Return the lines of a part of a printed group that is not a run of triples."""
        node, terms = member.node, self.terms
        match node:
            case n.LeftJoin(_, right, condition) if member.last:
                return self.enclosed("OPTIONAL", self.inside(right, [condition] if condition else []))
            case n.Minus(_, right) if member.last:
                return self.enclosed("MINUS", self.inside(right))
            case n.Join(_, right) if member.last:
                return self.enclosed("LATERAL", self.inside(right))
            case n.Extend(_, var, expr) if member.last:
                return f"BIND({self.expression(expr)} AS {terms.var(var)})".split("\n")
            case n.Union():
                first, *rest = terms.chain(cast(Algebra, node), _branches, n.Union)
                lines = self.enclosed("", self.inside(first))
                for branch in rest:
                    more = self.enclosed("UNION", self.inside(branch))
                    lines = [*lines[:-1], f"{lines[-1]} {more[0]}", *more[1:]]
                return lines
            case n.Graph(name, inner):
                outside, self._by_row = self._by_row, None
                lines = self.enclosed(f"GRAPH {terms.term(name)}", self.inside(inner))
                self._by_row = outside
                return lines
            case n.Service(name, inner, silent, block):
                head = f"SERVICE {'SILENT ' if silent else ''}{terms.term(name)}"
                lines = self.enclosed(head, self.inside(inner))
                # The printed comment makes the texts of static parts differ if only the number of the SERVICE
                # call differs.
                return [f"# answer {block + 1} of this call", *lines] if block else lines
            case n.Window(name, inner, stream, time):
                lines = self.enclosed(self._window(name, stream), self.inside(inner))
                return lines if time is None else [*lines[:-1], f"{lines[-1]} AT {terms.var(time)}"]
            case n.Values():
                return self._values(node)
            case n.TableNode(name, variables, _):
                return [f"# {name}: the rows of ({' '.join(map(terms.var, variables))})"]
            case _:
                return self.enclosed("", self.inside(node))

    def _values(self, values: n.Values) -> list[str]:
        """Return inline data with one row per line, or on one line if terms are not abbreviated."""
        head = f"VALUES ({' '.join(map(self.terms.var, values.vars))})"
        if self.terms.abbreviates:
            return self.enclosed(head, [row_text(row, self.terms.term) for row in values.rows])
        return [" ".join([head, "{", *map(row_text, values.rows), "}"])]

    def _window(self, name: NamedNode | Var, stream: Var | None) -> str:
        """Return the head of a window's block in the printed text, which may declare the window."""
        blocks = self.blocks
        if not isinstance(name, Var) and name in blocks.clauses:
            return f"GRAPH {blocks.clauses[name]}"
        if isinstance(name, Var) or name not in blocks.declared:
            return f"WINDOW {self.terms.term(name)}"
        if name not in blocks.order:
            blocks.order.append(name)
        declaration, brackets = blocks.declared[name]
        return f"STREAM {self.terms.term(stream or declaration.stream)} {brackets}"

    # --- queries

    def head(self, query: ContinuousQuery, terms: TermPrinter) -> list[str] | None:
        """Return the lines of a printed query before its dataset clause; None for a SELECT.

        The printer ``terms`` prints the CONSTRUCT template or the terms of DESCRIBE.
        """
        match query.form:
            case "select":
                return None
            case "ask":
                return ["ASK"]
            case "describe":
                return [f"DESCRIBE {' '.join(map(terms.term, query.describe)) or '*'}"]
            case "construct":
                lines: list[str] = []
                for graph, quads in groupby(query.template, key=lambda quad: quad.graph):
                    triples = triple_lines(terms, [quad.triple for quad in quads])
                    lines += (
                        triples if graph is None else self.enclosed(f"GRAPH {terms.term(graph)}", triples)
                    )
                return self.enclosed("CONSTRUCT", lines)

    def select(
        self, parts: SelectParts, head: Sequence[str] | None = None, clauses: Sequence[str] = ()
    ) -> list[str]:
        """Return the lines of a printed query or sub-query.

        The WHERE clause is printed first, because its blocks declare their windows before the blocks of
        expressions. The lines ``head`` replace SELECT and its columns; ``clauses`` are lines before WHERE.
        """
        var, write = self.terms.var, self.expression
        where = self.enclosed("WHERE", self.inside(parts.pattern))
        # A computed GROUP BY key that is a hidden variable gets a name only if hidden variables are printed
        # as variables.
        named = {key for key, _ in parts.keys if not (key.hidden and self.terms.abbreviates)}
        keys = [
            var(key) if expr is None else f"({write(expr)}{f' AS {var(key)}' if key in named else ''})"
            for key, expr in parts.keys
        ]
        outer, self._computed = self._computed, dict(parts.aggregates)
        if head is None:
            items = dict(parts.items)
            columns = [
                f"({write(items[column])} AS {var(column)})" if column in items else var(column)
                for column in parts.columns or ()
            ]
            head = f"SELECT {parts.mode}{' '.join(columns) or '*'}".split("\n")
        having = " ".join(map(self._constraint, parts.having))
        order = " ".join(self._order_key(key) for key in parts.order)
        self._computed = outer
        limits = [f"LIMIT {parts.limit}"] if parts.limit is not None else []
        limits += [f"OFFSET {parts.offset}"] if parts.offset else []
        tail = [
            f"GROUP BY {' '.join(keys)}" if keys else "",
            f"HAVING {having}" if having else "",
            f"ORDER BY {order}" if order else "",
            " ".join(limits),
        ]
        lines = [*head, *clauses, *where, *(line for text in tail if text for line in text.split("\n"))]
        return lines if parts.values is None else [*lines, *self._values(parts.values)]

    def _order_key(self, key: n.OrderCondition) -> str:
        text = self.expression(key.expr)
        if key.descending:
            return f"DESC({text})"
        return text if isinstance(key.expr, Var) and key.expr not in self._computed else f"ASC({text})"


def _unmerged(node: Algebra) -> Algebra:
    """Return the pattern below the merge of all windows, for which C-SPARQL has no syntax."""
    while isinstance(node, n.Window) and node.name == MERGED:
        node = node.input
    return node


def _joined(node: Algebra) -> tuple[Algebra, Algebra] | None:
    node = _unmerged(node)
    return (node.left, node.right) if isinstance(node, n.Join) else None


def _branches(node: Algebra) -> tuple[Algebra, Algebra] | None:
    return (node.left, node.right) if isinstance(node, n.Union) else None


def _operands(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    return (expr.args[0], expr.args[1]) if isinstance(expr, Call) and expr.name == name else None


def row_text(row: Sequence[Term | None], term: Callable[[Term], str] = term_text) -> str:
    """Return the text of a row of VALUES."""
    return "(" + " ".join(["UNDEF" if cell is None else term(cell) for cell in row]) + ")"


def window_names(node: object) -> list[NamedNode]:
    """Return the names of the windows that algebra nodes read, without C-SPARQL's merged window."""
    windows = [each.name for each in parts_of(node) if isinstance(each, n.Window)]
    return [name for name in windows if isinstance(name, NamedNode) and name != MERGED]


def write_pattern(
    node: Algebra, prefixes: Mapping[str, str] | None = None, dialect: Dialect = "sparql"
) -> str:
    """Return a pattern as text for people: the part between the braces, without PREFIX declarations."""
    graphs = {} if dialect == "rspql" else {name: str(name) for name in window_names(node)}
    terms = TermPrinter(node, prefixes or {}, free=True, placeholders=dialect != "sparql")
    return "\n".join(Printer(terms, dialect, BlockNames(graphs)).inside(node))


def write_expression(expr: Expr) -> str:
    """Return an expression as text for people, with IRIs in full."""
    return Printer(TermPrinter(expr, {}, free=True, placeholders=True)).expression(expr)
