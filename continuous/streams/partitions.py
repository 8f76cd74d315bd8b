"""Event time of a stream by partition: the least of those that are not idle moves the watermark.

A partition is one of a Kafka topic, a topic of an MQTT subscription or a file, named by its source and
its own name. Direct pushes count as one partition more, with an empty name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inputs import NEVER

DIRECT = ""
_MOST = 1_000
"""Partitions of one stream; beyond, what comes under further names shares one."""


class Partitions:
    """The partitions of one stream. Guarded by the lock of the order.

    Attributes:
        times: by name the greatest event time of each, None before its first element.
        idle: the names of those that hold nothing back.
        heard: when something came of each, by the clock that never jumps.
        unread: the names of those whose source knows of unread records: these never become idle. No
            record of the journal keeps them; after a restart each source tells them anew.
        newest: the greatest event time of all that has come.
    """

    __slots__ = ("heard", "idle", "newest", "times", "unread")

    def __init__(self, newest: int | None) -> None:
        self.times: dict[str, int | None] = {}
        self.idle: set[str] = set()
        self.heard: dict[str, int] = {}
        self.unread: set[str] = set()
        self.newest = newest

    def seen(self, before: int | None) -> int:
        """Return what counts as the greatest event time seen, which never falls."""
        waiting = [at for name, at in self.times.items() if name not in self.idle]
        if None in waiting:
            least = NEVER
        elif waiting:
            least = min(at for at in waiting if at is not None)
        else:
            least = NEVER if self.newest is None else self.newest
        return least if before is None or least > before else before

    def move(self, name: str, at: int, before: int | None) -> int:
        """Take the greatest event time of a push; return what counts as seen then."""
        name = self._name(name)
        known = self.times.get(name)
        self.times[name] = at if known is None or at > known else known
        self.idle.discard(name)
        if self.newest is None or at > self.newest:
            self.newest = at
        return self.seen(before)

    def hear(self, name: str, steady: int) -> None:
        """Note that something came of a partition just now."""
        self.heard[self._name(name)] = steady

    def declare(self, prefix: str, waiting: Mapping[str, bool], steady: int) -> bool:
        """Take the partitions of one source, True for those with unread records; return True for a change."""
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
        """Mark partitions idle that were heard at ``until`` or before; return True when all are idle."""
        silent = {name for name in self.times if self.heard.get(name, until) <= until}
        self.idle |= silent - self.unread
        return len(self.idle) == len(self.times)

    def silent_since(self) -> int | None:
        """Return when the partition that becomes idle next was heard; None where none does."""
        waiting = self.times.keys() - self.idle - self.unread
        return min((self.heard.get(name, 0) for name in waiting), default=None)

    def begin_again(self, steady: int) -> None:
        """After a restart silence counts anew."""
        self.heard = dict.fromkeys(self.times, steady)

    def times_of(self, prefix: str) -> dict[str, int | None]:
        """Return the greatest event times of the partitions of one source, by their names in it."""
        return {name.removeprefix(prefix): at for name, at in self.times.items() if name.startswith(prefix)}

    def figures(self) -> list[Any]:
        """Return what a record of the journal and a checkpoint keep."""
        return [self.newest, [[name, at, name in self.idle] for name, at in self.times.items()]]

    @classmethod
    def restored(cls, figures: list[Any] | None) -> Partitions | None:
        """The partitions of `figures`; None of a stream without any."""
        if figures is None:
            return None
        newest, listed = figures
        made = cls(newest)
        made.times = {name: at for name, at, _ in listed}
        made.idle = {name for name, _, idle in listed if idle}
        return made

    def to_json(self) -> list[dict[str, Any]]:
        """The partitions as a description of their stream shows them."""
        return [
            {"partition": name or None, "newest": at, "idle": name in self.idle}
            for name, at in self.times.items()
        ]

    def holding(self) -> tuple[str, int | None] | None:
        """Return the name and time of the partition that holds the others back; None where none does."""
        waiting = [(at, name) for name, at in self.times.items() if name not in self.idle]
        if len(waiting) < 2:
            return None
        at, name = min(waiting, key=lambda each: NEVER if each[0] is None else each[0])
        return (name, at) if at is None or self.newest is None or at < self.newest else None

    def _name(self, name: str) -> str:
        """The name itself, or that of its source where there are too many."""
        return name if name in self.times or len(self.times) < _MOST else f"{name.partition('/')[0]}/"
