"""The steps that a query has before it: what its tables took and it has not, and where rows are not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..rows import IdRow
from .changes import TableChange
from .table import Table

Changes = Mapping[int, TableChange]
"""By the place of the static part."""


@dataclass(frozen=True, slots=True)
class StaticStep:
    """The static parts move to a version, all together.

    ``at_ms`` is the wall clock time of its commit; ``before`` a version with the rows as they were.
    """

    version: int
    before: int
    at_ms: int
    changes: Changes


@dataclass(slots=True)
class _Gap:
    """Versions at which a table's rows are not known: from ``start`` to before ``end``, when there is one."""

    start: int
    end: int | None = None


@dataclass(slots=True)
class _Step:
    at_ms: int
    changes: dict[int, TableChange] = field(default_factory=dict)


class Steps:
    """Filled in the engine's thread by the tables of a query, taken by the query.

    Attributes:
        reached: the newest version that the query has taken.
        ahead: the steps that wait, by version.
        unknown: the versions at which rows of a table are not known.
        stepping: True while steps are being taken.
    """

    def __init__(self) -> None:
        self.reached = -1
        self.ahead: dict[int, _Step] = {}
        self.unknown: dict[Table, list[_Gap]] = {}
        self.stepping = False

    def __bool__(self) -> bool:
        """True when a step waits or is being taken, or rows are not known."""
        return bool(self.stepping or self.ahead or self.unknown)

    @property
    def gaps(self) -> frozenset[tuple[int, int | None]]:
        """Versions at which some rows are not known: from one to before another, or to no known end."""
        return frozenset((each.start, each.end) for gaps in self.unknown.values() for each in gaps)

    def is_behind(self, table: Table) -> bool:
        """True while the rows of a table are not known at some version that has passed."""
        return table in self.unknown

    # --- what tables tell -----------------------------------------------------------------------

    def took(self, version: int, at_ms: int, places: Iterable[int], change: TableChange) -> None:
        """The table at these places is at a version now."""
        step = self.ahead.setdefault(version, _Step(at_ms))
        _collect(step.changes, dict.fromkeys(places, change))

    def fell_behind(self, table: Table, version: int) -> None:
        """The rows of a table are not known from a version on."""
        self.unknown.setdefault(table, []).append(_Gap(version))

    def caught_up(self, table: Table, version: int) -> None:
        """Mark the rows as known from this version on."""
        self.unknown[table][-1].end = version

    # --- what waits -----------------------------------------------------------------------------

    def untaken(self, place: int) -> TableChange:
        """What the table of a part is ahead of the query."""
        found = TableChange({})
        for version in sorted(self.ahead):
            change = self.ahead[version].changes.get(place)
            if change is not None:
                found = found.then(change)
        return found

    def rows_ahead(self, place: int) -> int:
        """How many rows more the table of a part has; called in any thread."""
        waiting = [step.changes[place] for step in list(self.ahead.values()) if place in step.changes]
        return sum(sum(change.delta.values()) for change in waiting)

    def waiting(self) -> Iterator[IdRow]:
        """The rows of steps that the query has not taken, read in pieces while steps come and go."""
        for step in list(self.ahead.values()):
            for change in list(step.changes.values()):
                yield from list(change.delta)

    # --- taking them ----------------------------------------------------------------------------

    def ready(self, passed: Callable[[], int]) -> Iterator[StaticStep]:
        """See `StaticInputs.ready`; ``passed`` tells the newest version whose turn has come."""
        self.stepping = True
        try:
            together: list[int] = []
            for version in sorted(self.ahead):
                together.append(version)
                gap = self._gap_at(version)
                if gap is None:
                    first, steps = together[0], [self.ahead.pop(each) for each in together]
                    together = []
                    changes: dict[int, TableChange] = {}
                    for step in steps:
                        _collect(changes, step.changes)
                    before = self._known_before(first)
                    self.reached = version
                    yield StaticStep(version, before, steps[-1].at_ms, changes)
                elif gap.end is None:
                    break
        finally:
            self.stepping = False
        self._forget_gaps()
        self.reached = max(self.reached, self._known_before(passed() + 1))

    def put_back(self, step: StaticStep) -> None:
        """A step was not taken after all: it is the next one again."""
        self.ahead[step.version] = _Step(step.at_ms, dict(step.changes))
        self.reached = step.before

    def _known_before(self, version: int) -> int:
        """The newest version before one at which all rows are known."""
        version -= 1
        while (gap := self._gap_at(version)) is not None:
            version = gap.start - 1
        return version

    def _gap_at(self, version: int) -> _Gap | None:
        """A gap around the version, an open one first."""
        around = [
            gap
            for gaps in self.unknown.values()
            for gap in gaps
            if gap.start <= version and (gap.end is None or version < gap.end)
        ]
        return min(around, key=lambda gap: (gap.end is not None, gap.start), default=None)

    def _forget_gaps(self) -> None:
        """Gaps that lie behind the query."""
        oldest = min(self.ahead, default=None)
        for table, gaps in list(self.unknown.items()):
            left = [gap for gap in gaps if gap.end is None or (oldest is not None and gap.end >= oldest)]
            if left:
                self.unknown[table] = left
            else:
                del self.unknown[table]


def _collect(into: dict[int, TableChange], changes: Changes) -> None:
    """Add changes to earlier ones; nobody changes those that tables gave."""
    for place, change in changes.items():
        earlier = into.get(place)
        into[place] = change if earlier is None else earlier.then(change)
