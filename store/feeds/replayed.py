"""Feeds during replay: events that were published before the restart and are not computed again."""

from __future__ import annotations

from .feed import Feed, reset_event


def keep_written(feed: Feed) -> None:
    """Publish again the feed's events of before the restart that replay of the journal does not compute.

    If earlier events are missing in the result log, a reset event precedes the events that are published
    again.
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
    """Publish the error event of a failed query on the query's feed.

    If the query fails only during replay, the events that it published before the restart are published
    first.
    """
    following = feed.written.get(feed._place + 1)
    if following is not None and following.kind != "error":
        keep_written(feed)
    feed.publish([("error", line)])


def end_of_replay(feed: Feed) -> bool:
    """Return True if replay of the journal published all of the feed's events in the result log.

    If replay did not publish all events of the result log, reset the feed and return False.

    Replay computes fewer events than the result log has if the input log lost its newest records. The ids of
    events that replay did not compute are never assigned again, and subscribers that resume receive a reset
    event.
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
