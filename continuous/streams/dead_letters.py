"""Dead letters: elements of a stream that did not get where they should, kept to be tried again.

    late        behind the watermark; `retry` lets it enter as the late policy `admit` does
    failed      a query failed when it was evaluated; `retry` begins that query anew from its time on
    budget      the same of one that cost more than it may
    unreadable  a record that the stream's mapping could not read, or whose time the stream refuses; `retry`
                reads it once more

A bounded number is kept for each stream, and bounded memory, 64 KiB a letter on average; the oldest go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from quadrill.store.pushes.decode import BadElement
from quadrill.store.results import quads_text

from ..durable.tasks import weight_of
from ..inputs import Element

Reason = OneOf["late", "failed", "budget", "unreadable"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One element that is kept. ``entered`` says that it is in the stream all the same (policy `admit`).

    Of a record that could not be read ``record`` is the text and ``name`` tells it from others.
    """

    element: Element
    reason: Reason
    query: str | None = None
    error: str | None = None
    entered: bool = False
    name: str | None = None
    record: str | None = None

    @property
    def id(self) -> str:
        """Its name in its stream: the element's seq, and the query that failed."""
        if self.name is not None:
            return self.name
        return str(self.element.seq) if self.query is None else f"{self.element.seq}:{self.query}"

    @property
    def weight(self) -> int:
        """What it counts for: one for each KiB."""
        return weight_of([self.element]) + (len(self.record or "") >> 10)

    def to_json(self) -> dict[str, Any]:
        """The letter as it is shown."""
        known: dict[str, Any] = {"id": self.id, "reason": self.reason, "query": self.query}
        known |= {"error": self.error, "entered": self.entered}
        if self.record is not None:
            return {**known, "seq": None, "at": None, "quads": "", "record": self.record}
        at, quads = self.element.event_time, quads_text(self.element.quads)
        return {**known, "seq": self.element.seq, "at": at, "quads": quads}


def unreadable(name: str, error: str, record: str, now: int) -> DeadLetter:
    """The letter of a record that could not be read, which came at a time in milliseconds."""
    return DeadLetter(Element((), now, 0), "unreadable", error=error, name=name, record=record)


Change = OneOf["insert", "delete"]


@dataclass(slots=True, eq=False)
class DeadLetters:
    """The letters of one stream, oldest first. Guarded by the engine's ingest lock.

    Attributes:
        watchers: are told of what comes and goes.
    """

    _most: int
    _weight: int = 0
    # By name, in the order in which they came.
    _letters: dict[str, DeadLetter] = field(default_factory=dict)
    watchers: set[Callable[[Change, DeadLetter], None]] = field(default_factory=set)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self._letters.values())

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter; one of the same name is replaced."""
        self._forget(letter.id)
        self._letters[letter.id] = letter
        self._weight += letter.weight
        while (kept := len(self._letters)) > self._most or (self._weight > 64 * self._most and kept > 1):
            self._forget(next(iter(self._letters)))
        self._tell("insert", letter)

    def keep_unread(
        self, bad: Sequence[BadElement], retried: DeadLetter | None, number: int, now: int
    ) -> dict[str, Any]:
        """Keep the bad records of a push and forget one that is tried again; members of the push's record.

        ``number`` is that of the record, which nothing else has.
        """
        members: dict[str, Any] = {}
        if retried is not None:
            self.remove([retried])
            members["retried"] = retried.id
        texts = [(each.error, each.text) for each in bad if each.text is not None]
        if texts:
            members["unreadable"] = [(f"r{number}.{place}", *each, now) for place, each in enumerate(texts)]
            for each in members["unreadable"]:
                self.add(unreadable(*each))
        return members

    def find(self, name: str) -> DeadLetter | None:
        """The letter of a name."""
        return self._letters.get(name)

    def dropped(self) -> list[Element]:
        """The elements that came late and did not enter, in their order."""
        letters = list(self._letters.values())
        return [each.element for each in letters if each.reason == "late" and not each.entered]

    def remove(self, letters: Sequence[DeadLetter]) -> None:
        """Forget letters that were tried again or dropped."""
        for letter in letters:
            self._forget(letter.id)
            self._tell("delete", letter)

    def remove_named(self, names: Iterable[str]) -> None:
        """Forget the letters of these names that are kept."""
        self.remove([self._letters[name] for name in names if name in self._letters])

    def restore(self, letters: Iterable[DeadLetter]) -> None:
        """The letters of a checkpoint."""
        self._letters = {letter.id: letter for letter in letters}
        self._weight = sum(letter.weight for letter in self._letters.values())

    def _forget(self, name: str) -> None:
        letter = self._letters.pop(name, None)
        self._weight -= 0 if letter is None else letter.weight

    def _tell(self, change: Change, letter: DeadLetter) -> None:
        for tell in list(self.watchers):
            tell(change, letter)
