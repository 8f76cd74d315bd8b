"""What the server knows of WHERE parts of updates; the store asks it (`update_plan.WhereParts`).

Oxigraph collects rows before it gives the first one where it sorts, groups, removes duplicates and subtracts.
Nothing can stop it there, and nothing counts what it collects, so a part that may hold many rows back is
evaluated by a worker. What streams is counted by whoever takes the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, Store

from quadrill.continuous.algebra.nodes import Term, TermPattern
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.analysis.prepared import prepared, scope_error_of
from quadrill.continuous.analysis.query import UNKNOWN
from quadrill.store.sparql.cut import cut
from quadrill.store.sparql.update_plan import HeldBackError
from quadrill.store.terms import Solution

from .admission import MAX_SCANNED_QUADS
from .extensions import called_by_iri
from .look_ups import solutions
from .named import names_aggregate
from .nodes import has_node

MOST_ROWS = 500_000
"""Rows that one WHERE part may hold back, or give, within the server: 100 to 200 MB."""
IN_UPDATES = f"{__name__}:in_worker"
"""Where worker processes find what is known of WHERE parts."""


@dataclass(frozen=True, slots=True)
class Room:
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


@dataclass(frozen=True, slots=True)
class ServerWhereParts:
    """The `WhereParts` of a server; without ``room`` they take what they need, and all are evaluated.

    ``costly``: they call what may take long, and are left to a worker process, which can be killed.
    """

    room: Room | None = None
    costly: bool = False

    def check(self, prologue: str, where: str, text: str, start: int) -> None:
        """Refuse a part that breaks a rule about names that Oxigraph does not check."""
        select = _select(prologue, where)
        if prepared(select, cut(select)).breaks_scopes:
            error = scope_error_of(select, text, start + len(where) - len(select))
            if error is not None:
                raise error

    def look_up(self, where: str, names: tuple[str, ...], store: Store) -> list[Solution] | None:
        """The values of variables for a part that is a look-up."""
        return None if self.room is None else solutions(where, names, store)

    def admit(self, prologue: str, where: str, pending: int) -> None:
        """Raise HeldBackError when a part may hold back too much, with so many changes made before it."""
        if self.costly:
            raise HeldBackError("a WHERE part of the update calls a function that may take long")
        select = _select(prologue, where)
        if self.room is not None and not self.room.has(prepared(select, cut(select)).shape.held, pending):
            raise HeldBackError("a WHERE part of the update may hold back too many rows")

    def take(self, rows: int) -> None:
        """Raise HeldBackError when a part gives too many rows."""
        if self.room is not None and rows > self.room.rows:
            raise HeldBackError("a WHERE part of the update has too many solutions")

    def corrected(
        self, select: str, base_iri: str | None, merged: bool, store: Store | None
    ) -> tuple[str, dict[NamedNode, Callable[..., Any]]] | None:
        """A SELECT with a part, as the store should read it; None for one that is right as it stands."""

        def known(term: Term, graph: TermPattern | None) -> bool:
            at = graph or DefaultGraph()
            named = store is not None and isinstance(at, (NamedNode, DefaultGraph))
            return named and has_node(term, at, store)  # type: ignore[arg-type]  # see above

        change = (lambda root: called_by_iri(root, {})) if names_aggregate(select) else None
        base = base_iri or "http://localhost/"
        found = corrected_text(select, base, merged=merged, is_node=known, change=change)
        return None if found is None else (found.text, dict(found.functions))


def _select(prologue: str, where: str) -> str:
    return f"{prologue}SELECT * {where}"


def in_worker() -> ServerWhereParts:
    """What a worker knows of WHERE parts: it has room for them."""
    return ServerWhereParts()
