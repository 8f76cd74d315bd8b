"""A query or pattern as text of its dialect, indented, with its prefixes; `parse` gives it back.

The text is the one normal form of its algebra: written, read and written again it does not change. EXPLAIN
shows queries and their static parts so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.nodes import MERGED, Algebra, Bgp, Expr, Var
from ..algebra.query import ContinuousQuery, Dialect, WindowDeclaration
from ..algebra.variables import Scopes
from .windows import DIALECT_NAMES
from .write_select import select_parts, select_text
from .write_terms import ExpressionWriter, Names, chained, duration_text, inside, window_text
from .write_triples import Pattern, TripleWriter

_SELECTS = (a.Group, a.OrderBy, a.Project, a.Distinct, a.Reduced, a.Slice)


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
class _Element:
    """A member of a group: a run of triples or anything else, written in its turn; the windows in it."""

    write: Callable[[], list[str]]
    run: list[Pattern] | None = None
    windows: frozenset[int] = frozenset()


class GroupWriter:
    """Writes the groups of one query."""

    def __init__(self, names: Names, blocks: Blocks) -> None:
        self.names = names
        self.scopes = Scopes()
        self.expressions = ExpressionWriter(names, self.inline)
        self.triples = TripleWriter(names, self.expressions)
        self._blocks = blocks

    # --- groups

    def braces(self, head: str, node: Algebra) -> list[str]:
        """The lines of ``head { … }``."""
        return enclosed(head, self.inside(node))

    def inline(self, node: Algebra) -> str:
        """A group in an expression; its lines keep their own indentation."""
        return "\n".join(self.braces("", node))

    def inside(self, node: Algebra) -> list[str]:
        """The lines between the braces of a group that is read as ``node``."""
        node = unmerged(node)
        if isinstance(node, _SELECTS):
            return select_text(self, select_parts(node, projected=True))
        conditions: list[Expr] = []
        while isinstance(node, a.Filter):
            conditions.insert(0, node.condition)
            node = unmerged(node.input)
        return self._lines(self._sequence(node), conditions)

    def _lines(self, elements: list[_Element], conditions: Iterable[Expr] = ()) -> list[str]:
        """A group with its FILTERs last, or before the first block whose window is declared after theirs."""
        conditions = list(conditions)
        places: list[int] = []
        limit = len(elements)
        for condition in reversed(conditions):
            own = self._windows(condition)
            later = (
                place
                for place, each in enumerate(elements)
                if own and any(w > min(own) for w in each.windows)
            )
            limit = min(limit, next(later, limit))
            places.insert(0, limit)
        lines: list[str] = []
        for place in range(len(elements) + 1):
            for condition, at in zip(conditions, places, strict=True):
                if at == place:
                    lines += f"FILTER {self.expressions.constraint(condition)}".split("\n")
            if place < len(elements):
                lines += elements[place].write()
        return lines

    def _windows(self, node: object) -> frozenset[int]:
        if not self._blocks.declared or self.names.dialect != "cqels":
            return frozenset()
        return frozenset(self._blocks.number(name) for name in window_names(node))

    # --- elements

    def _sequence(self, node: Algebra) -> list[_Element]:
        """The elements with which a group begins that is read as ``node``."""
        node = unmerged(node)
        match node:
            case a.Join():
                first, *rest = chained(cast(Algebra, node), _joined, a.Join)
                elements = (
                    self._element(first) if isinstance(unmerged(first), a.Join) else self._sequence(first)
                )
                for part in rest:
                    elements += self._next(elements, part)
                return elements
            case a.LeftJoin(left, right, condition):
                conditions = [] if condition is None else [condition]
                sequence = self._sequence(left)
                inner = self._sequence(right)
                return [
                    *sequence,
                    _Element(
                        lambda: enclosed("OPTIONAL", self._lines(inner, conditions)),
                        windows=self._windows((right, *conditions)),
                    ),
                ]
            case a.Minus(left, right):
                sequence = self._sequence(left)
                removed = _Element(lambda: self.braces("MINUS", right), windows=self._windows(right))
                return [*sequence, removed]
            case a.Extend(inner, var, expr):
                sequence = self._sequence(inner)
                bound = _Element(
                    lambda: f"BIND({self.expressions.write(expr)} AS {self.names.var(var)})".split("\n"),
                    windows=self._windows(expr),
                )
                return [*sequence, bound]
            case _:
                return self._element(node)

    def _next(self, before: list[_Element], part: Algebra) -> list[_Element]:
        """A further element; a second basic graph pattern needs braces not to run into the first."""
        elements = self._element(part)
        run = elements[0].run if len(elements) == 1 else None
        previous = before[-1].run if before else None
        if run and previous and isinstance(run[0], a.TriplePattern):
            if isinstance(previous[-1], a.TriplePattern):
                return [_Element(lambda: enclosed("", self.triples.lines(run)))]
        if run and previous:
            previous += run
            return []
        return elements

    def _element(self, node: Algebra) -> list[_Element]:
        """One member of a group; none for the unit."""
        node = unmerged(node)
        match node:
            case Bgp(patterns):
                return [self._run(list(patterns))] if patterns else []
            case a.Path():
                return [self._run([node])]
            case _:
                return [_Element(lambda: self._block(node), windows=self._windows(node))]

    def _run(self, run: list[Pattern]) -> _Element:
        return _Element(lambda: self.triples.lines(run), run=run)

    def _block(self, node: Algebra) -> list[str]:
        match node:
            case a.Union():
                first, *rest = chained(cast(Algebra, node), _branches, a.Union)
                lines = self.braces("", first)
                for branch in rest:
                    more = self.braces("UNION", branch)
                    lines = [*lines[:-1], f"{lines[-1]} {more[0]}", *more[1:]]
                return lines
            case a.Graph(name, inner):
                return self.braces(f"GRAPH {self.names.term(name)}", inner)
            case a.Service(name, inner, silent):
                return self.braces(f"SERVICE {'SILENT ' if silent else ''}{self.names.term(name)}", inner)
            case a.Window(name, inner, stream):
                return self.braces(self._window(name, stream), inner)
            case a.Values():
                return self.values(node)
            case a.Table(name, variables, _):
                columns = " ".join(map(self.names.var, variables))
                return [f"# {name}: the rows of ({columns})"]
            case _:
                return self.braces("", node)

    def values(self, values: a.Values) -> list[str]:
        """Inline data, one row a line."""
        term = self.names.term
        cells = [
            f"({' '.join('UNDEF' if cell is None else term(cell) for cell in row)})" for row in values.rows
        ]
        return enclosed(f"VALUES ({' '.join(map(self.names.var, values.vars))})", cells)

    def _window(self, name: NamedNode | Var, stream: Var | None) -> str:
        if isinstance(name, Var) or self.names.dialect == "rspql":
            return f"WINDOW {self.names.term(name)}"
        if name in self._blocks.clauses:
            return f"GRAPH {self._blocks.clauses[name]}"
        if name not in self._blocks.order:
            self._blocks.order.append(name)
        declaration = self._blocks.declared[name]
        read = self.names.term(stream or declaration.stream)
        return f"STREAM {read} {window_text(declaration, 'cqels', self._blocks.takes_report(name))}"


def _joined(node: Algebra) -> tuple[Algebra, Algebra] | None:
    node = unmerged(node)
    return (node.left, node.right) if isinstance(node, a.Join) else None


def _branches(node: Algebra) -> tuple[Algebra, Algebra] | None:
    return (node.left, node.right) if isinstance(node, a.Union) else None


def unmerged(node: Algebra) -> Algebra:
    """The pattern under the merge of all windows, which C-SPARQL has no word for."""
    while isinstance(node, a.Window) and node.name == MERGED:
        node = node.input
    return node


def enclosed(head: str, lines: list[str]) -> list[str]:
    """``head {``, the lines indented, ``}``."""
    start = f"{head} {{".lstrip()
    if not lines:
        return [f"{start} }}"]
    return [start, *(f"  {line}" for line in lines), "}"]


def window_names(node: object) -> list[NamedNode]:
    """The names of the windows read in anything made of algebra nodes."""
    windows = [each.name for each in inside(node) if isinstance(each, a.Window)]
    return [name for name in windows if isinstance(name, NamedNode) and name != MERGED]


_DEFAULT_BASE = "http://localhost/"


def write(query: ContinuousQuery) -> str:
    """The text of a query. Parameters stand there as the terms that they were bound to.

    >>> from .parser import parse
    >>> print(write(parse("PREFIX : <http://e/> SELECT * { ?a :p ?b . ?a :q 1 FILTER(?b>1) }")), end="")
    PREFIX : <http://e/>
    SELECT ?a ?b
    WHERE {
      ?a :p ?b ;
        :q 1 .
      FILTER (?b > 1)
    }
    """
    declared = [window.name for window in query.windows]
    for count in range(len(declared) + 1):
        text, order = _written(query, count)
        # A STREAM block numbers its window by its place in the text; where that place does not give the
        # number, the windows up to there are clauses, which come before all blocks.
        if query.dialect != "cqels" or order == declared[count:]:
            return text
    raise AssertionError(f"the windows of this {DIALECT_NAMES[query.dialect]} query have no order")


def write_pattern(
    node: Algebra, prefixes: Mapping[str, str] | None = None, dialect: Dialect = "sparql"
) -> str:
    """A pattern alone, for people: what stands between the braces, without the prefixes' declarations."""
    names = Names(prefixes or {}, dialect, node, free=True)
    declared = {name: _shown_window(name) for name in window_names(node)}
    writer = GroupWriter(names, Blocks(clauses=declared))
    return "\n".join(writer.inside(node))


