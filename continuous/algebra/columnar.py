"""The seam of a columnar engine beside the store, which evaluates static parts.

An engine says of a pattern whether it is the one to ask and gives its rows at one version of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.quads.quad_store import QuadStore

from .nodes import Algebra, Term, Var

Row: TypeAlias = tuple[Term | None, ...]
"""The values of a part's columns."""
ENGINES = ("oxigraph", "spark")
"""Who can evaluate a static part."""


@dataclass(frozen=True, slots=True)
class Choice:
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

    def choose(self, pattern: Algebra, wish: str | None) -> Choice:
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
            QuadrillError: the pattern, or that version, cannot be had here, or the engine failed or took too
                long; the message says which.
        """
        ...
