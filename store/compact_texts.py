"""Texts of terms that stay, apart from those that come and go.

Python copies a mapping whenever so many entries as it has room for came and went: with the terms of a table
of a million rows in it that takes a tenth of a second. So their texts are kept here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def in_front_of(compact: dict[K, V]) -> dict[K, V]:
    """An empty mapping that finds there what it misses, without a call of Python's own."""
    kind: type[dict[K, V]] = type("Front", (dict,), {"__missing__": compact.__getitem__})
    return kind()


class CompactTexts:
    """Texts and ids that were moved here from two mappings, and back; those are in front of these.

    Who reads meanwhile, in another thread, finds them here or there: what moves is in both first. What is in
    neither is asked of the mappings here.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        """Have ``ids``; the texts in ``front`` are made here."""
        self.ids = ids
        self.texts = _Texts()
        self.front: dict[int, str] = in_front_of(self.texts)
        self.texts.front = self.front

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


class _Texts(dict[int, str]):
    """Settled texts by id; one that is not in front of them either is unknown."""

    front: dict[int, str]

    def __missing__(self, term_id: int) -> str:
        # It may have come back between two looks.
        if (text := self.front.get(term_id)) is None:
            raise KeyError(f"term id {term_id} is unbound or was forgotten")
        return text
