"""What one query's plan is built from, and small things that all of the planner shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quadrill.store.dictionary import Pins, TermDictionary

from ..algebra.nodes import Aggregate as AggregateNode
from ..algebra.nodes import Expr, Var
from ..algebra.query import WindowDeclaration
from ..expressions.compile import ExpressionContext
from ..operators.ordering import OrderKeys
from ..operators.policies import Policy
from ..rows import Schema

Names = frozenset[str]
NO_NAMES: Names = frozenset()


@dataclass(frozen=True, slots=True)
class StaticTable:
    """What the planner must know of a static part: its columns and those that every row binds."""

    name: str
    vars: tuple[str, ...]
    certain: Names


@dataclass(slots=True)
class Compilation:
    """What one query's plan is built from."""

    terms: TermDictionary
    pins: Pins
    context: ExpressionContext
    keys: OrderKeys
    windows: Sequence[WindowDeclaration]
    tables: Mapping[str, StaticTable]
    union: bool = True
    order: Sequence[int] | Policy | None = None
    """Forces the order of look-ups in joins, or a policy that chooses it; for tests and measurements."""
    costly_late: bool = False
    """Filters that call extension functions come behind joins (H4 of the RSP-QL* paper)."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """What the plan compiler must know of a GROUP BY besides its operator."""

    aggregates: Sequence[tuple[Var, AggregateNode]]
    exprs: Sequence[Expr | None]


def columns_of(schema: Schema, names: Sequence[str]) -> list[int]:
    """Places of the names; -1 where the schema has none."""
    return [schema.vars.index(name) if name in schema.vars else -1 for name in names]
