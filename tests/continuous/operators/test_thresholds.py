"""What is looked up by a number holds every row that the condition over the join is true for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.expressions import numeric
from quadrill.continuous.operators.arrangement import Arrangement
from quadrill.continuous.operators.thresholds import BoundedRows, Relation
from quadrill.continuous.rows import EMPTY, Delta
from quadrill.continuous.windows.encoded import EngineTerms

XSD = "http://www.w3.org/2001/XMLSchema#"
TRUE: dict[Relation, Any] = {"<": numeric.less_or_equal, ">": numeric.greater_or_equal, "=": numeric.equals}


def literal(text: str, kind: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + kind))


decimals = st.decimals(-4, 4, places=2) | st.sampled_from(
    [Decimal(1) / 3, Decimal("16777217.1"), Decimal("0.1")]
)
terms = st.one_of(
    st.integers(-3, 3).map(lambda n: literal(str(n), "integer")),
    st.sampled_from([2**24 + 1, 2**53 + 1, 2**62]).map(lambda n: literal(str(n), "integer")),
    decimals.map(lambda n: literal(format(n, "f"), "decimal")),
    (st.floats(-4, 4) | st.sampled_from([0.1, 1e300, -0.0])).map(lambda n: literal(repr(n), "double")),
    (st.floats(-4, 4, width=32) | st.sampled_from([0.1, 1e-40])).map(lambda n: literal(repr(n), "float")),
    st.sampled_from([literal("INF", "double"), literal("NaN", "double"), literal("-INF", "float")]),
    st.sampled_from([Literal("1"), literal("true", "boolean"), NamedNode("urn:a"), literal("x", "integer")]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), terms, terms), max_size=60),
    st.lists(st.integers(0, 100), max_size=30),
    st.lists(st.tuples(st.sampled_from(list(TRUE)), terms), min_size=1, max_size=2),
)
def test_no_row_is_missed_and_those_found_are_there(
    entering: list[tuple[int, Any, Any]], leaving: list[int], asked: list[tuple[Relation, Any]]
) -> None:
    engine = EngineTerms()
    ids = engine.dictionary.ids
    rows = [(member, ids[one], ids[other]) for member, one, other in entering]
    arrangement, held = Arrangement(), dict[Any, int]()
    found = BoundedRows(
        [
            (arrangement.sorted_by(1 + place, engine.values.number), relation)
            for place, (relation, _) in enumerate(asked)
        ]
    )

    def take(change: Delta) -> None:
        arrangement.update(change)
        for row, weight in change.items():
            held[row] = held.get(row, 0) + weight
            if not held[row]:
                del held[row]

    take(dict.fromkeys(rows[::2], 1))
    for row in rows[1::2]:
        take({row: 1})
    for place in leaving:
        if held:
            take({list(held)[place % len(held)]: -1})
    given = [ids[term] for _, term in asked]
    told = found.get(given, EMPTY)
    assert told.items() <= held.items()
    values = engine.values
    passing = {
        row
        for row in held
        if all(
            TRUE[relation](values[row[1 + place]], values[given[place]])
            for place, (relation, _) in enumerate(asked)
        )
    }
    assert passing <= told.keys()


def test_few_rows_are_found_where_few_pass() -> None:
    engine = EngineTerms()
    ids = engine.dictionary.ids
    rows = {(member, ids[literal(str(member), "integer")]): 1 for member in range(1000)}
    arrangement = Arrangement()
    arrangement.update(rows)

    def found(relation: Relation, number: str) -> int:
        bounds = [(arrangement.sorted_by(1, engine.values.number), relation)]
        return len(BoundedRows(bounds).get([ids[literal(number, "integer")]], EMPTY))

    assert [found("<", "5"), found(">", "990"), found("=", "500"), found("<", "-1")] == [6, 10, 1, 0]
