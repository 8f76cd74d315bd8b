"""Feeds: ids, resuming, snapshots, slow subscribers, the end."""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from typing import Any

import pytest

from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent


def ids(events: object) -> list[int | None]:
    return [event.id for event in events]  # type: ignore[attr-defined]


def filled(number: int, **options: int) -> Feed:
    feed = Feed("q", **options)
    for index in range(number):
        feed.publish([("insert", str(index))], lambda index=index: f"answer {index}")  # type: ignore[misc]
    return feed


def test_ids_are_given_to_results_only_and_grow_by_one() -> None:
    feed = Feed("q")
    assert feed.publish([("delete", "a"), ("progress", "b"), ("insert", "c"), ("error", "d")]) == [1, 2, 3]
    assert ids(feed.subscribe(0).take()) == [1, None, 2, 3]


def test_a_new_subscriber_starts_with_the_next_event() -> None:
    feed = filled(3)
    subscription = feed.subscribe()
    assert subscription.take() == []
    feed.publish([("insert", "x")])
    assert ids(subscription.take()) == [4]


def test_resuming_is_exclusive_and_zero_is_the_oldest_kept() -> None:
    feed = filled(5)
    assert ids(feed.subscribe(3).take()) == [4, 5]
    assert ids(feed.subscribe(5).take()) == []
    assert ids(feed.subscribe(0).take()) == [1, 2, 3, 4, 5]


def test_an_id_out_of_retention_gets_a_reset_and_the_current_answer() -> None:
    feed = filled(5, history=2)
    assert feed.history.earliest_id == 4
    reset, answer = feed.subscribe(2).take()
    assert (reset.kind, json.loads(reset.data), reset.id) == ("reset", {"earliest": 4}, None)
    assert (answer.kind, answer.data, answer.id) == ("answer", "answer 4", 5)
    assert ids(feed.subscribe(3).take()) == [4, 5]
    assert ids(feed.subscribe(0).take()) == [4, 5]


def test_an_id_that_was_never_given_gets_a_reset() -> None:
    assert [event.kind for event in filled(2).subscribe(9).take()] == ["reset", "answer"]
    assert [event.kind for event in Feed("q").subscribe(9).take()] == ["reset"]


def test_a_snapshot_comes_before_later_events_without_a_gap() -> None:
    feed = filled(2)
    subscription = feed.subscribe(snapshot=True)
    feed.publish([("insert", "x")], lambda: "answer x")
    first, second = subscription.take()
    assert (first.kind, first.data, first.id) == ("answer", "answer 1", 2)
    assert second.id == 3
    assert feed.current() == "answer x"


def test_a_slow_subscriber_is_disconnected_and_never_skipped() -> None:
    feed = Feed("q", subscriber_buffer=3)
    slow, quick = feed.subscribe(), feed.subscribe()
    for index in range(5):
        feed.publish([("insert", str(index))])
        quick.take()
    assert slow.closed
    assert ids(slow.take()) == [1, 2, 3]
    assert not quick.closed and feed.subscribers == 1
    assert ids(feed.subscribe(3).take()) == [4, 5]


def test_what_comes_at_once_is_for_a_quick_subscriber_whatever_its_buffer() -> None:
    feed = Feed("q", subscriber_buffer=3)
    slow, quick = feed.subscribe(), feed.subscribe()
    for number in range(3):
        feed.publish([("insert", str(each)) for each in range(10)])
        feed.publish([("insert", "one more"), ("insert", "and another")])
        first = number * 12
        assert ids(quick.take()) == list(range(first + 1, first + 13))
    assert not quick.closed and feed.subscribers == 1
    assert slow.closed, "it has not read what came at first when there is too much behind that"
    last = ids(slow.take())
    assert last == list(range(1, len(last) + 1)), "nothing is skipped"


def test_what_a_subscriber_asks_for_does_not_make_it_slow() -> None:
    feed = filled(10, subscriber_buffer=3)
    subscription = feed.subscribe(0)
    feed.publish([("insert", "x")])
    assert ids(subscription.take()) == list(range(1, 12))


def test_a_closed_feed_ends_its_subscribers_after_what_waits() -> None:
    feed = filled(1)
    subscription = feed.subscribe(0)
    feed.close()
    assert ids(subscription.take()) == [1]
    assert subscription.exhausted
    assert feed.subscribe(0).closed


