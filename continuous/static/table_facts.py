"""Identity of a static part's table, and facts about the last reading of its rows, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra.canonical import CanonicalPattern
from ..algebra.columnar import EngineChoice
from ..algebra.nodes import Term


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """The identity of a static part, for sharing tables between queries.

    Attributes:
        key: static parts with equal keys share a table.
        kind: equal for parts that differ only in constants.
        lifted: the part with its constants replaced by variables; None if no constant can be replaced.
        constants: the replaced constants, in the store's form.
    """

    key: str = ""
    kind: str = ""
    lifted: CanonicalPattern | None = None
    constants: tuple[Term, ...] = ()


@dataclass(slots=True)
class RowsReading:
    """Facts about the last reading of all rows of a table.

    Attributes:
        took_s: seconds that the evaluation of all rows took.
        from_disk: the version at which the rows were written to disk; None if the rows were evaluated.
        choice: the engine that evaluated the rows, and the reason; None without a columnar engine.
        anew_because: why the rows had to be read again, with figures; None if they were read only once.
        problem: why the last attempt to read the rows again failed; None after a success.
    """

    took_s: float = 0.0
    from_disk: int | None = None
    choice: EngineChoice | None = None
    anew_because: str | None = None
    problem: str | None = None

    @property
    def origin(self) -> str:
        """The origin of the rows as text for a description."""
        return "evaluated" if self.from_disk is None else f"read from disk at version {self.from_disk}"
