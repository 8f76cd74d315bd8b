"""Dead letters: elements that were late or at which a query failed, and unreadable records, for a retry.

    late        an element below the watermark; `retry` admits the element as the late policy `admit` does
    failed      an element at which a query failed; `retry` restarts the query from the element's event time
    budget      an element at which a query exceeded its budget; `retry` is as for `failed`
    early       an element whose time was ahead of the clock; `retry` checks its time again
    shape       an element that did not conform to the shapes of its stream; `retry` validates it again
    unreadable  a record that the stream's mapping could not read, or whose time the stream refuses; `retry`
                decodes the record again

The number of dead letters of a stream and their memory, 64 KiB a letter on average, are bounded; the oldest
dead letters are evicted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from quadrill.store.documents.statements import lines_of, read_lines
from quadrill.store.pushes.decode import BadElement, EarlyElement, MisshapenElement
from quadrill.store.results import quads_text

from ..durable.tasks import weight_of
from ..inputs import Element

Reason = OneOf["late", "early", "failed", "budget", "shape", "unreadable"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: one stored element with the reason why it is stored, or one unreadable record.

    Attributes:
        query: the query that failed at the element; None for other reasons.
        entered: True if the element entered its stream nevertheless.
        name: the id of an unreadable record, or of an element without sequence number, within its stream;
            None for an element with a sequence number.
        record: the text of an unreadable record; None for an element.
        report: the validation report in Turtle of an element that does not conform; None for others.
    """

    element: Element
    reason: Reason
    query: str | None = None
    error: str | None = None
    entered: bool = False
    name: str | None = None
    record: str | None = None
    report: str | None = None

    @property
    def id(self) -> str:
        """The dead letter's id within its stream: the element's sequence number and the query that failed."""
        if self.name is not None:
            return self.name
        return str(self.element.seq) if self.query is None else f"{self.element.seq}:{self.query}"

    @property
    def weight(self) -> int:
        """The memory of a dead letter as a weight of about one per KiB."""
        return weight_of([self.element]) + (len(self.record or self.report or "") >> 10)

    def to_json(self) -> dict[str, Any]:
        """Return the dead letter as JSON for HTTP answers."""
        known: dict[str, Any] = {"id": self.id, "reason": self.reason, "query": self.query}
        known |= {"error": self.error, "entered": self.entered}
        if self.record is not None:
            return {**known, "seq": None, "at": None, "quads": "", "record": self.record}
        at, quads = self.element.event_time, quads_text(self.element.quads)
        if self.reason == "shape":
            return {**known, "seq": None, "at": at, "quads": quads, "report": self.report}
        return {**known, "seq": self.element.seq or None, "at": at, "quads": quads}


def unreadable(name: str, error: str, record: str, now: int) -> DeadLetter:
    """Return the dead letter of an unreadable record that arrived at ``now`` (milliseconds since 1970)."""
    return DeadLetter(Element((), now, 0), "unreadable", error=error, name=name, record=record)


def misshapen(name: str, error: str, report: str | None, lines: str, at: int) -> DeadLetter:
    """Return the dead letter of an element that does not conform to shapes.

    Args:
        name: the id of the letter.
        error: why the element does not conform.
        report: the validation report in Turtle, if there is one.
        lines: the quads of the element as N-Quads.
        at: the event time of the element, or its time of arrival, in milliseconds since 1970.
    """
    element = Element(read_lines(lines.encode()), at, 0)
    return DeadLetter(element, "shape", error=error, name=name, report=report)


def early(name: str, error: str, lines: str, at: int) -> DeadLetter:
    """Return the dead letter of an element that is ahead of the clock.

    Args:
        name: the id of the letter.
        error: by how much the element's time may be ahead, and what the time is.
        lines: the quads of the element as N-Quads.
        at: the event time of the element in milliseconds since 1970.
    """
    return DeadLetter(Element(read_lines(lines.encode()), at, 0), "early", error=error, name=name)


Change = OneOf["insert", "delete"]


@dataclass(slots=True, eq=False)
class DeadLetters:
    """The dead letters of one stream, oldest first.

    The lock of the input order guards a stream's dead letters.

    Attributes:
        watchers: callbacks that are called after a letter was added, retried or deleted, but not after an
            eviction.
    """

    _most: int
    _weight: int = 0
    # The stream's dead letters by id, oldest first.
    _letters: dict[str, DeadLetter] = field(default_factory=dict)
    watchers: set[Callable[[Change, DeadLetter], None]] = field(default_factory=set)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self._letters.values())

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: DeadLetter) -> None:
        """Store a dead letter, replacing a letter with the same id, and notify the watchers."""
        self._forget(letter.id)
        self._letters[letter.id] = letter
        self._weight += letter.weight
        while (kept := len(self._letters)) > self._most or (self._weight > 64 * self._most and kept > 1):
            self._forget(next(iter(self._letters)))
        self._tell("insert", letter)

    def keep_unread(
        self, bad: Sequence[BadElement], retried: DeadLetter | None, number: int, now: int
    ) -> dict[str, Any]:
        """Store the unreadable records of a push, and remove the dead letter that the push retries.

        ``number`` is the unique number of the push's journal record, and part of the new letters' ids.

        Returns:
            The members that the journal record of the push needs for a replay.
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

    def keep_early(self, elements: Sequence[EarlyElement], number: int) -> dict[str, Any]:
        """Store the elements of a push that are ahead of the clock; see `keep_unread`."""
        if not elements:
            return {}
        kept = [
            (f"e{number}.{place}", each.error, lines_of(each.element.statements), each.element.at or 0)
            for place, each in enumerate(elements)
        ]
        for letter in kept:
            self.add(early(*letter))
        return {"early": kept}

    def keep_misshapen(self, elements: Sequence[MisshapenElement], number: int, now: int) -> dict[str, Any]:
        """Store the elements of a push that do not conform to shapes; see `keep_unread`.

        Elements without a time get the time ``now``.
        """
        if not elements:
            return {}
        kept = [
            (
                f"s{number}.{place}",
                each.error,
                each.report,
                lines_of(each.element.statements),
                now if each.element.at is None else each.element.at,
            )
            for place, each in enumerate(elements)
        ]
        for letter in kept:
            self.add(misshapen(*letter))
        return {"misshapen": kept}

    def find(self, name: str) -> DeadLetter | None:
        """Return the dead letter with this id; None if no such letter is stored."""
        return self._letters.get(name)

    def dropped(self) -> list[Element]:
        """Return the late elements that did not enter the stream, in the order of their dead letters."""
        letters = list(self._letters.values())
        return [each.element for each in letters if each.reason == "late" and not each.entered]

    def remove(self, letters: Sequence[DeadLetter]) -> None:
        """Remove dead letters that were retried or deleted, and notify the watchers."""
        for letter in letters:
            self._forget(letter.id)
            self._tell("delete", letter)

    def remove_named(self, names: Iterable[str]) -> None:
        """Remove the dead letters with these ids; ids without a letter are ignored."""
        self.remove([self._letters[name] for name in names if name in self._letters])

    def restore(self, letters: Iterable[DeadLetter]) -> None:
        """Replace all dead letters of a stream by those of a checkpoint."""
        self._letters = {letter.id: letter for letter in letters}
        self._weight = sum(letter.weight for letter in self._letters.values())

    def _forget(self, name: str) -> None:
        letter = self._letters.pop(name, None)
        self._weight -= 0 if letter is None else letter.weight

    def _tell(self, change: Change, letter: DeadLetter) -> None:
        for tell in list(self.watchers):
            tell(change, letter)