def test_a_reset_tells_subscribers_and_ids_go_on() -> None:
    feed = filled(2)
    subscription = feed.subscribe()
    feed.reset()
    feed.publish([("insert", "x")])
    reset, event = subscription.take()
    assert (reset.kind, json.loads(reset.data)) == ("reset", {"earliest": 3})
    assert event.id == 3
    assert [e.kind for e in feed.subscribe(1).take()] == ["reset"]


def test_a_listener_is_woken_for_events_and_for_the_end() -> None:
    feed = filled(1)
    woken = []
    subscription = feed.subscribe(0)
    subscription.listen(lambda: woken.append(1))
    assert len(woken) == 1
    feed.publish([("insert", "x")])
    feed.close()
    assert len(woken) == 3


def test_a_waiting_thread_gets_the_event() -> None:
    feed = Feed("q")
    subscription = feed.subscribe()
    woken = threading.Event()
    subscription.listen(woken.set)
    thread = threading.Thread(target=lambda: feed.publish([("insert", "x")]))
    thread.start()
    assert woken.wait(10)
    thread.join(10)
    assert ids(subscription.take()) == [1]
    assert subscription.take() == []


def test_leaving_a_feed_ends_the_subscription() -> None:
    feed = Feed("q")
    subscription = feed.subscribe()
    subscription.close()
    assert feed.subscribers == 0 and subscription.exhausted


def test_a_reset_of_a_failed_query_ends_with_its_error() -> None:
    feed = Feed("q")
    feed.publish([("error", "first")])
    feed.reset()
    feed.publish([("error", "second")])
    assert [(e.kind, e.id) for e in feed.subscribe(1, empty="empty").take()] == [
        ("reset", None),
        ("error", 2),
    ]
    assert [(e.kind, e.id) for e in feed.subscribe(snapshot=True, empty="empty").take()] == [("error", 2)]


def test_the_answer_before_a_failure_comes_before_its_error() -> None:
    feed = filled(5, history=2)
    feed.publish([("error", "why")])
    events = [(e.kind, e.data, e.id) for e in feed.subscribe(2).take()[1:]]
    assert events == [("answer", "answer 4", 5), ("error", "why", 6)]


def test_before_the_first_evaluation_the_current_answer_is_empty() -> None:
    feed = Feed("q")
    first, second = feed.subscribe(9, empty="empty").take()
    assert (first.kind, second.kind, second.data, second.id) == ("reset", "answer", "empty", None)
    (only,) = feed.subscribe(snapshot=True, empty="empty").take()
    assert (only.kind, only.data) == ("answer", "empty")
    assert filled(1).subscribe(snapshot=True, empty="empty").take()[0].data == "answer 0"


@pytest.mark.parametrize("seed", range(20))
def test_who_resumes_anywhere_gets_what_a_walk_over_the_history_gives(seed: int) -> None:
    chance = random.Random(seed)
    feed = Feed("q", history=chance.choice([5, 20, 1000]))
    for _ in range(chance.randrange(60)):
        feed.publish([(chance.choice(["insert", "answer", "progress", "progress"]), "x")])
        if chance.random() < 0.05:
            feed.begin_epoch(feed.history.last_id + 10)
    kept = feed.subscribe(0).take()
    for after in range(1, feed.history.last_id + 3):
        place = next(
            (at for at, each in enumerate(kept) if each.id is not None and each.id > after), len(kept)
        )
        while 0 < place < len(kept) and kept[place - 1].id is None:
            place -= 1
        found = feed.subscribe(after).take()
        if after == feed.history.earliest_id - 1 or any(each.id == after for each in kept):
            assert found == kept[place:]
        else:
            assert [each.kind for each in found] == ["reset"], after


def test_attaching_does_not_look_at_the_whole_history() -> None:
    feed = Feed("q", history=20_000)
    seen: list[int] = []
    for _ in range(20_000):
        feed.publish([("insert", "x")])

    class Events(deque[StoredEvent]):
        def __getitem__(self, place: Any) -> Any:
            seen.append(place)
            return super().__getitem__(place)

        def __iter__(self) -> Any:
            raise AssertionError("the whole history")

    feed.history.events = Events(feed.history.events)
    assert ids(feed.subscribe(19_990).take()) == list(range(19_991, 20_001))
    assert len(seen) < 200
