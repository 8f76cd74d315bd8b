"""The dead letters of a stream as events: those that are kept, then what comes and goes."""

from __future__ import annotations

from quadrill.continuous.engine import Engine
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.streams.dead_letters import Change, DeadLetter
from quadrill.store.feeds.subscription import StoredEvent, Subscription
from quadrill.store.results import one_line

_WAITING = 10_000
"""Letters that may wait for one who watches them."""


def watch_dead_letters(engine: Engine, name_or_iri: str) -> Subscription:
    """Follow the dead letters of a stream, beginning with those that are kept; raises NotFoundError."""

    def watch(stream: StreamState, _: list[str]) -> Subscription:
        letters = stream.dead_letters

        def tell(change: Change, letter: DeadLetter) -> None:
            if not watcher.offer([_event(change, letter)]):
                watcher.close()

        watcher = Subscription(lambda _: letters.watchers.discard(tell), _WAITING)
        watcher.welcome(None, [_event("insert", letter) for letter in letters], False)
        letters.watchers.add(tell)
        return watcher

    return engine.streams.inspect(name_or_iri, watch)


def _event(change: Change, letter: DeadLetter) -> StoredEvent:
    return StoredEvent(None, change, one_line(letter.to_json()))
