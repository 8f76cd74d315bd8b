"""Event time of a stream by partition: the least event time of the active partitions advances the watermark.

A partition is a partition of a Kafka topic, a topic of an MQTT subscription or a file. The full name of a
partition consists of the name of its source and the name within the source. Direct pushes to a stream form
one further partition with an empty name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inputs import NEVER

DIRECT = ""
_MOST = 1_000
"""Maximum number of partitions of one stream; further partitions of a source share one partition."""


class Partitions:
    """The partitions of one stream. The lock of the input order guards a stream's partitions.

    Attributes:
        times: the greatest event time of each partition by name; None before the partition's first element.
        idle: the names of idle partitions, for which the watermark does not wait.
        heard: monotonic-clock time of the last element of each partition, in milliseconds.
        unread: the names of partitions with unread records, which never become idle. The journal does not
            record which partitions have unread records, because each source declares its partitions again
            after a restart.
        newest: the greatest event time over all partitions.
    """

    __slots__ = ("heard", "idle", "newest", "times", "unread")

    def __init__(self, newest: int | None) -> None:
        self.times: dict[str, int | None] = {}
        self.idle: set[str] = set()
        self.heard: dict[str, int] = {}
        self.unread: set[str] = set()
        self.newest = newest

    def seen(self, before: int | None) -> int:
        """Return the stream's event time: the least one of active partitions, but at least ``before``."""
        waiting = [at for name, at in self.times.items() if name not in self.idle]
        if None in waiting:
            least = NEVER
        elif waiting:
            least = min(at for at in waiting if at is not None)
        else:
            least = NEVER if self.newest is None else self.newest
        return least if before is None or least > before else before

    def move(self, name: str, at: int, before: int | None) -> int:
        """Record the greatest event time ``at`` of a push to a partition; return the stream's event time."""
        name = self._name(name)
        known = self.times.get(name)
        self.times[name] = at if known is None or at > known else known
        self.idle.discard(name)
        if self.newest is None or at > self.newest:
            self.newest = at
        return self.seen(before)

    def hear(self, name: str, steady: int) -> None:
        """Record that an element of a partition arrived at ``steady`` (monotonic-clock milliseconds)."""
        self.heard[self._name(name)] = steady

    def declare(self, prefix: str, waiting: Mapping[str, bool], steady: int) -> bool:
        """Replace the partitions of one source, whose names start with ``prefix``; return True on a change.

        ``waiting`` maps the names of the partitions to True if the partition has unread records.
        """
        before = list(self.times), set(self.idle)
        for name in [each for each in self.times if each.startswith(prefix) and each not in waiting]:
            del self.times[name]
            self.idle.discard(name)
            self.unread.discard(name)
            self.heard.pop(name, None)
        for name, unread in waiting.items():
            if name not in self.times and len(self.times) >= _MOST:
                continue
            if unread:
                self.unread.add(name)
            if name not in self.times or name in self.unread:
                self.heard[name] = steady
                self.idle.discard(name)
            if not unread:
                self.unread.discard(name)
            self.times.setdefault(name, None)
        return before != (list(self.times), self.idle)

    def expire(self, until: int) -> bool:
        """Mark partitions without elements since ``until`` idle; return True if all partitions are."""
        silent = {name for name in self.times if self.heard.get(name, until) <= until}
        self.idle |= silent - self.unread
        return len(self.idle) == len(self.times)

    def silent_since(self) -> int | None:
        """Return the last arrival time of the partition that becomes idle next; None if no partition will."""
        waiting = self.times.keys() - self.idle - self.unread
        return min((self.heard.get(name, 0) for name in waiting), default=None)

    def begin_again(self, steady: int) -> None:
        """Restart the idle time-outs of all partitions at ``steady``, after a restart of the server."""
        self.heard = dict.fromkeys(self.times, steady)

    def times_of(self, prefix: str) -> dict[str, int | None]:
        """Return the greatest event times of one source's partitions, by their names within the source."""
        return {name.removeprefix(prefix): at for name, at in self.times.items() if name.startswith(prefix)}

    def figures(self) -> list[Any]:
        """Return the partitions' event times and idleness as a list, for journal records and checkpoints."""
        return [self.newest, [[name, at, name in self.idle] for name, at in self.times.items()]]

    @classmethod
    def restored(cls, figures: list[Any] | None) -> Partitions | None:
        """Return the partitions that `figures` described; None for a stream without partitions."""
        if figures is None:
            return None
        newest, listed = figures
        made = cls(newest)
        made.times = {name: at for name, at, _ in listed}
        made.idle = {name for name, _, idle in listed if idle}
        return made

    def to_json(self) -> list[dict[str, Any]]:
        """Return the partitions as JSON for the description of their stream."""
        return [
            {"partition": name or None, "newest": at, "idle": name in self.idle}
            for name, at in self.times.items()
        ]

    def holding(self) -> tuple[str, int | None] | None:
        """Return the name and event time of the partition that delays the watermark, or None."""
        waiting = [(at, name) for name, at in self.times.items() if name not in self.idle]
        if len(waiting) < 2:
            return None
        at, name = min(waiting, key=lambda each: NEVER if each[0] is None else each[0])
        return (name, at) if at is None or self.newest is None or at < self.newest else None

    def _name(self, name: str) -> str:
        """Return the partition's name, or its source's shared partition if there are too many."""
        return name if name in self.times or len(self.times) < _MOST else f"{name.partition('/')[0]}/"
