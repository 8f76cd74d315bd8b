"""What a table of a static part is, and how its rows were read, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra.canonical import CanonicalPattern
from ..algebra.columnar import EngineChoice
from ..algebra.nodes import Term


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """What makes static parts the same, or alike.

    Attributes:
        key: queries whose parts have an equal key share a table.
        kind: equal for parts that differ in constants alone.
        lifted: the part without these constants; None where none can be lifted out of it.
        constants: the lifted constants, in the store's form.
    """

    key: str = ""
    kind: str = ""
    lifted: CanonicalPattern | None = None
    constants: tuple[Term, ...] = ()


@dataclass(slots=True)
class RowsReading:
    """How all rows of a table were read the last time.

    Attributes:
        took_s: how long it took to evaluate them, in seconds.
        from_disk: the version at which they were written to disk, None when they were evaluated.
        choice: what evaluated them, and why; None without a columnar engine.
        anew_because: why they were read anew, with the figures; None when they never were.
        problem: why reading them anew failed, while it does.
    """

    took_s: float = 0.0
    from_disk: int | None = None
    choice: EngineChoice | None = None
    anew_because: str | None = None
    problem: str | None = None

    @property
    def origin(self) -> str:
        """Where the rows are from, for a person."""
        return "evaluated" if self.from_disk is None else f"read from disk at version {self.from_disk}"
