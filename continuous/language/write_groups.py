"""Groups and sub-queries as query text: the printer of the dialects, and a pattern alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from pyoxigraph import Literal, NamedNode

from ..algebra import nodes as a
from ..algebra.build import is_modifier
from ..algebra.nodes import MERGED, Algebra, Expr, Var
from ..algebra.printer import Printer
from ..algebra.query import Dialect, WindowDeclaration
from .expressions import AGGREGATE_NAMESPACE, percentile_iri
from .terms import XSD, XSD_BOOLEAN, XSD_DECIMAL, XSD_DOUBLE, XSD_INTEGER
from .write_clauses import SelectParts, select_parts, window_text
from .write_triples import Pattern, triple_lines

_BARE = {
    XSD_INTEGER: re.compile(r"[+-]?[0-9]+"),
    XSD_DECIMAL: re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    XSD_DOUBLE: re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    XSD_BOOLEAN: re.compile("true|false"),
}
_PLACEHOLDER = re.compile(r"\$[^$]+\$", re.DOTALL)
_EXTENDED = ("MEDIAN", "STDDEV", "VARIANCE", "PERCENTILE")


@dataclass(slots=True)
class Blocks:
    """The names of the windows of one text.

    ``clauses`` are the CQELS-QL windows that dataset clauses declare, with their variables; ``order`` the
    windows in the order in which STREAM blocks of the text declare them.
    """

    declared: Mapping[NamedNode, WindowDeclaration] = field(default_factory=dict)
    report: str | None = None
    clauses: Mapping[NamedNode, str] = field(default_factory=dict)
    order: list[NamedNode] = field(default_factory=list)

    def number(self, name: NamedNode) -> int:
        """The place of a window among the declarations."""
        return list(self.declared).index(name) if name in self.declared else 0

    def takes_report(self, name: NamedNode) -> str | None:
        """The REPORT words stand in the first window."""
        return self.report if self.declared and name == next(iter(self.declared)) else None


@dataclass(slots=True)
class Element:
    """A member of a group: a run of triples or anything else, written in its turn; the windows in it."""

    write: Callable[[], list[str]]
    run: list[Pattern] | None = None
    windows: frozenset[int] = frozenset()


class QueryPrinter(Printer):
    """Prints one text; knows afterwards which prefixes it used.

    A hidden variable is a blank node, ``[]`` where it occurs once. With ``free`` it is a variable
    ``?_1``: for a pattern that is shown and not read back, whose hidden variables may reach over groups.
    """

    def __init__(
        self,
        prefixes: Mapping[str, str],
        dialect: Dialect,
        nodes: object,
        blocks: Blocks | None = None,
        *,
        free: bool = False,
    ) -> None:
        super().__init__(prefixes)
        self.dialect = dialect
        self.count = Counter(each.name for each in parts_of(nodes) if isinstance(each, Var))
        self.blocks = Blocks() if blocks is None else blocks
        self._free = free
        self._hidden: dict[str, str] = {}

    # --- names

    def hidden(self, var: Var) -> str:
        """The blank node that a hidden variable stands for."""
        if not self._free and self.count[var.name] == 1:
            return "[]"
        known = self._hidden.get(var.name)
        if known is None:
            known = self._hidden[var.name] = self._fresh()
        return known

    def _fresh(self) -> str:
        number = len(self._hidden) + 1
        if not self._free:
            return f"_:b{number}"
        prefix = "_"
        while f"{prefix}{number}" in self.count:
            prefix += "_"
        return f"?{prefix}{number}"

    def literal(self, literal: Literal) -> str:
        """A literal: numbers and truth values bare, a text that looks like a parameter with its datatype."""
        bare = _BARE.get(literal.datatype)
        if bare is not None and bare.fullmatch(literal.value):
            return literal.value
        if literal.language is not None:
            return str(literal)
        if literal.datatype == NamedNode(XSD + "string"):
            placeholder = self.dialect != "sparql" and _PLACEHOLDER.fullmatch(literal.value)
            return f"{literal}^^{self.iri(literal.datatype)}" if placeholder else str(literal)
        return f"{Literal(literal.value)}^^{self.iri(literal.datatype)}"

    # --- expressions

    def call(self, name: str, args: Iterable[Expr]) -> str:
        """A call; the one function that is not written in capitals."""
        return super().call("timestamp" if name == "TIMESTAMP" else name, args)

    def aggregate(self, aggregate: a.Aggregate) -> str:
        """A set function; ours go by their IRI where the dialect has no word for them."""
        name, parameter = aggregate.name, aggregate.parameter
        if self.dialect == "sparql" and name in _EXTENDED:
            alone = None if parameter is None else percentile_iri(parameter)
            name = f"<{AGGREGATE_NAMESPACE}{name.lower()}>" if alone is None else str(alone)
            aggregate = replace(aggregate, name=name, parameter=parameter if alone is None else None)
        return super().aggregate(aggregate)

    # --- groups

    def enclosed(self, head: str, lines: list[str]) -> list[str]:
        """``head {``, the lines indented, ``}``."""
        start = f"{head} {{".lstrip()
        return [start, *(f"  {line}" for line in lines), "}"] if lines else [f"{start} }}"]

    def braces(self, head: str, node: Algebra) -> list[str]:
        """The lines of ``head { … }``."""
        return self.enclosed(head, self.inside(node))

    def exists(self, pattern: Algebra, negated: bool) -> str:
        """The lines of the group keep their own indentation."""
        return "\n".join(self.braces(f"{'NOT ' if negated else ''}EXISTS", pattern))

    def inside(self, node: Algebra) -> list[str]:
        """The lines between the braces of a group that is read as ``node``."""
        node = _unmerged(node)
        if is_modifier(node):
            return self.select(select_parts(node, projected=True))
        conditions: list[Expr] = []
        while isinstance(node, a.Filter):
            conditions.insert(0, node.condition)
            node = _unmerged(node.input)
        return self.lines(self.sequence(node), conditions)

    def constraint(self, expr: Expr) -> str:
        """An expression after FILTER or HAVING."""
        text = self.expression(expr)
        return text if isinstance(expr, a.Exists) else f"({text})"

    def sequence(self, node: Algebra) -> list[Element]:
        """The elements with which a group may begin that is read as ``node``."""
        node = _unmerged(node)
        match node:
            case a.Join():
                first, *rest = self.chain(cast(Algebra, node), _joined, a.Join)
                braced = isinstance(_unmerged(first), a.Join)
                elements = self.element(first) if braced else self.sequence(first)
                for part in rest:
                    elements += self._following(elements, part)
                return elements
            case a.LeftJoin(left, right, condition):
                # OPTIONAL reads a FILTER at the end of its group as the condition of the left join.
                sequence, inner = self.sequence(left), self.sequence(right)
                conditions = [] if condition is None else [condition]
                optional = Element(
                    lambda: self.enclosed("OPTIONAL", self.lines(inner, conditions)),
                    windows=self.windows((right, condition)),
                )
                return [*sequence, optional]
            case a.Minus(left, right):
                sequence = self.sequence(left)
                return [*sequence, Element(lambda: self.braces("MINUS", right), windows=self.windows(right))]
            case a.Extend(inner, var, expr):
                sequence = self.sequence(inner)
                bound = Element(
                    lambda: f"BIND({self.expression(expr)} AS {self.var(var)})".split("\n"),
                    windows=self.windows(expr),
                )
                return [*sequence, bound]
            case _:
                return self.element(node)

    def _following(self, before: list[Element], part: Algebra) -> list[Element]:
        """A further element; a second basic graph pattern needs braces not to run into the first."""
        elements = self.element(part)
        run = elements[0].run if len(elements) == 1 else None
        previous = before[-1].run if before else None
        if not run or not previous:
            return elements
        if isinstance(run[0], a.TriplePattern) and isinstance(previous[-1], a.TriplePattern):
            return [Element(lambda: self.enclosed("", self.triples(run)))]
        previous += run
        return []

    def element(self, node: Algebra) -> list[Element]:
        """One member of a group; none for the unit."""
        node = _unmerged(node)
        match node:
            case a.Bgp(patterns):
                return [self._run(list(patterns))] if patterns else []
            case a.Path():
                return [self._run([node])]
            case _:
                return [Element(lambda: self.block(node), windows=self.windows(node))]

    def _run(self, run: list[Pattern]) -> Element:
        return Element(lambda: self.triples(run), run=run)

    def block(self, node: Algebra) -> list[str]:
        """The lines of a member of a group that is neither triples nor the unit."""
        match node:
            case a.Union():
                first, *rest = self.chain(cast(Algebra, node), _branches, a.Union)
                lines = self.braces("", first)
                for branch in rest:
                    more = self.braces("UNION", branch)
                    lines = [*lines[:-1], f"{lines[-1]} {more[0]}", *more[1:]]
                return lines
            case a.Graph(name, inner):
                return self.braces(f"GRAPH {self.term(name)}", inner)
            case a.Service(name, inner, silent):
                return self.braces(f"SERVICE {'SILENT ' if silent else ''}{self.term(name)}", inner)
            case a.Window(name, inner, stream):
                return self.braces(self._window(name, stream), inner)
            case a.Values():
                return self.values(node)
            case a.Table(name, variables, _):
                return [f"# {name}: the rows of ({' '.join(map(self.var, variables))})"]
            case _:
                return self.braces("", node)

    def values(self, values: a.Values) -> list[str]:
        """Inline data, one row a line."""
        rows = [
            f"({' '.join(['UNDEF' if cell is None else self.term(cell) for cell in row])})"
            for row in values.rows
        ]
        return self.enclosed(f"VALUES ({' '.join(map(self.var, values.vars))})", rows)

    def lines(self, elements: Sequence[Element], conditions: Iterable[Expr] = ()) -> list[str]:
        """A group with its FILTERs last, or before the first block whose window is declared after theirs."""
        conditions = list(conditions)
        limit = len(elements)
        places: list[int] = []
        for condition in reversed(conditions):
            own = self.windows(condition)
            later = (
                place
                for place, each in enumerate(elements)
                if own and any(w > min(own) for w in each.windows)
            )
            limit = min(limit, next(later, limit))
            places.insert(0, limit)
        written: list[str] = []
        for place in range(len(elements) + 1):
            due = [each for each, at in zip(conditions, places, strict=True) if at == place]
            written += [line for each in due for line in f"FILTER {self.constraint(each)}".split("\n")]
            if place < len(elements):
                written += elements[place].write()
        return written

    def windows(self, node: object) -> frozenset[int]:
        """The numbers of the windows read in something, in CQELS-QL, whose blocks declare them."""
        if not self.blocks.declared or self.dialect != "cqels":
            return frozenset()
        return frozenset(self.blocks.number(name) for name in window_names(node))

    def triples(self, run: list[Pattern]) -> list[str]:
        """The properties of a subject together, reifiers as ``<< >>``."""
        return triple_lines(self, self.count, run)

    def _window(self, name: NamedNode | Var, stream: Var | None) -> str:
        """The head of a window's block, which in CQELS-QL may declare the window."""
        blocks = self.blocks
        if isinstance(name, Var) or self.dialect == "rspql":
            return f"WINDOW {self.term(name)}"
        if name in blocks.clauses:
            return f"GRAPH {blocks.clauses[name]}"
        if name not in blocks.order:
            blocks.order.append(name)
        declaration = blocks.declared[name]
        read = self.term(stream or declaration.stream)
        return f"STREAM {read} {window_text(declaration, 'cqels', blocks.takes_report(name))}"

    # --- queries

    def select(
        self, parts: SelectParts, head: Sequence[str] | None = None, clauses: Sequence[str] = ()
    ) -> list[str]:
        """The lines of a query or sub-query.

        The WHERE is written first, as it is read first: blocks in it declare their windows before those of
        the expressions. ``head`` stands in the place of SELECT and its columns, ``clauses`` before WHERE.
        """
        var, write = self.var, self.expression
        where = self.braces("WHERE", parts.pattern)
        keys = [
            var(key) if expr is None else f"({write(expr)}{'' if key.hidden else f' AS {var(key)}'})"
            for key, expr in parts.keys
        ]
        outer, self.computed = self.computed, dict(parts.aggregates)
        if head is None:
            items = dict(parts.items)
            columns = [
                f"({write(items[column])} AS {var(column)})" if column in items else var(column)
                for column in parts.columns or ()
            ]
            head = f"SELECT {parts.mode}{' '.join(columns) or '*'}".split("\n")
        having = " ".join(map(self.constraint, parts.having))
        order = " ".join(self._order_key(key) for key in parts.order)
        self.computed = outer
        limits = [f"LIMIT {parts.limit}"] if parts.limit is not None else []
        limits += [f"OFFSET {parts.offset}"] if parts.offset else []
        tail = [
            f"GROUP BY {' '.join(keys)}" if keys else "",
            f"HAVING {having}" if having else "",
            f"ORDER BY {order}" if order else "",
            " ".join(limits),
        ]
        lines = [*head, *clauses, *where, *(line for text in tail if text for line in text.split("\n"))]
        return lines if parts.values is None else [*lines, *self.values(parts.values)]

    def _order_key(self, key: a.OrderCondition) -> str:
        text = self.expression(key.expr)
        if key.descending:
            return f"DESC({text})"
        return text if isinstance(key.expr, Var) and key.expr not in self.computed else f"ASC({text})"


