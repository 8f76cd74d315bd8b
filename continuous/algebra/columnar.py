"""Static parts by a columnar engine beside the store: the seam, and what a query does with it.

An engine says of a pattern whether it is the one to ask and gives its rows at one version of the store. When
it refuses or fails the store is asked, so a query never depends on it; its description says who was asked and
why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.errors import QuadrillError

from .nodes import Algebra, Term, Var

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

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


@dataclass(slots=True)
class ColumnarParts:
    """The static parts of one query before a columnar engine.

    Attributes:
        engine: the engine.
        wish: what the query asks for; None leaves it to the engine.
        choices: who evaluated each part the last time, and why, by the part's name.
    """

    engine: ColumnarEngine
    wish: str | None = None
    choices: dict[str, Choice] = field(default_factory=dict)

    def wants(self, name: str, pattern: Algebra) -> bool:
        """True when the engine is to be asked for the rows of a part."""
        try:
            choice = self.engine.choose(pattern, self.wish)
        except QuadrillError as error:
            choice = Choice("oxigraph", f"spark was not able to: {error.message}")
        self.choices[name] = choice
        return choice.engine != "oxigraph"

    def rows(
        self,
        store: QuadStore,
        version: int,
        name: str,
        pattern: Algebra,
        columns: Sequence[Var],
        graphs: Graphs,
        base_iri: str | None,
    ) -> list[Row] | None:
        """The rows of a part at a version of the store; None when the engine was not able to.

        Args:
            store: the store.
            version: the version to read.
            name: the part's name.
            pattern: its pattern, as the store would be asked for it.
            columns: its columns.
            graphs: the graphs of the query.
            base_iri: what IRI() resolves against.
        """
        try:
            return self.engine.rows(store, version, pattern, columns, graphs, base_iri)
        except QuadrillError as error:
            log.warning("the static part %s is left to the store: %s", name, error.message)
            self.choices[name] = Choice("oxigraph", f"spark was not able to: {error.message}")
            return None
