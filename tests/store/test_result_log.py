"""The result log: events by feed and place, written as one and forgotten up to a place."""

from __future__ import annotations

from pathlib import Path

from quadrill.store.feeds.feed import Feed
from quadrill.store.logs.result_log import ResultLog


def test_one_event_and_many_are_there_again(tmp_path: Path) -> None:
    log = ResultLog(tmp_path / "results.sqlite")
    log.append([(1, 1, 1, "insert", "a")])
    log.append([(1, 2, None, "progress", "b"), (2, 1, 1, "insert", "c")])
    log.append([(1, 3, 2, "insert", "d")], [(1, 1)])
    log.append([], [(2, 1)])
    log.close()
    again = ResultLog(tmp_path / "results.sqlite")
    assert again.events(1) == [(2, None, "progress", "b"), (3, 2, "insert", "d")]
    assert again.events(2) == []
    again.close()


def test_a_feed_lets_few_events_more_than_its_history_be_kept(tmp_path: Path) -> None:
    log = ResultLog(tmp_path / "results.sqlite")
    feed, most = Feed("q", history=20, waiting={}), 0
    feed.number = 1  # without a number a feed has no result log
    for number in range(100):
        feed.publish([("insert", str(number))])
        log.append(*feed.unwritten())
        feed.release()
        most = max(most, len(log.events(1)))
    assert 20 < most <= 23
    for _ in range(2):
        feed.publish([("insert", "more")])
        feed.reset()
        log.append(*feed.unwritten())
        feed.release()
        assert log.events(1) == []
    log.close()
