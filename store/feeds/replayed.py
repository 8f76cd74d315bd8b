"""Feeds in a replay: events that had been published before, and are not computed again."""

from __future__ import annotations

from .feed import Feed, reset_event


def keep_written(feed: Feed) -> None:
    """Keep all that a feed had published before the restart: the replay does not compute it again.

    Where events before these are gone, those who resume there get a reset.
    """
    written = sorted(feed.written.items())
    feed.written.clear()
    if not written:
        return
    events = [event for _, event in written]
    ids = [event.id for event in events if event.id is not None]
    if written[0][0] != feed._place + 1:
        before = ids[0] - 1 if ids else feed._assigned
        feed._reset_place, feed.history.epoch_id, feed._assigned = written[0][0] - 1, before, before
        events.insert(0, reset_event(before + 1))
    feed._place, feed._assigned = written[-1][0], max([feed._assigned, *ids])
    feed._held = [*feed._held, *events]
    feed.publish([])


def publish_error(feed: Feed, line: str) -> None:
    """Publish why a query has failed, which ends its feed until it begins anew.

    A query that fails in a replay, where it had gone on before, keeps what it had published.
    """
    following = feed.written.get(feed._place + 1)
    if following is not None and following.kind != "error":
        keep_written(feed)
    feed.publish([("error", line)])


def end_of_replay(feed: Feed) -> bool:
    """True when every event that had been written came again; otherwise ids go on behind the last one.

    Events can be missing when the input log lost its tail: their ids are never given again, and those who
    resume get a reset.
    """
    written = feed.written
    if not written:
        return True
    feed._place = max(written)
    feed._assigned = max([feed._assigned, *(each.id for each in written.values() if each.id is not None)])
    written.clear()
    feed.history.last_id = feed._assigned
    feed.reset()
    return False
