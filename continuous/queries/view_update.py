"""The update of a view: the graph of the store that is kept equal to a CONSTRUCT query's answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyoxigraph import Quad

from quadrill.store.quads.views import View

from ..rows import Solution


def update_view(
    construct: Callable[[Sequence[Solution], int], Sequence[Quad]],
    view: View,
    deleted: Sequence[Solution],
    inserted: Sequence[Solution],
    at: int,
) -> None:
    """Delete the quads of deleted rows from a view's graph and insert the quads of inserted rows."""
    gone, come = ([quad for row in rows for quad in construct([row], at)] for rows in (deleted, inserted))
    view.apply(gone, come)
