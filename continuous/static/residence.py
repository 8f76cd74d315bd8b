"""Which static parts are in memory: the least recently used leave it, those that are used come back.

    over max_static_rows          the tables that no query used for longest, of those that can be looked up
    over max_query_static_rows    the largest parts of that query that can
    looked up, and asked often    read again where there is room, or tables can leave that nobody uses

A part moves in a turn of its own, between two steps of its query, and what the query tells is the same in
memory or not. The journal has the turn, because a large commit comes later to a table, which is read anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from quadrill.store.errors import QuadrillError

from ..clock import Clock
from ..errors import EngineStoppedError
from ..queries.running import RunningQuery
from .base import MemberTable
from .facts import LookupReason
from .static_inputs import StaticInputs
from .table import SharedTable, Table
from .table_registry import TableRegistry, can_leave

if TYPE_CHECKING:
    from ..scheduler.sequencer import Sequencer

log = logging.getLogger("quadrill.continuous")

CHECK_MS = 200
"""Between two looks at the limits."""
LOOK_MS = 10_000
"""Between two looks at how often parts that left are asked for."""
RETURN_MISSES = 100
"""So many keys that were not remembered, between two looks, are worth a table."""
IDLE_MS = 60_000
"""A table that no query used for so long makes room for one that is used."""
AGAIN_MS = 600_000
"""A part that could not come back is tried again after this time."""


class Movable(Protocol):
    """An evaluator whose static parts can leave memory."""

    def look_up(self, place: int, left: LookupReason) -> bool:
        """See `native.NativeEvaluator.look_up`."""
        ...

    def hold(self, place: int, table: Table) -> bool:
        """See `native.NativeEvaluator.hold`."""
        ...


class Residence:
    """Moves static parts of one engine; `look` is called in the engine's thread between inputs.

    Attributes:
        left: how many parts have left memory.
        returned: how many have come back.
    """

    def __init__(
        self,
        statics: TableRegistry,
        running: Callable[[], list[RunningQuery]],
        turns: Sequencer,
        clock: Clock,
        part: Callable[[RunningQuery], None],
        *,
        threaded: bool,
    ) -> None:
        """Watch over the tables of ``statics``, which the queries of ``running`` read.

        ``part`` lets a query that is evaluated with others go on alone.
        """
        self._statics = statics
        self._running = running
        self._sequencer = turns
        self._clock = clock
        self._part = part
        self._threaded = threaded
        # Parts whose turn is due or whose rows are being read.
        self._moving: set[tuple[str, int]] = set()
        self._reading: threading.Thread | None = None
        self._next_check_ms = 0
        self._next_ms = 0
        self._misses: dict[tuple[str, int], int] = {}
        self._not_before: dict[tuple[str, int], int] = {}
        self.left = 0
        self.returned = 0

    def look(self) -> None:
        """Let tables leave that are over a limit, and now and then let parts come back that are used."""
        budget = self._statics.budget
        now = self._clock.steady_ms()
        if not (budget.most or budget.most_of_query) or now < self._next_check_ms:
            return
        self._next_check_ms = now + CHECK_MS
        for running in self._running():
            # Of those that are evaluated with others it is not noted all the time when they were used.
            running.settle()
        if budget.most and (rows := self._statics.rows()) > budget.most:
            why = f"least recently used when the static parts had {rows} rows, the limit is {budget.most}"
            self._make_room(rows - budget.most, why)
        if budget.most_of_query:
            self._keep_to_limits_of_queries(budget.most_of_query)
        if now >= self._next_ms:
            self._next_ms = now + LOOK_MS
            self._let_return(now)

    def repeat(self, running: RunningQuery, members: Mapping[str, Any]) -> None:
        """In a replay, at the turn in which a part moved."""
        if members["how"] == "lookup":
            self._look_up(running, members["place"], LookupReason(*members["left"]))
        else:
            assert running.statics is not None
            table = running.statics.read_again(members["place"], limited=False)
            if _movable(running).hold(members["place"], table):
                running.statics.came_back(members["place"], members.get("why"))

    # --- leaving --------------------------------------------------------------------------------

    def _make_room(self, rows: int, why: str) -> None:
        """Have tables leave that have so many rows together, or as many as can, oldest use first."""
        leaving = sorted(
            (table for table in self._statics.held() if can_leave(table)),
            key=lambda table: (table.used_ms, table.name),
        )
        for table in leaving:
            if rows <= 0:
                return
            rows -= table.count
            for each in table.told:
                for reader in list(each.readers):
                    for place in reader.places_of(each):
                        self._leave(reader.name, place, each.count, why)

    def _keep_to_limits_of_queries(self, most: int) -> None:
        for running in self._running():
            statics = running.statics
            if statics is None or not statics.begun:
                continue
            tables = [
                (table.count, place, table)
                for place, table in enumerate(statics.tables)
                if isinstance(table, SharedTable | MemberTable) and place not in statics.looked_up
            ]
            rows = sum(count for count, _, _ in tables)
            for count, place, table in sorted(tables, key=lambda each: (-each[0], each[1])):
                if rows <= most:
                    break
                if statics.why_held(table) is None:
                    rows -= count
                    why = f"the static parts of the query had more rows than its limit of {most}"
                    self._leave(running.name, place, count, why)

    def _leave(self, name: str, place: int, rows: int, why: str) -> None:
        left = LookupReason(rows, self._clock.now_ms(), why)
        self._submit(
            {"name": name, "place": place, "how": "lookup", "left": [left.rows, left.since_ms, left.why]},
            lambda running: running is not None and self._look_up(running, place, left),
        )

    def _look_up(self, running: RunningQuery, place: int, left: LookupReason) -> bool:
        # It comes back to its template when the part does.
        self._part(running)
        return _movable(running).look_up(place, left)

    # --- coming back ----------------------------------------------------------------------------

    def _let_return(self, now: int) -> None:
        """The part that is asked for most, if it is asked for often and there is room for it."""
        asked: list[tuple[int, StaticInputs, int, LookupReason]] = []
        seen: dict[tuple[str, int], int] = {}
        for statics, place, left in self._parts_that_left():
            key = (statics.name, place)
            seen[key] = sum(each.asked - each.found for each in statics.lookups(place))
            misses = seen[key] - self._misses.get(key, 0)
            if misses >= RETURN_MISSES and self._not_before.get(key, 0) <= now:
                asked.append((misses, statics, place, left))
        self._misses = seen
        self._not_before = {key: at for key, at in self._not_before.items() if key in seen}
        busy = self._reading is not None and self._reading.is_alive()
        if not asked or busy or self._moving:
            return
        misses, statics, place, left = max(asked, key=lambda each: (each[0], each[1].name, each[2]))
        if self._has_room(statics, left.rows or 0):
            why = f"{misses} keys that were not remembered were asked of the store within {LOOK_MS // 1000} s"
            self._read(statics, place, why)

    def _parts_that_left(self) -> Iterator[tuple[StaticInputs, int, LookupReason]]:
        for running in self._running():
            if running.statics is not None and running.state == "running":
                for place, left in list(running.statics.left.items()):
                    yield running.statics, place, left

    def _has_room(self, statics: StaticInputs, rows: int) -> bool:
        """True when so many rows fit; tables that nobody uses are asked to leave where that helps."""
        budget = self._statics.budget
        if budget.most_of_query and statics.row_count() + rows > budget.most_of_query:
            return False
        over = self._statics.rows() + rows - budget.most
        if not budget.most or over <= 0:
            return True
        idle = self._clock.now_ms() - IDLE_MS
        free = sum(each.count for each in self._statics.held() if can_leave(each) and each.used_ms < idle)
        if free < over:
            return False
        # They are the first to go; the next look finds the room.
        self._make_room(over, "least recently used when another static part was asked for often")
        return False

    def _read(self, statics: StaticInputs, place: int, why: str) -> None:
        key = (statics.name, place)
        self._moving.add(key)

        def read() -> None:
            try:
                table = statics.read_again(place, limited=True)
            except Exception as error:
                self._moving.discard(key)
                self._not_before[key] = self._clock.steady_ms() + AGAIN_MS
                if not isinstance(error, QuadrillError):
                    log.exception("the static part %d of %s stays looked up", place, statics.name)
                return
            self._moving.discard(key)

            def hold(running: RunningQuery | None) -> bool:
                if running is None or running.statics is not statics:
                    self._statics.release(table)
                    return False
                if not _movable(running).hold(place, table):
                    return False
                statics.came_back(place, why)
                return True

            self._submit({"name": statics.name, "place": place, "how": "table", "why": why}, hold)

        if not self._threaded:
            read()
            return
        self._reading = threading.Thread(target=read, name="quadrill-static-return", daemon=True)
        self._reading.start()

    # --- turns ----------------------------------------------------------------------------------

    def _submit(self, members: dict[str, Any], move: Callable[[RunningQuery | None], bool]) -> None:
        """Have a part move in its turn, if its query still runs then."""
        key = (members["name"], members["place"])
        if key in self._moving:
            return
        self._moving.add(key)

        def work() -> None:
            self._moving.discard(key)
            running = (each for each in self._running() if each.name == key[0] and each.state != "failed")
            if not move(next(running, None)):
                return
            self._sequencer.note_moved()
            if members["how"] == "lookup":
                self.left += 1
            else:
                self.returned += 1

        try:
            self._sequencer.submit("static", members, work)
        except EngineStoppedError:
            self._moving.discard(key)


def _movable(running: RunningQuery) -> Movable:
    return cast(Movable, running.evaluator)
