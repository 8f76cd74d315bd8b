"""Columnar form of statements about one subject, the form of most elements with several triples.

Elements with the same predicates in the same order have the objects that a window looks up at the same
indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias

Statement: TypeAlias = tuple[str, str, str, str]
"""Subject, predicate, object and graph of a quad in N-Quads syntax; the default graph is the empty text."""

MOST_KNOWN = 4096
"""Maximum number of cached lists of predicates, and of cached predicates."""
MOST_CHARACTERS = 4096
"""Maximum total length of the predicates of a columnar element; bounds the cache against hostile clients."""


class PredicateList:
    """An ordered list of predicates, one object for all elements with these predicates; compared by identity.

    Attributes:
        texts: the predicates.
        line_starts: each predicate followed by a space, as in a line after its subject.
        characters: total number of characters of the predicates.
        distinct: True if no predicate occurs twice, so that no two statements are equal.
        times_read: number of elements with these predicates that were read line by line.
    """

    __slots__ = ("characters", "distinct", "line_starts", "texts", "times_read")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self.line_starts = [f"{predicate} " for predicate in texts]
        self.characters = sum(map(len, texts))
        self.distinct = len(set(texts)) == len(texts)
        self.times_read = 0


class SubjectColumns(Sequence[Statement]):
    """Default-graph statements about one subject, stored as columns; equal to the tuple of statements."""

    __slots__ = ("characters", "objects", "predicates", "subject")

    def __init__(
        self, subject: str, predicates: PredicateList, objects: tuple[str, ...], characters: int
    ) -> None:
        """Store the columns of statements; ``characters`` is the total number of characters of all terms."""
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
    """Return the shared object for an ordered list of predicates; None if the predicates are too long."""
    known_list = _known.get(texts)
    if known_list is None:
        if sum(map(len, texts)) > MOST_CHARACTERS:
            return None
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known_list = _known.setdefault(texts, PredicateList(texts))
    return known_list


def as_columns(statements: Statements) -> Statements:
    """Return statements without duplicates, as columns if several statements have one subject."""
    if type(statements) is SubjectColumns and statements.predicates.distinct:
        return statements
    if len(statements) > 1:
        subjects, predicates, objects, graphs = zip(*statements, strict=True)
        known, alone = predicates_of(predicates), subjects.count(subjects[0]) == len(subjects)
        if known is not None and known.distinct and alone and not any(graphs):
            characters = sum(map(len, chain(subjects, predicates, objects)))
            return SubjectColumns(subjects[0], known, objects, characters)
    return tuple(dict.fromkeys(statements))
