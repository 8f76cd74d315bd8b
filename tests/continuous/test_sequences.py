"""SEQ against its definition: all choices of elements, tried one after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra.query import SequencePattern
from quadrill.continuous.errors import BudgetError
from quadrill.continuous.inputs import Element
from quadrill.continuous.language.parser import parse
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.windows.sequence_matches import SequenceMatches
from quadrill.store.errors import QueryTextError, UnsupportedError
from tests.examples import examples

from .engines import Bench, E, bench, reference_evaluator

D = 8
STREAMS = ("s", "u")


@dataclass(frozen=True)
class Came:
    """One element: so much later than the one before, on a stream, with triples (thing, kind, number)."""

    later: int
    stream: str
    facts: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Step:
    """A step of the oracle: ``?x :kind ?name`` over an element; ``least``: ?name is greater than this."""

    stream: str
    kind: str
    name: str
    negated: bool = False
    repeat: int = 1
    greater: str = ""

    @property
    def text(self) -> str:
        no = "NOT " if self.negated else ""
        condition = f" FILTER(?{self.name} > ?{self.greater})" if self.greater else ""
        repeat = f" REPEAT {self.repeat}" if self.repeat > 1 else ""
        return f"{no}STREAM :{self.stream} {{ ?x :{self.kind} ?{self.name}{condition} }}{repeat}"


SEQUENCES = {
    "two": [Step("s", "a", "p"), Step("s", "b", "q")],
    "same": [Step("s", "a", "p"), Step("s", "a", "q", greater="p")],
    "streams": [Step("u", "a", "p"), Step("s", "b", "q"), Step("u", "b", "r")],
    "between": [Step("s", "a", "p"), Step("u", "b", "n", negated=True), Step("s", "b", "q")],
    "joined": [Step("s", "a", "p"), Step("s", "b", "p", negated=True), Step("u", "a", "q")],
    "last": [Step("s", "a", "p"), Step("s", "b", "q"), Step("u", "a", "n", negated=True)],
    "greater": [Step("s", "a", "p"), Step("u", "a", "n", negated=True, greater="p")],
    "repeat": [Step("s", "a", "p", repeat=2), Step("s", "b", "q")],
}

FACTS = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), st.integers(0, 2)),
    min_size=1,
    max_size=3,
    unique=True,
).map(tuple)
CAME = st.lists(st.builds(Came, st.integers(0, 4), st.sampled_from(STREAMS), FACTS), min_size=1, max_size=12)

Order = tuple[int, int, int]
Chosen = tuple[tuple[Order, str, tuple[tuple[str, str, int], ...]], ...]


def order_of(steps: list[Step]) -> list[str]:
    return list(dict.fromkeys(step.stream for step in steps))


def compatible(solutions: list[dict[str, Any]]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for solution in solutions:
        if any(found.get(name, value) != value for name, value in solution.items()):
            return None
        found |= solution
    return found


def over(step: Step, element: Any) -> list[dict[str, Any]]:
    _, stream, facts = element
    if stream != step.stream:
        return []
    return [{"x": thing, step.name: number} for thing, kind, number in facts if kind == step.kind]


def choices(slots: list[Step], chosen: Any) -> Iterator[dict[str, Any]]:
    def go(number: int, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if number == len(slots):
            yield found
            return
        for solution in over(slots[number], chosen[number]):
            merged = compatible([found, solution])
            if merged is not None:
                yield from go(number + 1, merged)

    yield from go(0, {})


def matches(
    steps: list[Step], elements: list[Any]
) -> Iterator[tuple[int, tuple[Order, ...], dict[str, Any]]]:
    """(completion, elements, solution) of each match."""
    slots = [step for step in steps if not step.negated for _ in range(step.repeat)]
    for chosen in combinations(sorted(elements), len(slots)):
        first, last = chosen[0][0][0], chosen[-1][0][0]
        if last - first > D:
            continue
        for found in choices(slots, chosen):
            if any(
                not step.negated and step.greater and found[step.name] <= found[step.greater]
                for step in steps
            ):
                continue
            if any(forbidden(steps, number, chosen, found, elements) for number in range(len(steps))):
                continue
            completion = first + D if steps[-1].negated else last
            yield completion, tuple(each[0] for each in chosen), found


def forbidden(
    steps: list[Step], number: int, chosen: Any, found: dict[str, Any], elements: list[Any]
) -> bool:
    step = steps[number]
    if not step.negated:
        return False
    before = sum(each.repeat for each in steps[:number] if not each.negated)
    begin = chosen[before - 1][0]
    for element in elements:
        order = element[0]
        inside = order < chosen[before][0] if before < len(chosen) else order[0] <= chosen[0][0][0] + D
        if order > begin and inside:
            for solution in over(step, element):
                merged = compatible([found, solution])
                if merged is not None and (not step.greater or merged[step.name] > merged[step.greater]):
                    return True
    return False


def skipped(steps: list[Step], found: list[tuple[int, tuple[Order, ...], dict[str, Any]]]) -> list[Any]:
    names = set.intersection(*({"x", step.name} for step in steps if not step.negated))
    taken: dict[Any, Order] = {}
    kept = []
    for completion, orders, solution in sorted(found, key=lambda each: (each[0], each[1], str(each[2]))):
        key = tuple(solution[name] for name in sorted(names))
        if key not in taken or orders[0] > taken[key]:
            taken[key] = orders[-1]
            kept.append((completion, orders, solution))
    return kept


def push(b: Bench, stream: str, at: int, facts: Any) -> None:
    body = "".join(f"<{E}{thing}> <{E}{kind}> {number} .\n" for thing, kind, number in facts)
    b.engine.streams.push(PushCall(E + stream, "text/turtle", at=at), body.encode())


Row = tuple[tuple[str, Any], ...]


def told(b: Bench, name: str) -> dict[int, dict[Row, int]]:
    """The rows inserted less those deleted, by instant."""
    found: dict[int, Counter[Row]] = {}
    for event in b.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        rows = [
            tuple(
                (name, value["value"].rpartition("/")[2] if name == "x" else int(value["value"]))
                for name, value in sorted(row.items())
            )
            for row in document["results"]["bindings"]
        ]
        net = found.setdefault(document["at"], Counter())
        (net.update if event.kind == "insert" else net.subtract)(rows)
    return shown(found)


def shown(changes: dict[int, Counter[Row]]) -> dict[int, dict[Row, int]]:
    """Without what is nothing."""
    left = {at: {row: n for row, n in rows.items() if n} for at, rows in changes.items()}
    return {at: rows for at, rows in left.items() if rows}


def text_of(kind: str, mode: str) -> str:
    steps = " ; ".join(step.text for step in SEQUENCES[kind])
    return f"SELECT * {{ SEQ {mode} {{ {steps} }} WITHIN {D}ms }}"


@pytest.mark.parametrize("mode", ["EACH", "SKIP"])
@pytest.mark.parametrize("kind", SEQUENCES)
@settings(max_examples=examples(15), deadline=None)
@given(came=CAME)
def test_matches_are_those_of_the_definition(kind: str, mode: str, came: list[Came]) -> None:
    steps = SEQUENCES[kind]
    streams = order_of(steps)
    elements: list[Any] = []
    seqs = Counter[str]()
    time = 0
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        for each in (b, recomputed):
            each.register("q", text_of(kind, mode), output="changes", lateness="0s")
            # All streams are waited for, so that elements come in the order of the definition.
            for stream in STREAMS:
                each.engine.streams.heartbeat(E + stream, 0)
        for event in came:
            time += event.later
            seqs[event.stream] += 1
            for each in (b, recomputed):
                push(each, event.stream, time, event.facts)
            if event.stream in streams:
                order = (time, streams.index(event.stream), seqs[event.stream])
                elements.append((order, event.stream, event.facts))
        for each in (b, recomputed):
            for stream in STREAMS:
                each.engine.streams.heartbeat(E + stream, time + 30)
        found = list(matches(steps, elements))
        if mode == "SKIP":
            found = skipped(steps, found)
        expected: dict[int, Counter[Row]] = {}
        for completion, _, solution in found:
            row = tuple(sorted(solution.items()))
            expected.setdefault(completion, Counter())[row] += 1
            expected.setdefault(completion + 1, Counter())[row] -= 1
        assert told(b, "q") == shown(expected)
        assert told(recomputed, "q") == told(b, "q")


def test_rspql_names_streams_by_windows_and_joins_matches_with_the_rest() -> None:
    text = (
        f"PREFIX : <{E}> REGISTER ISTREAM <{E}out> AS SELECT ?x ?t ?r "
        "FROM NAMED WINDOW :w ON :s [RANGE PT1S] WHERE "
        "{ SEQ { WINDOW :w { ?x :a ?p } ; STREAM :u { ?x :b ?q } AT ?t } WITHIN PT10S ?x :in ?r }"
    )
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ <{E}x> <{E}in> <{E}room> }}")
        b.register("q", text)
        push(b, "s", 1_000, [("x", "a", 1), ("y", "a", 1)])
        push(b, "u", 2_001, [("x", "b", 1), ("y", "b", 1)])
        b.engine.streams.heartbeat(E + "s", 5_000)
        (event,) = b.engine.queries.feed("q").subscribe(0).take()
        assert event.kind == "insert" and "1970-01-01T00:00:02.001Z" in event.data and "room" in event.data


def test_conditions_of_a_step_see_nothing_of_later_ones() -> None:
    text = (
        f"PREFIX : <{E}> SELECT ?x ?z {{ SEQ {{ "
        "STREAM :s { ?x :a ?p OPTIONAL { ?x :k ?k } FILTER(!BOUND(?k)) } ; "
        "STREAM :s { ?x :b ?z ; :k ?k } } WITHIN 5ms }"
    )
    with bench() as b:
        b.register("q", text)
        push(b, "s", 1, [("x", "a", 3)])
        push(b, "s", 3, [("x", "b", 8), ("x", "k", 1)])
        assert list(told(b, "q")) == [3]


def test_one_push_or_many_give_the_same() -> None:
    lines = [
        json.dumps({"at": at, "data": f'<{E}x> <{E}{kind}> "{at}" .'})
        for at, kind in ((1, "a"), (2, "a"), (3, "b"), (3, "b"), (9, "b"), (40, "a"))
    ]
    with bench() as one, bench() as many:
        for b, bodies in ((one, ["\n".join(lines)]), (many, lines)):
            b.register("q", text_of("two", "EACH").replace("* {", "?x {"))
            for body in bodies:
                b.engine.streams.push(PushCall(E + "s", "application/x-ndjson"), body.encode())
        assert told(one, "q") == told(many, "q")
        assert sum(sum(rows.values()) for rows in told(one, "q").values()) == 6


def test_late_elements_that_are_admitted_are_in_matches_to_come() -> None:
    with bench() as b:
        b.engine.streams.declare(E + "s", late="admit")
        b.register("q", text_of("two", "EACH"))
        push(b, "s", 5, [("y", "a", 0)])
        push(b, "s", 3, [("x", "a", 0)])
        push(b, "s", 6, [("x", "b", 0)])
        assert list(told(b, "q")) == [6]


def test_a_search_has_a_limit() -> None:
    sequence = prepared_sequence(text_of("two", "EACH"))
    found = SequenceMatches(sequence, most=50)
    for seq in range(100):
        quads = [Quad(NamedNode(E + "x"), NamedNode(E + "a"), Literal(seq))]
        found.hold(0, Element.of(quads, seq // 20, seq))
    last = found.hold(0, Element.of([Quad(NamedNode(E + "x"), NamedNode(E + "b"), Literal(1))], 6, 100))
    assert last is not None
    with pytest.raises(BudgetError, match="partial matches"):
        found.of([last])


def prepared_sequence(text: str) -> SequencePattern:
    sequence = parse(f"PREFIX : <{E}> {text}").windows[0].spec.sequence
    assert sequence is not None
    return sequence


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ("NOT STREAM :s { ?x :a ?p } ; STREAM :s { ?x :b ?q }", QueryTextError, "begins with NOT"),
        ("STREAM :s { ?x :a ?p } ; NOT STREAM :s { ?x :b ?q } AT ?t", QueryTextError, "binds nothing"),
        ("STREAM :s { ?x :a ?p } REPEAT 0", QueryTextError, "REPEAT must be"),
        ("STREAM :s { GRAPH ?g { ?x :a ?p } }", UnsupportedError, "GRAPH"),
        ("STREAM :s { ?x :a ?p FILTER(?p < NOW()) }", UnsupportedError, "NOW"),
        ("STREAM :s { STREAM :s [NOW] { ?x :a ?p } }", QueryTextError, "cannot stand inside"),
        ("STREAM :s [NOW] { ?x :a ?p }", QueryTextError, "unexpected"),
        ("STREAM :s { ?x :a ?p } ; STREAM :s { ?x :b ?q BIND(?q - ?p AS ?d) }", UnsupportedError, "BIND"),
        ("STREAM :s { ?x :a ?p } ; STREAM :s { { ?x :b ?q FILTER(?q > ?p) } }", UnsupportedError, "group"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(steps: str, error: type[Exception], message: str) -> None:
    with bench() as b, pytest.raises(error, match=message):
        b.register("q", f"SELECT * {{ SEQ {{ {steps} }} WITHIN 5s }}")
