"""Texts of the terms of static tables, in mappings separate from those of short-lived terms.

Python copies a dict after as many insertions and deletions as the dict has room for; with the terms of a
table of a million rows, a copy takes 0.1 seconds. The texts of the terms of static tables are therefore
stored in separate dicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def in_front_of(compact: dict[K, V]) -> dict[K, V]:
    """Return an empty mapping of terms that looks up missing keys in ``compact`` without Python code."""
    kind: type[dict[K, V]] = type("Front", (dict,), {"__missing__": compact.__getitem__})
    return kind()


class CompactTexts:
    """Texts and ids of terms of static tables, moved from the dictionary's two mappings and moved back.

    Threads that read during a move find each entry, because a moved entry is in both mappings before it is
    deleted from one. A key missing in the term dictionary's mapping is looked up in the mapping of table
    terms.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        """Use ``ids`` as the mapping of table terms' ids; ``front`` is created for other terms' texts."""
        self.ids = ids
        self.texts = _Texts()
        self.front: dict[int, str] = in_front_of(self.texts)
        self.texts.front = self.front

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, term_ids: Iterable[int], ids: dict[str, int], texts: dict[int, str]) -> None:
        """Move the ids that exist, and their texts, from the given mappings to those of table terms."""
        new = {each: text for each in term_ids if (text := texts.get(each)) is not None}
        self.texts.update(new)
        self.ids.update(zip(new.values(), new, strict=True))
        for term_id, text in new.items():
            del ids[text], texts[term_id]

    def give_back(self, term_id: int, ids: dict[str, int], texts: dict[int, str]) -> None:
        """Move a table term's id and text back to the given mappings, if they were moved from there."""
        if (text := self.texts.get(term_id)) is not None:
            texts[term_id], ids[text] = text, term_id
            del self.texts[term_id], self.ids[text]


class _Texts(dict[int, str]):
    """Texts of static tables' terms by id; an id missing here and in the front mapping raises KeyError."""

    front: dict[int, str]

    def __missing__(self, term_id: int) -> str:
        # Another thread may have moved the text from this mapping of table terms back to the dictionary's own
        # mapping.
        if (text := self.front.get(term_id)) is None:
            raise KeyError(f"term id {term_id} is unbound or was forgotten")
        return text