def _shown_window(name: NamedNode) -> str:
    return str(name)


def _written(query: ContinuousQuery, clauses: int) -> tuple[str, list[NamedNode]]:
    """The text with that many windows as dataset clauses, and the order of the windows of its blocks."""
    nodes = (query.root, query.template, query.describe)
    names = Names(query.prefixes, query.dialect, nodes)
    blocks = Blocks({window.name: window for window in query.windows}, query.report)
    if query.dialect == "cqels":
        blocks.clauses = _window_variables(query, names, clauses)
    writer = GroupWriter(names, blocks)
    dataset = list(_dataset(query, names, blocks))
    parts = select_parts(query.root, projected=query.form == "select")
    head = _head(query, writer)
    lines = select_text(writer, parts, head, dataset)
    if query.form == "describe" and parts.pattern == a.Bgp():
        lines.remove("WHERE { }")
    register = _register(query, names)
    prologue = [
        f"PREFIX {prefix}: <{query.prefixes[prefix]}>" for prefix in query.prefixes if prefix in names.used
    ]
    if query.base_iri not in (None, _DEFAULT_BASE) and _calls_iri(nodes):
        prologue.insert(0, f"BASE <{query.base_iri}>")
    return "\n".join([*prologue, *register, *lines]) + "\n", blocks.order


