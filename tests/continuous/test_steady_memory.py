"""What is held does not grow under steady load, however large an element is."""

from __future__ import annotations

import gc

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app.describing.streams import describe_stream
from quadrill.continuous.durable.tasks import weight_of
from quadrill.continuous.errors import BackPressureError
from quadrill.continuous.inputs import Element
from quadrill.continuous.streams.dead_letters import DeadLetter, DeadLetters
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.feeds.feed import Feed

from .engines import RANGE, E, S, bench, sweep_always

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def body(number: int, triples: int) -> bytes:
    """One element with subjects that no other has."""
    lines = [f'<urn:s{number}-{each}> <urn:value> "{each}"^^<{INTEGER}> .\n' for each in range(triples)]
    return "".join(lines).encode()


def element(triples: int, seq: int = 1) -> Element:
    return Element.of(list(parse(body(seq, triples), RdfFormat.N_QUADS)), 1, seq)


def test_a_small_element_counts_once_and_a_large_one_for_each_kibibyte() -> None:
    assert weight_of(()) == 0
    assert weight_of([element(1)]) == 1
    assert weight_of([element(1)] * 50) == 50
    assert 50 * 256 // 1024 < weight_of([element(50)]) < 50
    assert weight_of([Element.of(list(parse(f'<a:> <b:> "{"x" * 5000}" .', RdfFormat.N_QUADS)), 1, 1)]) == 5


def test_a_stream_retains_fewer_elements_when_they_are_large() -> None:
    with bench(retained_elements=100) as b:
        b.engine.streams.declare(S)
        held = []
        for number in range(60):
            b.engine.streams.push(PushCall(S, "application/n-triples", at=number), body(number, 50))
            kept = b.engine.parts.streams.known[S].retained.inputs
            held.append(sum(len(each.statements) for record in kept for each in record.input.elements))
            assert describe_stream(b.engine, S)["retained"] == len(kept)
        assert max(held) == held[-1] <= 400, "quads, where an element counts for each KiB"
        for number in range(60, 300):
            b.push(number, "a")
        assert describe_stream(b.engine, S)["retained"] == 100, "small ones count once"


def test_a_push_larger_than_all_that_is_retained_stays_until_the_next_one() -> None:
    with bench(retained_elements=10) as b:
        b.engine.streams.declare(S)
        b.push(1, "a")
        b.engine.streams.push(PushCall(S, "application/n-triples", at=2), body(2, 2_000))
        assert describe_stream(b.engine, S)["retained"] == 1
        b.engine.streams.heartbeat(S, 5)
        assert describe_stream(b.engine, S)["retained"] == 1, "time without data forgets nothing"
        b.push(6, "b")
        assert describe_stream(b.engine, S)["retained"] == 1
        assert [each.event_time for each in b.engine.parts.streams.newest(S, 5)] == [6]


def test_large_elements_fill_the_queue_sooner() -> None:
    with bench(queue_elements=100, threaded=True) as b:
        b.register("q", RANGE)
        with b.engine.parts.sequencer.paused:
            pushed = 0
            with pytest.raises(BackPressureError):
                for number in range(100):
                    b.engine.streams.push(PushCall(S, "application/n-triples", at=number), body(number, 50))
                    pushed += 1
            # Eight or so are in line, and some before these have been taken from it together.
            assert 1 <= pushed < 20
        b.engine.sync()
        b.push(200, "b")


def test_dead_letters_are_fewer_when_they_are_large() -> None:
    letters = DeadLetters(10)
    for seq in range(1, 31):
        letters.add(DeadLetter(element(1, seq), "late"))
    assert [letter.element.seq for letter in letters] == list(range(21, 31))
    for seq in range(31, 51):
        letters.add(DeadLetter(element(500, seq), "late"))
    kept = [letter.element.seq for letter in letters]
    assert 1 < len(kept) < 10 and kept == list(range(51 - len(kept), 51))
    letters.remove(list(letters))
    for seq in range(51, 81):
        letters.add(DeadLetter(element(1, seq), "late"))
    assert len(letters) == 10, "what goes counts no longer"
    letters.add(DeadLetter(element(10_000, 99), "late"))
    assert [letter.element.seq for letter in letters] == [99], "one is always kept"


def test_a_feed_keeps_fewer_events_when_they_are_large() -> None:
    feed = Feed("q", history=100, history_bytes=1_000)
    for _ in range(50):
        feed.publish([("insert", "x" * 100)])
    assert (len(feed.history.events), feed.history.earliest_id) == (10, 41)
    assert [event.id for event in feed.subscribe(40).take()] == list(range(41, 51))
    assert feed.subscribe(39).take()[0].kind == "reset"
    feed.publish([("insert", "x" * 5_000)])
    assert (len(feed.history.events), feed.history.earliest_id) == (1, 51), "one is always kept"
    for _ in range(150):
        feed.publish([("insert", "x")])
    assert (len(feed.history.events), feed.history.earliest_id) == (100, 102)
    feed.reset()
    for _ in range(20):
        feed.publish([("insert", "x" * 100)])
    assert len(feed.history.events) == 10, "what came before a reset counts no longer"


@pytest.mark.parametrize(
    "where",
    [
        "STREAM :s [RANGE 10ms] { ?x :seen ?v }",
        "STREAM :s [NOW] { ?x :seen ?v } GRAPH :known { ?x :in ?r }",
        "STREAM :s [RANGE 10ms] { ?x :seen ?v } OPTIONAL { STREAM :s [NOW] { ?x :seen ?w } }",
        "STREAM :s [RANGE 10ms SLIDE 10ms] { ?x :seen ?v }",
        "{ SELECT ?v (COUNT(?y) AS ?x) { STREAM :s [TRIPLES 5] { ?y :seen ?v } } GROUP BY ?v }",
    ],
)
def test_what_passes_by_leaves_no_garbage_that_python_has_to_look_for(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server sets aside what is old, and looks through it every ten minutes.
    sweep_always(monkeypatch, 50)
    with bench() as b:
        b.register("q", f"SELECT ?x WHERE {{ {where} }}")

        def passing(numbers: range) -> None:
            for number in numbers:
                b.push(number, f"t{number}", f"u{number % 7}")
                if number % 50 == 0:
                    b.store.writer.update(
                        f"INSERT DATA {{ GRAPH <{E}known> {{ <{E}t{number}> <{E}in> <{E}r> }} }}"
                    )
                    b.engine.queries.current_answer("q")

        passing(range(200))
        gc.disable()
        try:
            # Threads of the test before may let its engine go meanwhile: not in each of these stretches.
            found = []
            for begin in range(200, 1400, 300):
                gc.collect()
                passing(range(begin, begin + 300))
                found.append(gc.collect())
            assert 0 in found
        finally:
            gc.enable()
