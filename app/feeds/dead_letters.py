"""Dead letters of a stream as an event stream: first the stored letters, then each added or removed one."""

from __future__ import annotations

from quadrill.continuous.engine import Engine
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.streams.dead_letters import Change, DeadLetter
from quadrill.store.feeds.subscription import StoredEvent, Subscription
from quadrill.store.results import one_line

_WAITING = 10_000
"""Maximum number of dead letters queued for one subscriber."""


def watch_dead_letters(engine: Engine, name_or_iri: str) -> Subscription:
    """Subscribe to a stream's dead letters, stored letters first; NotFoundError for an unknown stream."""

    def watch(stream: StreamState, _: list[str]) -> Subscription:
        letters = stream.dead_letters

        def notify(change: Change, letter: DeadLetter) -> None:
            if not watcher.offer([_event(change, letter)]):
                watcher.close()

        watcher = Subscription(lambda _: letters.watchers.discard(notify), _WAITING)
        watcher.welcome(None, [_event("insert", letter) for letter in letters], False)
        letters.watchers.add(notify)
        return watcher

    return engine.streams.inspect(name_or_iri, watch)


def _event(change: Change, letter: DeadLetter) -> StoredEvent:
    return StoredEvent(None, change, one_line(letter.to_json()))
