"""Data frames that show the current answer of a continuous query, kept up to date by a thread."""

from __future__ import annotations

import asyncio
import contextlib
import html
import threading
import time
import weakref
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .answers import Answer, FeedEvent
from .async_sender import AsyncSender
from .calls import ConnectionOptions, one_query
from .errors import QuadrillError
from .live_answer import FAILED, LiveAnswer, refusal
from .resuming import PASSING, FeedPlace

if TYPE_CHECKING:
    import pandas

    from .widgets import LiveChart, LiveTable


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAIR_S = 0.05
"""Seconds that a ``delete`` event waits for the ``insert`` event of the same evaluation."""
_REFRESH_S = 0.1
"""Minimum seconds between two refreshes of the widgets of one data frame."""
_SHOWN = 20
"""Maximum number of rows in the HTML form of a data frame."""


class _Follower:
    """A thread that follows the feed of one query and applies its events to an answer.

    Attributes:
        lock: guards ``content``, ``error`` and ``ended``; notified after each change of them.
        content: the rows after the newest event.
        error: the error that ended the thread, or that the query has failed; else None.
        ended: True after the query was dropped or the thread was closed.
        begun: set after the first answer, or when it is known that none comes soon.
        views: widgets that are refreshed after changes.
    """

    def __init__(self, url: str, options: ConnectionOptions, name: str, max_rows: int) -> None:
        self._name = name
        self._sender = AsyncSender(url, options)
        self.lock = threading.Condition()
        self.content = LiveAnswer(name, max_rows)
        self.error: Exception | None = None
        self.ended = False
        self.views: weakref.WeakSet[LiveTable | LiveChart] = weakref.WeakSet()
        self.begun = threading.Event()
        self._held: FeedEvent | None = None
        self._refreshing = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"live {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and its connection; the content stays."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed already
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def newest_id(self, timeout: float) -> int:
        """Return the id of the newest event that the server has.

        Raises:
            QuadrillError: the server cannot be reached, or the query was dropped.
            TimeoutError: the server did not respond within ``timeout`` seconds.
        """
        description = asyncio.run_coroutine_threadsafe(self._describe(), self._loop)
        return int(description.result(timeout)["feed"]["last_id"])

    async def _describe(self) -> dict[str, Any]:
        return await self._sender.json(one_query("GET", self._name))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            error = None
            try:
                runner.run(self._follow())
            except asyncio.CancelledError:
                pass
            except Exception as caught:
                error = caught
            with self.lock:
                self.error, self.ended = error or self.error, True
                self.lock.notify_all()
            self.begun.set()
            self._show()

    async def _follow(self) -> None:
        """Follow the feed until the query is dropped, over lost connections and replaced queries."""
        self._task = asyncio.current_task()
        place = FeedPlace(None)
        try:
            while True:
                try:
                    if not await self._follow_query():
                        return
                    place.connected()
                except QuadrillError as error:
                    passing = error.code == "unreachable" or error.status in PASSING
                    if not (self.begun.is_set() and passing):
                        raise
                await asyncio.sleep(place.wait_s())
        finally:
            if self._held is not None:
                self._release(self._held)
            await self._sender.close()

    async def _follow_query(self) -> bool:
        """Apply the events of the present query's feed; return True once another query has its name."""
        description = await self._describe()
        reason = refusal(description)
        if reason is not None:
            raise ValueError(reason)
        with self.lock:
            self.content.columns = list(description.get("columns", ()))
            if description["state"] == "failed":
                self.error = self.content.failure(description["error"])
        if description["state"] != "running":
            self.begun.set()  # the first event may be long in coming
        events = self._sender.feed(self._name, resume=None, snapshot="always", progress=True)
        async with contextlib.aclosing(events):
            async for event in events:
                if event.kind == "reset":
                    return True
                self._take(event)
        return False

    def _take(self, event: FeedEvent) -> None:
        """Apply an event; a ``delete`` event is applied together with the next event."""
        held, self._held = self._held, None
        if event.kind == "delete":
            self._held = event
            self._loop.call_later(_PAIR_S, self._release, event)
            if held is not None:
                self._apply(held)
        elif held is None:
            self._apply(event)
        else:
            self._apply(held, event)

    def _release(self, event: FeedEvent) -> None:
        """Apply a ``delete`` event that still waits for the ``insert`` event of its evaluation."""
        if self._held is event:
            self._held = None
            try:
                self._apply(event)
            except QuadrillError:  # which `_apply` has stored
                if self._task is not None:
                    self._task.cancel()

    def _apply(self, *events: FeedEvent) -> None:
        with self.lock:
            self.error = None
            try:
                for event in events:
                    self.content.take(event)
            except QuadrillError as error:
                self.error = error
                if error.code != FAILED:
                    raise
            finally:
                self.lock.notify_all()
        self.begun.set()
        if not self._refreshing and self.views:
            self._refreshing = True
            self._loop.call_later(_REFRESH_S, self._show)

    def _show(self) -> None:
        self._refreshing = False
        for view in list(self.views):
            view.refresh()


