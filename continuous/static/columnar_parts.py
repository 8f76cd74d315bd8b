"""The static parts of one query before a columnar engine.

When the engine refuses or fails the store is asked, so a query never depends on it; its description says who
was asked and why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadrill.store.errors import QuadrillError

from ..algebra.columnar import Choice, ColumnarEngine, Graphs, Row
from ..algebra.nodes import Algebra, Var

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")


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
