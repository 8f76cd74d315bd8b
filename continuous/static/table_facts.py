"""Identity of a static part's table, and information about the last reading of its rows."""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra.canonical import CanonicalPattern
from ..algebra.columnar import EngineChoice
from ..algebra.nodes import Term


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """The identity of a static part, by which queries share tables.

    Attributes:
        key: a text; static parts with equal keys share a table.
        kind: a text that is equal for static parts that differ only in constants.
        lifted: the static part with its constants replaced by variables; None if no constant can be replaced.
        constants: the constants that were replaced, in the canonical form of the store.
    """

    key: str = ""
    kind: str = ""
    lifted: CanonicalPattern | None = None
    constants: tuple[Term, ...] = ()


@dataclass(slots=True)
class RowsReading:
    """Information about the last reading of all rows of a table.

    Attributes:
        took_s: the time in seconds that the evaluation of all rows took.
        from_disk: the version at which the rows were written to disk; None if the rows were evaluated.
        choice: the engine that evaluated the rows, and the reason; None without a columnar engine.
        reread_because: the reason, with figures, why all rows had to be read again; None if they were
            read once.
        problem: the reason why the last attempt to read all rows failed; None after a success.
    """

    took_s: float = 0.0
    from_disk: int | None = None
    choice: EngineChoice | None = None
    reread_because: str | None = None
    problem: str | None = None

    @property
    def origin(self) -> str:
        """The origin of the table's rows (evaluated, or read from disk), as text for users."""
        return "evaluated" if self.from_disk is None else f"read from disk at version {self.from_disk}"
