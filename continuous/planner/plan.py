"""The physical plan: operators in an order in which each comes behind its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.nodes import Algebra, Expr
from ..r2r.operator import Operator
from ..r2r.source import TableSource
from ..rows import EMPTY, Delta, Row, Schema

WindowKey = tuple[NamedNode, NamedNode | None]
"""A window and, where its stream is a variable, one of its streams."""


SourceKey = str
"""One input of a plan: the triples or the named graphs' quads of a window, or a static table."""


def source_key(kind: str, name: NamedNode | str) -> SourceKey:
    """The key of an input; ``kind`` is ``triples``, ``quads`` or ``table``."""
    return f"{kind} {name}"


@dataclass(slots=True)
class PlanNode:
    """One operator and where its inputs come from.

    ``source`` is set instead of ``operator`` where changes enter. ``expr`` is the expression of a filter
    or extend, ``detail`` one line for EXPLAIN.
    """

    label: str
    schema: Schema
    inputs: tuple[int, ...] = ()
    operator: Operator | None = None
    source: SourceKey | None = None
    detail: str = ""
    expr: Expr | None = None
    extra: Any = None


@dataclass(slots=True)
class Plan:
    """Runs operators on changes. ``root`` is the place of the node whose rows are the answer."""

    nodes: list[PlanNode]
    root: int
    tables: dict[str, TableSource] = field(default_factory=dict)
    windows: dict[NamedNode, Algebra | None] = field(default_factory=dict)
    primed: bool = False

    @property
    def schema(self) -> Schema:
        """The schema of the answer's rows."""
        return self.nodes[self.root].schema

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        """One transaction: the changes of all inputs together; the change of the answer."""
        results: list[Delta] = []
        for node in self.nodes:
            if node.operator is None:
                results.append(changes.get(node.source, EMPTY) if node.source is not None else EMPTY)
                continue
            given = [results[place] for place in node.inputs]
            if self.primed and not any(given):
                results.append(EMPTY)
            else:
                results.append(node.operator.step(*given))
        self.primed = True
        return results[self.root]

    def held(self) -> Iterable[Row]:
        """Every row that some operator keeps."""
        for node in self.nodes:
            held: Callable[[], Iterable[Row]] | None = getattr(node.operator, "held", None)
            if held is not None:
                yield from held()

    def size(self) -> int:
        """How many rows, entries and groups the operators keep."""
        return sum(node.operator.size() for node in self.nodes if hasattr(node.operator, "size"))  # type: ignore[union-attr]

    def explain(self) -> str:
        """The operators as an indented tree, the root first; a node used twice is shown once."""
        shown: set[int] = set()
        lines: list[str] = []

        def visit(place: int, depth: int) -> None:
            node = self.nodes[place]
            again = place in shown and node.operator is not None
            shown.add(place)
            size = f" [{node.operator.size()}]" if hasattr(node.operator, "size") else ""  # type: ignore[union-attr]
            text = f"{node.label} {node.detail}".rstrip()
            columns = " ".join(f"?{name}" for name in node.schema.vars)
            lines.append(f"{'  ' * depth}#{place} {text}{size} -> ({columns}){' (above)' if again else ''}")
            if not again:
                for below in node.inputs:
                    visit(below, depth + 1)

        visit(self.root, 0)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Built:
    """A place in the plan under construction and what its rows look like."""

    place: int
    schema: Schema


class PlanBuilder:
    """Collects nodes; equal sources are one node."""

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []
        self._sources: dict[SourceKey, int] = {}

    def source(self, key: SourceKey, schema: Schema, label: str, detail: str = "") -> Built:
        """The node where the changes of ``key`` enter."""
        if key not in self._sources:
            self._sources[key] = len(self.nodes)
            self.nodes.append(PlanNode(label, schema, source=key, detail=detail))
        return Built(self._sources[key], self.nodes[self._sources[key]].schema)

    def add(
        self,
        label: str,
        operator: Operator,
        inputs: Sequence[Built],
        detail: str = "",
        expr: Expr | None = None,
        extra: Any = None,
    ) -> Built:
        """A node behind its inputs."""
        self.nodes.append(
            PlanNode(
                label,
                operator.schema,
                tuple(each.place for each in inputs),
                operator,
                None,
                detail,
                expr,
                extra,
            )
        )
        return Built(len(self.nodes) - 1, operator.schema)
