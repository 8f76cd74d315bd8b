"""Fetch period of a remote source, and where the period comes from.

The fetch period is taken, in order of precedence, from the query or its registration, a description in the
data, or the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

By: TypeAlias = OneOf["query", "description", "setting"]


@dataclass(frozen=True, slots=True)
class Period:
    """The time between two fetches of a remote source.

    Attributes:
        every_ms: milliseconds between two fetches; None if the source is fetched on request only.
        by: where the period comes from: the query, a description in the data, or the setting.
    """

    every_ms: int | None
    by: By

    @property
    def urgency(self) -> tuple[bool, int]:
        """A sort key of fetch periods, which is least for the shortest period."""
        return self.every_ms is None, self.every_ms or 0
