"""The rows of a static part that does not follow the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..element import Solution
from ..rows import Delta, difference

if TYPE_CHECKING:
    from ..windows.engine_terms import EngineTerms


class OwnTable:
    """The rows of a part that is read when its query asks: by hand, by a timer, or because of SERVICE."""

    def __init__(self, terms: EngineTerms) -> None:
        self._terms = terms.dictionary
        self._planning = terms.planning
        self.rows: Delta = {}
        self.count = 0

    def replace(self, rows: Sequence[Solution]) -> Delta:
        """Take the rows of another version; the change. Their ids are pinned."""
        ids = self._terms.ids
        fresh: Delta = {}
        with self._planning:
            for row in rows:
                encoded = tuple([0 if term is None else ids[term] for term in row])
                fresh[encoded] = fresh.get(encoded, 0) + 1
            self._terms.pin(term_id for row in fresh for term_id in row)
        change = difference(fresh, self.rows)
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows, self.count = fresh, len(rows)
        return change

    def release(self) -> None:
        """Give the pinned ids back."""
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows = {}
