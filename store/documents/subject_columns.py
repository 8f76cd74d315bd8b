"""Statements about one subject as columns: most elements of several triples are that, a reading or a report.

What a window looks for in them is at the same places in all that have the same predicates in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias

Statement: TypeAlias = tuple[str, str, str, str]
"""Subject, predicate, object and graph of a quad, each as N-Quads writes it; the default graph is empty."""

MOST_KNOWN = 4096
"""So many lists of predicates, and so many predicates, are known at a time."""
MOST_CHARACTERS = 4096
"""Statements whose predicates are longer together are no columns: a client may send ever new ones."""


class PredicateList:
    """PredicateList in an order, one object for all statements that have these; equal only to itself.

    Attributes:
        texts: the predicates.
        line_starts: each with the space behind it, as a line begins behind its subject.
        characters: how long they are together.
        distinct: none is there twice, so that no two statements are the same.
        times_read: how many elements with them were read line by line.
    """

    __slots__ = ("characters", "distinct", "line_starts", "texts", "times_read")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self.line_starts = [f"{predicate} " for predicate in texts]
        self.characters = sum(map(len, texts))
        self.distinct = len(set(texts)) == len(texts)
        self.times_read = 0


class SubjectColumns(Sequence[Statement]):
    """Statements of the default graph about one subject: equal to a tuple of them, which is not made."""

    __slots__ = ("characters", "objects", "predicates", "subject")

    def __init__(
        self, subject: str, predicates: PredicateList, objects: tuple[str, ...], characters: int
    ) -> None:
        """Make them; ``characters``: how long the terms of all statements are together."""
        self.subject = subject
        self.predicates = predicates
        self.objects = objects
        self.characters = characters

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[Statement]:
        return zip(repeat(self.subject), self.predicates.texts, self.objects, repeat(""))

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, SubjectColumns) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


Statements: TypeAlias = tuple[Statement, ...] | SubjectColumns

_known: dict[tuple[str, ...], PredicateList] = {}


def predicates_of(texts: tuple[str, ...]) -> PredicateList | None:
    """The one object for predicates in their order; None where they are too long."""
    known_list = _known.get(texts)
    if known_list is None:
        if sum(map(len, texts)) > MOST_CHARACTERS:
            return None
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known_list = _known.setdefault(texts, PredicateList(texts))
    return known_list


def as_columns(statements: Statements) -> Statements:
    """Statements without one that is there twice, as columns where several are about one subject."""
    if type(statements) is SubjectColumns and statements.predicates.distinct:
        return statements
    if len(statements) > 1:
        subjects, predicates, objects, graphs = zip(*statements, strict=True)
        known, alone = predicates_of(predicates), subjects.count(subjects[0]) == len(subjects)
        if known is not None and known.distinct and alone and not any(graphs):
            characters = sum(map(len, chain(subjects, predicates, objects)))
            return SubjectColumns(subjects[0], known, objects, characters)
    return tuple(dict.fromkeys(statements))
