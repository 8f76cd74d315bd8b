"""Inputs of a plan, where changes enter it: windows, their merge, static tables, the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.dictionary import Pins, TermDictionary

from ..algebra.nodes import MERGED, Expr, Var
from ..algebra.nodes import Aggregate as AggregateNode
from ..algebra.query import WindowDeclaration
from ..algebra.static import MERGED_PART
from ..algebra.volatile import CLOCK
from ..expressions.compile import ExpressionContext
from ..expressions.values import OrderKeys
from ..operators import linear
from ..operators.ordering import SortKey, TopK
from ..rows import IdRow, Schema
from .plan import CLOCK_KEY, Built, PlanBuilder, source_key

Names = frozenset[str]
NO_NAMES: Names = frozenset()
TRIPLE = ("s", "p", "o")


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A static part as the planner knows it: its columns and those that every row binds."""

    name: str
    vars: tuple[str, ...]
    certain: Names


@dataclass(slots=True)
class Compilation:
    """The material of one query's plan."""

    terms: TermDictionary
    pins: Pins
    context: ExpressionContext
    keys: OrderKeys
    windows: Sequence[WindowDeclaration]
    tables: Mapping[str, StaticTable]
    union: bool = True


@dataclass(frozen=True, slots=True)
class Grouping:
    """A GROUP BY as the plan compiler knows it, besides its operator."""

    aggregates: Sequence[tuple[Var, AggregateNode]]
    exprs: Sequence[Expr | None]


def columns_of(schema: Schema, names: Sequence[str]) -> list[int]:
    """Places of the names; -1 where the schema has none."""
    return [schema.vars.index(name) if name in schema.vars else -1 for name in names]


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a pattern: in which window, in which of its graphs, on which variable stream.

    ``context`` are the variables that a block around the pattern binds in every solution: those of
    ``GRAPH ?g`` and of ``STREAM ?s``.
    """

    window: NamedNode | None = None
    graph: NamedNode | BlankNode | Var | None = None
    stream: str | None = None
    context: frozenset[str] = frozenset()


class Sources:
    """Gives the sources of one query's plan; equal ones are one node."""

    def __init__(self, compilation: Compilation, builder: PlanBuilder) -> None:
        self._compilation = compilation
        self._builder = builder
        self.declared: dict[NamedNode, WindowDeclaration] = {each.name: each for each in compilation.windows}
        self.tables: set[str] = set()
        """The names of the static parts that are read."""
        self._merged: dict[bool, Built] = {}

    def triples(self, scope: Scope) -> Built:
        """The triples that patterns outside GRAPH match, (s, p, o)."""
        return self._merge(False) if scope.window == MERGED else self._window("triples", (), scope)

    def quads(self, scope: Scope) -> Built:
        """The quads of the named graphs of a window, (s, p, o, g)."""
        return self._window("quads", ("g",), scope)

    def times(self, scope: Scope) -> Built:
        """The triples that patterns outside GRAPH match with their event times, (s, p, o, time)."""
        return self._merge(True) if scope.window == MERGED else self._window("times", ("time",), scope)

    def streams(self, scope: Scope) -> Built:
        """The streams of a window whose stream is a variable, under the name that they have in the scope."""
        assert scope.window is not None and scope.stream is not None
        key = source_key("streams", scope.window)
        given = self._builder.source(key, Schema(("stream",), frozenset(("stream",))), "streams")
        schema = Schema((scope.stream,), frozenset((scope.stream,)))
        return self._builder.add("named", linear.Select(schema, (0,), lambda row: True), [given])

    def table(self, name: str) -> Built:
        """A static table, or the clock."""
        if name == CLOCK.name:
            schema = Schema(tuple(var.name for var in CLOCK.vars), CLOCK.certain)
            return self._builder.source(CLOCK_KEY, schema, "clock")
        table = self._compilation.tables[name]
        self.tables.add(name)
        schema = Schema(table.vars, table.certain)
        return self._builder.source(source_key("table", name), schema, "table", name)

    def _window(self, kind: str, more: tuple[str, ...], scope: Scope) -> Built:
        """The changes of one window; those of a variable stream have it as their last column."""
        assert scope.window is not None
        names = (*TRIPLE, *more, *(("stream",) if scope.stream else ()))
        stream = self.declared[scope.window].stream
        shown = f"?{stream.name}" if isinstance(stream, Var) else str(stream)
        key = source_key(kind, scope.window)
        return self._builder.source(key, Schema(names, frozenset(names)), "window", f"{shown} ({kind})")

    def _merge(self, timed: bool) -> Built:
        """All windows and the background graphs in one."""
        if timed not in self._merged:
            read = self.times if timed else self.triples
            inputs = [read(Scope(window)) for window in self.declared]
            background = self.table(MERGED_PART)
            columns = columns_of(background.schema, TRIPLE)
            if timed:
                schema = Schema((*TRIPLE, "time"), frozenset(TRIPLE))
                union = linear.Union(schema, *(range(4) for _ in inputs), (*columns, -1))
                rows = self._builder.add("union", union, [*inputs, background])
                first = TopK(schema, range(4), self._newest_first, 0, 1, by=range(3))
                self._merged[timed] = self._builder.add("merge of times", first, [rows])
            else:
                merge = linear.Distinct(Schema(TRIPLE, frozenset(TRIPLE)), *(None for _ in inputs), columns)
                self._merged[timed] = self._builder.add("merge", merge, [*inputs, background])
        return self._merged[timed]

    def _newest_first(self, row: IdRow) -> SortKey:
        """Of a triple's event times the greatest counts; one without a time comes last."""
        time = self._compilation.context.values[row[3]]
        assert time is None or isinstance(time, int)
        return (1, 0) if time is None else (0, -time)
