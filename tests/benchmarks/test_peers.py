"""The comparison with peers: rows of every engine in one form, ours equal to the polling loop's."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from benchmarks import targets
from benchmarks.peers import asking, ours, rows, tools
from benchmarks.peers.workloads import STATIC_JOIN, TWO_STREAMS, WORKLOADS, Workload

SMALL = [
    work
    if len(work.queries) <= 100
    else dataclasses.replace(work, queries=work.queries[:20], asked=work.asked[:20])
    for work in WORKLOADS
]


@pytest.mark.always("100-*")
@pytest.mark.parametrize("work", SMALL, ids=lambda work: work.name)
@pytest.mark.parametrize("size", [1, 100])
def test_our_rows_are_those_of_the_polling_loop(work: Workload, size: int) -> None:
    items = 950 if work.step else 30
    _, _, expected = asking.poll(work, asking.InProcess(), items)
    events: list[str] = []
    ours.run(work, size, items, events)
    found = [row for event in events for row in rows.of_json(event)]
    assert rows.verdict(expected, found) == "equal"
    assert found


def test_rows_of_rust_and_of_objects_are_those_of_json() -> None:
    document = (
        '{"head":{"vars":["s","v"]},"results":{"bindings":[{"s":{"type":"uri","value":"http://e/s1"},'
        '"v":{"type":"literal","value":"7","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}'
    )
    debug = (
        '{Variable { name: "s" }: NamedNode(NamedNode { iri: "http://e/s1" }), Variable { name: "v" }: '
        'Literal(Literal(TypedLiteral { value: "7", datatype: NamedNode { iri: "http://e/integer" } }))}'
    )
    (expected,) = rows.of_json(document)
    assert rows.of_object('{"v": "7", "s": "http://e/s1"}') == expected
    assert rows.of_debug(debug) == expected


def test_a_verdict_counts_what_is_missing_and_what_is_too_much() -> None:
    one, other = (("s", "1"),), (("s", "2"),)
    assert rows.verdict([one, one], [one, one]) == "equal"
    assert rows.verdict([one, one], [one, other]) == ("wrong: 1 of 2 rows missing, 1 that should not be")


def test_pushes_have_elements_of_one_stream_in_their_order() -> None:
    found = list(ours.pushes(TWO_STREAMS.elements(10), 2))
    assert [push.elements for push in found] == [2, 2, 2, 2, 1, 1]
    assert len({push.stream for push in found}) == 2
    (single, *_) = ours.pushes(STATIC_JOIN.elements(2), 1)
    assert single.media_type == "application/n-triples" and single.at == 1000


def test_a_peer_that_can_not_be_installed_says_why(tmp_path) -> None:  # type: ignore[no-untyped-def]
    absent = tools.Peer("p", "1", "no-such-program", tmp_path / "p", ("no-such-program",))
    assert tools.install(absent) == "no-such-program is not installed"
    program = (sys.executable, "-c", "import sys; sys.exit('the registry says no')")
    failing = tools.Peer("p", "1", sys.executable, tmp_path / "p", program)
    assert str(tools.install(failing, lambda _: None)).endswith("failed: the registry says no")


def test_a_target_is_reached_by_more_or_by_less() -> None:
    assert targets.Line("rate", "/s", 100, "200", 150).reached == 1.5
    assert targets.Line("pause", "ms", 20, "5", 40, less_is_better=True).reached == 0.5
    assert targets.Line("not run", "/s", 100, "200", 0).reached == 0
