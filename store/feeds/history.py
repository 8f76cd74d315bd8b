"""The history of a feed: its newest events, from which subscribers resume."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from .subscription import StoredEvent


class FeedHistory:
    """The newest published events of one feed, bounded by their number and their characters.

    The feed's lock guards it, except for reads of a single attribute.

    Attributes:
        limit: the maximum number of kept events.
        events: the kept events, oldest first.
        kept_characters: characters of the kept events.
        characters: characters of all events that were published so far.
        last_id: the newest published id, 0 before the first.
        epoch_id: the last id of the previous epoch, 0 in the first epoch.
        incomplete: True when the result log had lost events of the history; who resumes there gets a reset.
    """

    def __init__(self, limit: int, most_characters: int, epoch: int) -> None:
        """Begin empty; ids begin after ``epoch``, and the newest event is kept whatever its characters."""
        self.limit = limit
        self._most_characters = most_characters
        self.events: deque[StoredEvent] = deque()
        self.kept_characters = 0
        self.characters = 0
        self.last_id = self._dropped_to = epoch
        self.epoch_id = 0
        self.incomplete = False

    @property
    def earliest_id(self) -> int:
        """The oldest id that a subscriber can still get; the next id when no event is kept."""
        return self._dropped_to + 1

    def keep(self, events: Sequence[StoredEvent]) -> None:
        """Append published events; evict the oldest ones, and all events before a reset."""
        history, size = self.events, self.kept_characters
        self.characters -= size
        for event in events:
            number, kind, data = event
            if kind == "reset":
                history.clear()
                self.characters += size
                size, self.last_id, self._dropped_to = 0, self.epoch_id, self.epoch_id
                continue
            history.append(event)
            size += len(data)
            if number is not None:
                self.last_id = number
        self.characters += size
        while (kept := len(history)) > self.limit or (size > self._most_characters and kept > 1):
            dropped, _, data = history.popleft()
            size -= len(data)
            if dropped is not None:
                self._dropped_to = dropped
        self.kept_characters = size

    def restore(self, events: Sequence[StoredEvent], last_id: int) -> None:
        """Keep recovered events; ids go on after ``last_id`` when none of the events has an id."""
        self._dropped_to = next((event.id - 1 for event in events if event.id is not None), last_id)
        self.last_id = self._dropped_to
        self.keep(events)

    def reaches(self, after_id: int) -> bool:
        """True when a subscriber that has seen the events up to ``after_id`` can resume without a gap."""
        # The last event before a reset is of another epoch than the events after the reset.
        if 0 < after_id < self._dropped_to or 0 < after_id <= self.epoch_id:
            return False
        if after_id <= self._dropped_to:
            return True
        place = self._count_after(after_id - 1)
        return place > 0 and self.events[-place].id == after_id

    def after(self, after_id: int) -> list[StoredEvent]:
        """Return the kept events after ``after_id``: numbered ones by id, others by their place."""
        if not after_id:
            return list(self.events)
        number = self._count_after(after_id)
        while number and number < len(self.events) and self.events[-number - 1].id is None:
            number += 1
        return list(islice(reversed(self.events), number))[::-1]

    def _count_after(self, after_id: int) -> int:
        """Count the kept events from the first one whose id is greater."""
        number = 0
        for place, event in enumerate(reversed(self.events), 1):
            if event.id is not None:
                if event.id <= after_id:
                    break
                number = place
        return number