class LiveFrame:
    """The current answer of one continuous query as a data frame; methods may be called from any thread.

    A thread follows the feed of the query, over lost connections and restarts of the server. It ends with
    `close`, with a ``with`` block, or when the object is deleted. In a notebook, the object shows itself as
    a table. Attributes and methods that read the answer raise QuadrillError if the query has failed, or if
    the thread has ended with an error.

    Attributes:
        name: name of the query.
    """

    def __init__(self, url: str, options: ConnectionOptions, name: str, max_rows: int) -> None:
        """Start the thread and wait for the first answer.

        Raises:
            ValueError: the feed of the query does not give its current answer.
            QuadrillError: the server cannot be reached, or has no query with this name.
        """
        self.name = name
        self._follower = _Follower(url, options, name, max_rows)
        self._finalizer = weakref.finalize(self, self._follower.close)
        begun = self._follower.begun.wait(options.timeout)
        if self._follower.ended and self._follower.error is not None:
            raise self._follower.error
        if not begun:
            self.close()
            raise QuadrillError(f"the feed of {name} had no answer in {options.timeout:g} seconds")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop following the feed; the data frame stays as it is."""
        self._finalizer()

    @property
    def answer(self) -> Answer:
        """The rows of the current answer, and its time."""
        with self._follower.lock:
            if self._follower.error is not None:
                raise self._follower.error
            return self._follower.content.answer()

    @property
    def frame(self) -> pandas.DataFrame:
        """The rows of the current answer as a new pandas data frame."""
        return self.answer.to_pandas()

    @property
    def last_id(self) -> int:
        """Id of the newest event of the feed that the answer contains; 0 before the first event."""
        return self._follower.content.last_id

    @property
    def ended(self) -> bool:
        """True after `close`, after an error, and after the query was dropped: the answer stays as it is."""
        return self._follower.ended

    def wait(self, event_id: int | None = None, *, timeout: float = 10.0) -> bool:
        """Wait until the answer contains an event of the feed; return False after ``timeout`` seconds.

        Args:
            event_id: id of the event; None for the newest event that the server has now.
            timeout: maximum number of seconds to wait.

        Raises: QuadrillError if the server cannot say which event is the newest.
        """
        follower, end = self._follower, time.monotonic() + timeout
        wanted = event_id
        if wanted is None:
            try:
                wanted = follower.content.last_id if follower.ended else follower.newest_id(timeout)
            except TimeoutError:
                return False
        with follower.lock:
            follower.lock.wait_for(
                lambda: follower.content.last_id >= wanted or follower.ended, end - time.monotonic()
            )
            return follower.content.last_id >= wanted

    # --- notebooks ------------------------------------------------------------------------------

    def table(self, *, rows: int = 100) -> LiveTable:
        """Return a table for notebooks, which shows the first ``rows`` rows and follows the answer."""
        from .widgets import LiveTable

        return LiveTable(self, self._follower.views, rows)

    def chart(self, y: str, *, x: str | None = None, by: str | None = None, points: int = 500) -> LiveChart:
        """Return a line chart for notebooks, which follows the answer.

        Args:
            y: column of numbers.
            x: column of numbers or times; None for the event time: each line then gets a point when the
                answer changes, at most ten in a second.
            by: column with one line for each of its values, at most 20.
            points: maximum number of points in each line; older points are left out.
        """
        from .widgets import LiveChart

        return LiveChart(self, self._follower.views, y, x, by, points)

    def caption(self) -> str:
        """Return the query's name, the number of rows, the newest event and its time as one line."""
        content = self._follower.content
        parts = [self.name, f"{content.total:,} row{'' if content.total == 1 else 's'}"]
        if content.last_id:
            parts.append(f"event {content.last_id}")
        if content.at is not None:
            parts.append(f"at {_EPOCH + timedelta(milliseconds=content.at):%Y-%m-%d %H:%M:%S} UTC")
        return ", ".join([*parts, "ended"] if self.ended else parts)

    def _repr_html_(self) -> str:
        frame = self.frame
        shown = frame.head(_SHOWN).to_html(index=False, border=0)
        more = f", the first {_SHOWN} are shown" if len(frame) > _SHOWN else ""
        return f"{shown}<p>{html.escape(self.caption() + more)}</p>"