def _window_variables(query: ContinuousQuery, names: Names, clauses: int) -> dict[NamedNode, str]:
    variables: dict[NamedNode, str] = {}
    for number, window in enumerate(query.windows[:clauses], 1):
        name = f"w{number}"
        while name in names.count:
            name += "_"
        variables[window.name] = f"?{name}"
    return variables


def _head(query: ContinuousQuery, writer: GroupWriter) -> list[str] | None:
    """The text in the place of SELECT and its columns."""
    names = writer.names
    match query.form:
        case "select":
            return None
        case "ask":
            return ["ASK"]
        case "describe":
            return [f"DESCRIBE {' '.join(map(names.term, query.describe)) or '*'}"]
        case "construct":
            lines: list[str] = []
            for graph, quads in groupby(query.template, key=lambda quad: quad.graph):
                triples = writer.triples.lines([quad.triple for quad in quads])
                lines += triples if graph is None else enclosed(f"GRAPH {names.term(graph)}", triples)
            return enclosed("CONSTRUCT", lines)


def _dataset(query: ContinuousQuery, names: Names, blocks: Blocks) -> Iterable[str]:
    for window in query.windows:
        brackets = window_text(window, query.dialect, blocks.takes_report(window.name))
        stream = names.term(window.stream)
        if query.dialect == "rspql":
            yield f"FROM NAMED WINDOW {names.iri(window.name)} ON {stream} {brackets}"
        elif query.dialect == "csparql":
            yield f"FROM STREAM {stream} {brackets}"
        elif window.name in blocks.clauses:
            yield f"FROM NAMED {stream} {brackets} AS {blocks.clauses[window.name]}"
    for graph in query.dataset.default:
        yield f"FROM {names.iri(graph)}"
    for graph in query.dataset.named:
        yield f"FROM NAMED {names.iri(graph)}"
    if query.refresh_every_ms is not None:
        yield f"REFRESH EVERY {duration_text(query.refresh_every_ms, query.dialect)}"
    if query.into_graph is not None:
        yield f"INTO GRAPH {names.iri(query.into_graph)}"


def _register(query: ContinuousQuery, names: Names) -> list[str]:
    every = []
    if query.computed_every_ms is not None:
        every.append(f"COMPUTED EVERY {duration_text(query.computed_every_ms, query.dialect)}")
    if query.t0_ms is not None:
        every.append(f"STARTING AT {query.t0_ms}")
    if query.register_as is None:
        return []
    kind = query.output.upper() if query.output is not None else query.register_as.upper()
    if query.dialect == "rspql" and kind == "QUERY":
        kind = ""
    iri = "" if query.result_iri is None else names.iri(query.result_iri)
    words = ["REGISTER", kind, iri or query.result_name or "", *every, "AS"]
    return [" ".join(word for word in words if word)]


def _calls_iri(nodes: object) -> bool:
    """True when an IRI() resolves against the base."""
    return any(isinstance(each, a.Call) and each.name == "IRI" for each in inside(nodes))
