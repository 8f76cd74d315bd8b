"""What the server knows of a WHERE part of an update; the store asks it (`update_plan.WherePart`).

Oxigraph collects rows before it gives the first one where it sorts, groups, removes duplicates and subtracts.
Nothing can stop it there, and nothing counts what it collects, so a part that may hold many rows back is
evaluated by a worker. What streams is counted by whoever takes the rows.
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
"""Rows that one WHERE part may hold back, or give, within the server: 100 to 200 MB."""
IN_UPDATES = f"{__name__}:ServerWherePart"
"""Where worker processes find what reads WHERE parts; they have room for them."""
_SELECT = "SELECT * "


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """What may be held back within the server; ``quads`` counts those of the store.

    ``rows`` of several patterns, or ``scanned`` rows of one.
    """

    quads: Callable[[], int]
    rows: int = MOST_ROWS
    scanned: int = MAX_SCANNED_QUADS

    def has(self, held: int, pending: int = 0) -> bool:
        """True when the rows of so many triple patterns together may be held back."""
        most = max(self.rows, self.scanned) if held == 1 else self.rows
        return not held or (held < UNKNOWN and max(self.quads() + pending, 2) ** held <= most)


class ServerWherePart(WherePart):
    """A WHERE part of which the server knows what follows from its algebra."""

    def __init__(
        self,
        prologue: str,
        where: str,
        room: BufferLimits | None = None,
        *,
        calls: LimitedCalls | None = None,
        costly: bool = False,
    ) -> None:
        """Cut a part.

        Args:
            prologue: what is declared for it.
            where: its text.
            room: for what it holds back; without, it takes what it needs, and is evaluated in any case.
            calls: limits the values that it makes, where they could become long.
            costly: it calls what may take long, and is left to a worker process, which can be killed.
        """
        self._where, self._room, self._calls, self._costly = where, room, calls, costly
        self._select = f"{prologue}{_SELECT}{where}"
        self._parts = split_constants(self._select)

    @cached_property
    def _known(self) -> Prepared:
        return prepared(self._select, self._parts)

    def require_valid(self, text: str, start: int) -> None:
        """Refuse a part that breaks a rule about names that Oxigraph does not check."""
        if self._known.breaks_scopes:
            select = self._select
            error = scope_error_of(select, text, start + len(self._where) - len(select))
            if error is not None:
                raise error

    def look_up(self, names: tuple[str, ...], store: Store) -> list[Solution] | None:
        """The values of variables for a part that is a look-up."""
        if self._room is None:
            return None
        body, constants = self._parts.body.removeprefix(_SELECT), self._parts.constants
        return solutions(self._where, body, constants, names, store)

    def require_in_process(self, pending: int) -> None:
        """Raise HeldBackError when it may hold back too much, with so many changes made before it."""
        if self._costly:
            raise BufferedRowsError("a WHERE part of the update calls a function that may take long")
        if self._room is not None and not self._room.has(self._known.shape.buffered_patterns, pending):
            raise BufferedRowsError("a WHERE part of the update may hold back too many rows")

    def require_row_limit(self, rows: int) -> None:
        """Raise HeldBackError when it gives too many rows."""
        if self._room is not None and rows > self._room.rows:
            raise BufferedRowsError("a WHERE part of the update has too many solutions")

    def corrected(
        self, select: str, base_iri: str | None, merged: bool, store: Store | None
    ) -> tuple[str, dict[NamedNode, Callable[..., Any]]] | None:
        """A SELECT with it, as the store should read it; None for one that is right as it stands."""

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
