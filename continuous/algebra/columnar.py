"""Interfaces of engines other than the store that evaluate static parts.

A columnar engine decides which patterns it evaluates and returns their rows at one version of the store. A
bounded engine evaluates patterns that may need more memory than is available, in separate processes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.quads.quad_store import QuadStore

from .graphs import Dataset
from .nodes import Algebra, Term, Var

Row: TypeAlias = tuple[Term | None, ...]
"""The values of a static part's columns; None for an unbound variable."""
ENGINES = ("oxigraph", "spark")
"""Names of the engines that can evaluate a static part; ``oxigraph`` is the store."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine chosen for a static part: ``engine`` is one of `ENGINES`; EXPLAIN shows ``reason``."""

    engine: str
    reason: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """The dataset of a query (SPARQL 1.1, section 13.2) as N-Triples texts of graph names.

    Attributes:
        default: the graphs whose merge is the default graph; None stands for the default graph itself.
        named: the graphs that GRAPH ranges over; None stands for all named graphs.
    """

    default: tuple[str | None, ...] = (None,)
    named: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        default: Sequence[NamedNode | DefaultGraph] | None,
        named: Sequence[NamedNode | BlankNode] | None,
    ) -> Graphs:
        """Return a dataset clause's graphs as N-Triples texts; None stands for a query without the clause."""
        if default is None:
            chosen: tuple[str | None, ...] = (None,)
        else:
            chosen = tuple(None if each == DefaultGraph() else str(each) for each in default)
        return cls(chosen, None if named is None else tuple(map(str, named)))


class ColumnarEngine(Protocol):
    """An engine that evaluates static parts on a copy of the store in columns."""

    def choose(self, pattern: Algebra, wish: str | None) -> EngineChoice:
        """Choose the engine that evaluates a static pattern; ``wish`` is the engine that the query names."""
        ...

    def rows(
        self,
        store: QuadStore,
        version: int,
        pattern: Algebra,
        columns: Sequence[Var],
        graphs: Graphs,
        base_iri: str | None,
    ) -> list[Row]:
        """Return the rows of a static pattern at a version of the store, in any order.

        Raises:
            ReportedError: the engine cannot evaluate the pattern or lacks the version, or the evaluation
                failed or timed out; the message gives the cause.
        """
        ...


ColumnarFactory: TypeAlias = Callable[[Path, str | None, str, float], ColumnarEngine]
"""A function that creates a columnar engine over the mirror in a folder; the folder may be created later.

The other arguments of an engine's factory are the address of a cluster (None: the local machine), the
engine's memory in the format of the setting ``spark_memory``, and the time limit for one pattern in seconds.
"""

_FACTORIES: dict[str, ColumnarFactory] = {}


def register_columnar(name: str, factory: ColumnarFactory) -> None:
    """Register the factory of a columnar engine; its name is one of `ENGINES`.

    Raises:
        ValueError: the name is not in `ENGINES`, or the name already has a factory.
    """
    if name not in ENGINES or name in _FACTORIES:
        raise ValueError(f"{name} is no name for a further engine of static parts")
    _FACTORIES[name] = factory


def columnar_factory(name: str) -> ColumnarFactory | None:
    """Return the factory of the engine with this name; None if no extension has registered one."""
    return _FACTORIES.get(name)


class BoundedEngine(Protocol):
    """An engine that evaluates static parts with many buffered rows in processes of limited memory."""

    def is_heavy(self, held: int) -> bool:
        """Return True if the joined rows of so many buffered patterns could exceed the memory limit."""
        ...

    def within(self, seconds: float) -> BoundedEngine:
        """Return the bounded engine with a shorter time limit per static part, in seconds."""
        ...

    def rows(
        self,
        pattern: Algebra,
        columns: Sequence[Var],
        base_iri: str | None,
        dataset: Dataset,
        check: Callable[[], None],
    ) -> Generator[Row]:
        """Yield the rows of a static pattern in the pattern's order, over the state of the store at the call.

        The bounded engine calls the function ``check`` repeatedly during the evaluation, and ``check`` may
        raise to stop it. Raises ReportedError, at the first row, for a static part that exceeds the engine's
        limits.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticEngines:
    """The engines other than the store that evaluate static parts; None for a missing engine."""

    columnar: ColumnarEngine | None = None
    bounded: BoundedEngine | None = None
