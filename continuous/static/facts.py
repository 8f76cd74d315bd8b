"""What is told of static parts: their tables, look-ups and groups."""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra.columnar import Choice


@dataclass(frozen=True, slots=True)
class LookupFacts:
    """What is remembered of a part that is not held.

    ``keys`` and ``rows`` are there now; rows of a key were ``asked`` for and ``found`` there so often.
    """

    keys: int
    rows: int
    asked: int
    found: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of the rows of a static part.

    ``follows``: each commit changes them by itself. ``shared_with``: the other queries that read the same
    table. ``behind``: the first version that is not in the rows yet, while they are read anew. ``problem``:
    why that failed. ``took_s``: how long it took to read all rows, in seconds. ``choice``: by whom, and why.
    ``from_disk``: the version at which the rows were written, when they were read from disk at the start.
    ``lookup``: the rows are looked up. ``held_because``: why they are held though a look-up was
    wished; ``looked_up_because``: why they are not held; ``anew_because``: why a commit was not taken as
    deltas.
    """

    rows: int
    version: int
    follows: bool = False
    shared_with: tuple[str, ...] = ()
    behind: int | None = None
    problem: str | None = None
    took_s: float | None = None
    choice: Choice | None = None
    from_disk: int | None = None
    lookup: LookupFacts | None = None
    held_because: str | None = None
    looked_up_because: str | None = None
    anew_because: str | None = None
