"""How often a source is fetched, and who says so.

the query or its registration  >  a description in the data  >  the setting
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

By: TypeAlias = OneOf["query", "description", "setting"]


@dataclass(frozen=True, slots=True)
class Period:
    """Time between two fetches.

    Attributes:
        every_ms: milliseconds, None for by hand only.
        by: who says so.
    """

    every_ms: int | None
    by: By

    @property
    def urgency(self) -> tuple[bool, int]:
        """The least is the most urgent."""
        return self.every_ms is None, self.every_ms or 0