def _unmerged(node: Algebra) -> Algebra:
    """The pattern under the merge of all windows, which C-SPARQL has no word for."""
    while isinstance(node, a.Window) and node.name == MERGED:
        node = node.input
    return node


def _joined(node: Algebra) -> tuple[Algebra, Algebra] | None:
    node = _unmerged(node)
    return (node.left, node.right) if isinstance(node, a.Join) else None


def _branches(node: Algebra) -> tuple[Algebra, Algebra] | None:
    return (node.left, node.right) if isinstance(node, a.Union) else None


def parts_of(node: object) -> Iterator[object]:
    """Everything that anything made of algebra nodes is made of: nodes, expressions, variables and terms."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        if isinstance(each, tuple):
            stack.extend(each)
        elif type(each).__module__ in (a.__name__, _QUERY_MODULE):
            stack.extend(getattr(each, name) for name in getattr(each, "__slots__", ()))


_QUERY_MODULE = WindowDeclaration.__module__


def window_names(node: object) -> list[NamedNode]:
    """The names of the windows read in anything made of algebra nodes."""
    windows = [each.name for each in parts_of(node) if isinstance(each, a.Window)]
    return [name for name in windows if isinstance(name, NamedNode) and name != MERGED]


def write_pattern(
    node: Algebra, prefixes: Mapping[str, str] | None = None, dialect: Dialect = "sparql"
) -> str:
    """A pattern alone, for people: what stands between the braces, without the prefixes' declarations."""
    blocks = Blocks(clauses={name: str(name) for name in window_names(node)})
    return "\n".join(QueryPrinter(prefixes or {}, dialect, node, blocks, free=True).inside(node))
