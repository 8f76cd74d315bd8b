"""The WHERE parts of an update, with limits that follow from their algebra (`update_plan.WherePart`).

Oxigraph's buffering operators (sort, group, distinct, minus) collect rows before they return the first one.
While Oxigraph is in a buffering operator, it cannot be stopped and its rows cannot be counted, so a worker
process evaluates a WHERE part that may buffer many rows. If a WHERE part streams its rows, the update counts
the rows while it consumes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, Store

from quadrill.continuous.algebra.nodes import Algebra, Term, TermPattern
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.analysis.growth import counted, counting
from quadrill.continuous.analysis.prepared import Prepared, prepared, scope_error_of
from quadrill.continuous.analysis.query import UNKNOWN
from quadrill.continuous.expressions.choices import LimitedCalls
from quadrill.store.sparql.skeletons import split_constants
from quadrill.store.sparql.update_plan import BufferedRowsError, WherePart
from quadrill.store.terms import Solution

from .admission import MAX_SCANNED_QUADS
from .extensions import called_by_iri
from .look_ups import solutions
from .named import names_aggregate
from .nodes import has_node

MOST_ROWS = 500_000
"""Maximum rows that one WHERE part may buffer or return within the server: 100 to 200 MB."""
IN_UPDATES = f"{__name__}:ServerWherePart"
"""Import path of the class with which worker processes evaluate WHERE parts, without limits on rows."""
_SELECT = "SELECT * "


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Limits on the rows that a WHERE part or static part may buffer within the server.

    ``rows`` is the limit for a join of several triple patterns, ``scanned`` for one pattern; ``quads``
    returns the number of quads in the store.
    """

    quads: Callable[[], int]
    rows: int = MOST_ROWS
    scanned: int = MAX_SCANNED_QUADS

    def has(self, held: int, pending: int = 0) -> bool:
        """Return True if the server may buffer the joined rows of ``held`` triple patterns."""
        most = max(self.rows, self.scanned) if held == 1 else self.rows
        return not held or (held < UNKNOWN and max(self.quads() + pending, 2) ** held <= most)


class ServerWherePart(WherePart):
    """A WHERE part of an update, whose limits and corrections the server derives from its algebra."""

    def __init__(
        self,
        prologue: str,
        where: str,
        room: BufferLimits | None = None,
        *,
        calls: LimitedCalls | None = None,
        costly: bool = False,
    ) -> None:
        """Split the text of a WHERE part into a skeleton and constants.

        Args:
            prologue: the declarations (BASE, PREFIX) before the WHERE part.
            where: the text of the WHERE part.
            room: the limits on rows that the part may buffer; None for no limit.
            calls: the limit on values that the part's functions make, for parts with possibly long values.
            costly: True if the part calls a function that may take long; a worker process, which can be
                killed, then evaluates the part.
        """
        self._where, self._room, self._calls, self._costly = where, room, calls, costly
        self._select = f"{prologue}{_SELECT}{where}"
        self._parts = split_constants(self._select)

    @cached_property
    def _known(self) -> Prepared:
        return prepared(self._select, self._parts)

    def require_valid(self, text: str, start: int) -> None:
        """Reject a WHERE part that breaks a scope rule of SPARQL that Oxigraph does not check."""
        if self._known.breaks_scopes:
            select = self._select
            error = scope_error_of(select, text, start + len(self._where) - len(select))
            if error is not None:
                raise error

    def look_up(self, names: tuple[str, ...], store: Store) -> list[Solution] | None:
        """Return the solutions of a look-up by constants; None if Oxigraph has to evaluate the WHERE part."""
        if self._room is None:
            return None
        body, constants = self._parts.body.removeprefix(_SELECT), self._parts.constants
        return solutions(self._where, body, constants, names, store)

    def require_in_process(self, pending: int) -> None:
        """Raise BufferedRowsError if the WHERE part may buffer too many rows, with ``pending`` more quads."""
        if self._costly:
            raise BufferedRowsError("a WHERE part of the update calls a function that may take long")
        if self._room is not None and not self._room.has(self._known.shape.buffered_patterns, pending):
            raise BufferedRowsError("a WHERE part of the update may buffer too many rows")

    def require_row_limit(self, rows: int) -> None:
        """Raise BufferedRowsError if the WHERE part has too many solutions, ``rows``."""
        if self._room is not None and rows > self._room.rows:
            raise BufferedRowsError("a WHERE part of the update has too many solutions")

    def corrected(
        self, select: str, base_iri: str | None, merged: bool, store: Store | None
    ) -> tuple[str, dict[NamedNode, Callable[..., Any]]] | None:
        """Return the corrected text of the query ``select`` with its functions; None if already correct."""

        def known(term: Term, graph: TermPattern | None) -> bool:
            at = graph or DefaultGraph()
            named = store is not None and isinstance(at, (NamedNode, DefaultGraph))
            return named and has_node(term, at, store)  # type: ignore[arg-type]  # see above

        calls = self._calls if self._known.growth.is_much(self._parts) else None
        limited = {} if calls is None else counting(calls)
        named = names_aggregate(select)

        def changed(root: Algebra) -> Algebra:
            root = counted(root) if limited else root
            return called_by_iri(root, {}) if named else root

        found = corrected_text(
            select,
            base_iri or "http://localhost/",
            body=self._parts.body,
            merged=merged,
            is_node=known,
            change=changed if limited or named else None,
        )
        return None if found is None else (found.text, {**found.functions, **limited})
