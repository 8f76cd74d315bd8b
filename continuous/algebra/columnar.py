"""The seams of those who evaluate static parts beside the store.

A columnar engine says of a pattern whether it is the one to ask and gives its rows at one version of the
store. A bounded one takes what may need more memory than there is, in processes of its own.
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
"""The values of a part's columns."""
ENGINES = ("oxigraph", "spark")
"""Who can evaluate a static part."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """``engine`` is one of `ENGINES`; ``reason`` is for EXPLAIN."""

    engine: str
    reason: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """The graphs of a query (SPARQL 1.1, section 13.2), as texts.

    Attributes:
        default: the graphs whose merge is the default graph; None stands for the default graph itself.
        named: those that GRAPH ranges over; None is all.
    """

    default: tuple[str | None, ...] = (None,)
    named: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        default: Sequence[NamedNode | DefaultGraph] | None,
        named: Sequence[NamedNode | BlankNode] | None,
    ) -> Graphs:
        """Those of a dataset clause; None is what a query without one reads."""
        if default is None:
            chosen: tuple[str | None, ...] = (None,)
        else:
            chosen = tuple(None if each == DefaultGraph() else str(each) for each in default)
        return cls(chosen, None if named is None else tuple(map(str, named)))


class ColumnarEngine(Protocol):
    """Evaluates static parts beside the store."""

    def choose(self, pattern: Algebra, wish: str | None) -> EngineChoice:
        """Who is to evaluate a pattern, and why; ``wish`` is what the query asks for."""
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
        """The rows of a pattern at a version of the store, in any order.

        Raises:
            ReportedError: the pattern, or that version, cannot be had here, or the engine failed or took too
                long; the message says which.
        """
        ...


ColumnarFactory: TypeAlias = Callable[[Path, str | None, str, float], ColumnarEngine]
"""Makes an engine over the mirror in a folder, which may come to be later.

The other arguments are the address of a cluster (None: this machine), the engine's memory as the setting
``spark_memory`` writes it, and the longest time for one pattern in seconds.
"""

_FACTORIES: dict[str, ColumnarFactory] = {}


def register_columnar(name: str, factory: ColumnarFactory) -> None:
    """Add a columnar engine; its name is one of `ENGINES`.

    Raises:
        ValueError: the name is none of them, or has an engine already.
    """
    if name not in ENGINES or name in _FACTORIES:
        raise ValueError(f"{name} is no name for a further engine of static parts")
    _FACTORIES[name] = factory


def columnar_factory(name: str) -> ColumnarFactory | None:
    """Return what makes an engine of this name; None where no extension has registered it."""
    return _FACTORIES.get(name)


class BoundedEngine(Protocol):
    """Evaluates static parts that may hold many rows back, where that harms nobody else."""

    def is_heavy(self, held: int) -> bool:
        """True if the product of so many patterns may have more rows than fit into memory."""
        ...

    def within(self, seconds: float) -> BoundedEngine:
        """The same with less time for a part."""
        ...

    def rows(
        self,
        pattern: Algebra,
        columns: Sequence[Var],
        base_iri: str | None,
        dataset: Dataset,
        check: Callable[[], None],
    ) -> Generator[Row]:
        """The rows of a pattern, in their order, over the store as it is at this call.

        ``check`` is called again and again while they are computed, and may raise. Raises ReportedError, with
        the first row, for a part that needs more than it may.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticEngines:
    """Who evaluates static parts beside the store, where there is somebody."""

    columnar: ColumnarEngine | None = None
    bounded: BoundedEngine | None = None
