"""Texts of terms that stay, apart from those that come and go.

Python copies a mapping whenever so many entries as it has room for came and went: with the terms of a table
of a million rows in it that takes a tenth of a second. So their texts are kept here.
"""

from __future__ import annotations

from collections.abc import Iterable

SETTLED_FROM = 50_000
"""Rows of a table from which on terms are settled; an element that brings one of them costs a little more."""


class SettledTexts:
    """Texts and ids that were moved here from two mappings, and back.

    Who reads meanwhile, in another thread, finds them here or there: what moves is in both first.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, term_ids: Iterable[int], ids: dict[str, int], texts: dict[int, str]) -> None:
        """Move ids here, those that are there."""
        new = {each: text for each in term_ids if (text := texts.get(each)) is not None}
        self.texts.update(new)
        self.ids.update(zip(new.values(), new, strict=True))
        for term_id, text in new.items():
            del ids[text], texts[term_id]

    def give_back(self, term_id: int, ids: dict[str, int], texts: dict[int, str]) -> None:
        """Move an id back, if it is here."""
        if (text := self.texts.get(term_id)) is not None:
            texts[term_id], ids[text] = text, term_id
            del self.texts[term_id], self.ids[text]


class TextsById(dict[int, str]):
    """Texts by id; those that are settled are read there."""

    def __init__(self, settled: SettledTexts) -> None:
        super().__init__()
        self._settled = settled

    def __missing__(self, term_id: int) -> str:
        # It may have come back between two looks.
        text = self._settled.texts.get(term_id) or self.get(term_id)
        if text is None:
            raise KeyError(f"term id {term_id} is unbound or was forgotten")
        return text
