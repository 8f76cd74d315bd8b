"""Where changes enter a plan from the store: the rows of a static part."""

from __future__ import annotations

from quadrill.store.dictionary import TermDictionary

from ..rows import EMPTY, Delta, Schema


class TableSource:
    """The rows of one static part; they change when the store does."""

    def __init__(self, schema: Schema, terms: TermDictionary) -> None:
        self.schema = schema
        self._terms = terms
        self.rows: Delta = {}

    def replace(self, rows: Delta) -> Delta:
        """Take the rows of another version of the store; the change. Their ids are pinned."""
        if not self.rows and not rows:
            return EMPTY
        change = {row: weight - self.rows.get(row, 0) for row, weight in rows.items()}
        change = {row: weight for row, weight in change.items() if weight}
        for row, weight in self.rows.items():
            if row not in rows:
                change[row] = -weight
        self._terms.pin(term_id for row in rows for term_id in row)
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows = rows
        return change

    def release(self) -> None:
        """Give the pinned ids back."""
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows = {}
