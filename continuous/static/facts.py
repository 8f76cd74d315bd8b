"""What is told of static parts: their tables, look-ups and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..rows import Delta
from .columnar import Choice


@dataclass(frozen=True, slots=True)
class LookupReason:
    """A part that is looked up to keep to a limit, or for another reason that is no wish of the registration.

    ``rows`` is how many it has, None when that is not known; ``since_ms`` when it left memory.
    """

    rows: int | None
    since_ms: int
    why: str

    def after(self, change: Delta, *, known: bool) -> LookupReason:
        """The same behind a change of the part, which may not be known."""
        rows = None if self.rows is None or not known else self.rows + sum(change.values())
        return replace(self, rows=rows)


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
class GroupFacts:
    """The table of parts that differ in constants alone, of which a part's rows are a selection.

    ``name`` is None where there is none though there are such parts; ``reason`` says why. ``members`` are
    those parts, ``rows`` those of the table.
    """

    name: str | None
    members: int
    rows: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of the rows of a static part.

    ``follows``: each commit changes them by itself. ``shared_with``: the other queries that read the same
    table. ``behind``: the first version that is not in the rows yet, while they are read anew. ``problem``:
    why that failed. ``took_s``: how long it took to read all rows, in seconds. ``choice``: by whom, and why.
    ``from_disk``: the version at which the rows were written, when they were read from disk at the start.
    ``lookup``: the rows are looked up. ``held_because``: why they are held though a look-up was wished, or
    again; ``looked_up_because``: why they are not held; ``anew_because``: why a commit was not taken as
    deltas. ``used_ms``: when a query that reads them took an element last, on the engine's clock.
    ``group``: what they share with parts that differ in constants alone.
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
    used_ms: int | None = None
    group: GroupFacts | None = None


@dataclass(frozen=True, slots=True)
class StaticPart:
    """What `EXPLAIN` and the descriptions show of one static part."""

    name: str
    pattern: str
    variables: tuple[str, ...]
    facts: TableFacts

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.facts.rows

    @property
    def version(self) -> int:
        """The version of the store that they reflect."""
        return self.facts.version
