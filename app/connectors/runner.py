"""Thread of one source or sink: runs the connector, and retries with growing pauses after errors."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from quadrill.continuous.errors import FeedGoneError
from quadrill.store.errors import NetworkRefusedError, NotFoundError, ReportedError
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent, Subscription

from .declaration import shown_message
from .errors import ConnectorError, ConnectorFailedError, StoppedError
from .figures import Figures
from .sink import Sink
from .source import Source

log = logging.getLogger("quadrill.connectors")

LEAST_WAIT_S, MOST_WAIT_S = 0.5, 60.0
"""Bounds on a failed connector's pause in seconds, before jitter; a failure without progress doubles it."""
_SAVE_S = 1.0
"""Minimum seconds between two writes of a sink's position to the registry."""
_NOWHERE = 2**63 - 1
"""An id above all event ids: a subscription to a feed after this id gets a reset and the current answer."""


class _RunnerContext(Protocol):
    name: str
    figures: Figures
    stopping: threading.Event


class Runner:
    """Runs a connector's ``work`` in a thread, with retries until stopped, and finally ``at_end``."""

    def __init__(
        self,
        context: _RunnerContext,
        work: Callable[[], None],
        what: str,
        interrupt: Callable[[], None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._work = work
        self._what = what
        self._interrupt = interrupt
        self._at_end = at_end
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that runs the connector."""
        self._context.figures.state = "starting"
        self._thread = threading.Thread(target=self._run, name=f"quadrill-{self._what}", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """True while the thread of the connector is running."""
        return self._thread is not None and self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Ask the source or sink to stop, without waiting for its end."""
        self._context.stopping.set()
        self._interrupt()

    def stop(self, timeout: float = 5.0) -> bool:
        """Stop the connector; return True if it ended within ``timeout`` seconds."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        try:
            self._try()
        finally:
            self._at_end()

    def _try(self) -> None:
        context, figures, wait = self._context, self._context.figures, LEAST_WAIT_S
        while not context.stopping.is_set():
            before = figures.taken
            try:
                self._work()
            except StoppedError:
                break
            except (ConnectorFailedError, NetworkRefusedError) as error:
                self._report("failed", error)
                if not context.stopping.is_set():
                    return
            except Exception as error:
                # an OSError of a connector is logged without a traceback
                if not isinstance(error, ReportedError | OSError):
                    log.exception("the %s %s failed with an unexpected error", self._what, context.name)
                self._report("waiting", error)
            wait = LEAST_WAIT_S if figures.taken > before else min(2 * wait, MOST_WAIT_S)
            if context.stopping.wait(wait * random.uniform(0.5, 1.0)):
                break
        figures.state = "stopped"

    def _report(self, state: str, error: Exception) -> None:
        figures = self._context.figures
        message = error.message if isinstance(error, ReportedError) else f"{type(error).__name__}: {error}"
        message = shown_message(message)
        if message != figures.error:
            log.warning("the %s %s is %s: %s", self._what, self._context.name, state, message)
        figures.error = message
        figures.state = "failed" if state == "failed" else "waiting"


def source_runner(source: Source) -> Runner:
    """Return the runner of a source; when it ends, the source's partitions stop delaying the stream."""
    context = source.context
    return Runner(context, source.run, "source", source.interrupt, context.release_partitions)


def run_sink(sink: Sink, feed_of: Callable[[str], Feed], save: Callable[[int], None]) -> None:
    """Deliver a query's events to a sink from the sink's stored position until a stop or an error.

    ``save`` stores the id of the last event that the sink delivered, and is called periodically. If the query
    was dropped and registered again, the sink gets a reset and continues with the current answer of the new
    query.
    """
    context, wanted, saved_at = sink.context, frozenset(sink.given["events"]), time.monotonic()
    subscription: Subscription | None = None
    saved = (context.position, context.place_of)
    try:
        try:
            feed = feed_of(sink.given["query"])
        except (NotFoundError, FeedGoneError) as error:
            raise ConnectorError(f"the query {sink.given['query']} is not registered") from error
        context.query_ms = feed.created_ms
        sink.open()
        # From position 0 a feed starts with its oldest stored event and reports missed events.
        missed = context.place_of is not None and context.position == 0 and feed.history.earliest_id > 1
        if context.place_of in (None, feed.created_ms) and not missed:
            subscription = feed.subscribe(context.position)
            context.place_of = feed.created_ms
        else:
            subscription = feed.subscribe(_NOWHERE)
        news = threading.Event()
        subscription.listen(news.set)
        # The sink's state becomes `running` only after the subscription, so that a client that sees `running`
        # gets the next event.
        context.connected()
        while not context.stopping.is_set():
            news.clear()
            events = subscription.take()
            for first in range(0, len(events), sink.given["batch"]):
                batch = events[first : first + sink.given["batch"]]
                context.position = _put_back(batch, context.position)
                _deliver(sink, [each for each in batch if each.kind in wanted])
                context.position = _last_id(batch, context.position)
                context.place_of = feed.created_ms
                if context.stopping.is_set():
                    break
            if (
                context.position is not None
                and (context.position, context.place_of) != saved
                and (time.monotonic() - saved_at > _SAVE_S)
            ):
                save(context.position)
                saved, saved_at = (context.position, context.place_of), time.monotonic()
            if not subscription.exhausted:
                news.wait(_SAVE_S)
                continue
            # The buffer of the sink's subscription overflowed: the sink subscribes again from its position,
            # if the feed still exists.
            subscription = feed.subscribe(context.position)
            subscription.listen(news.set)
            if subscription.closed:
                raise ConnectorError(f"the feed of {sink.given['query']} has ended")
    finally:
        if subscription is not None:
            subscription.close()
        try:
            if context.position is not None and (context.position, context.place_of) != saved:
                save(context.position)
        finally:
            sink.close()


def _deliver(sink: Sink, events: Sequence[StoredEvent]) -> None:
    if events:
        sink.deliver(events)
        if not sink.counts_itself:
            sink.context.figures.count(len(events))


def _put_back(events: Sequence[StoredEvent], position: int | None) -> int | None:
    """Return a sink's position before a delivery; a reset event with lower ids moves it below them."""
    for event in events:
        if event.kind == "reset" and position is not None:
            position = min(position, json.loads(event.data)["earliest"] - 1)
    return position


def _last_id(events: Sequence[StoredEvent], before: int | None) -> int | None:
    return next((event.id for event in reversed(events) if event.id is not None), before)
