"""Terms as values and back, against Oxigraph's own forms."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadrill.continuous.expressions.values import (
    ComparableTime,
    Decimal18,
    Float32,
    ValueTable,
    term_of,
    value_of,
)
from quadrill.store.dictionary import TermDictionary

XSD = "http://www.w3.org/2001/XMLSchema#"


def typed(text: str, name: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + name))


def stored(term: Literal) -> Literal:
    store = Store()
    store.add(Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), term))
    back = next(iter(store)).object
    assert isinstance(back, Literal)
    return back


@given(st.floats())
def test_doubles_have_the_text_that_the_store_gives_them(number: float) -> None:
    term = stored(typed(repr(number).replace("inf", "INF").replace("nan", "NaN"), "double"))
    value = value_of(term)
    assert type(value) is float
    assert struct.pack(">d", value) == struct.pack(">d", number) or number != number
    assert term_of(value) == term


@given(st.floats(width=32))
def test_floats_have_the_text_that_the_store_gives_them(number: float) -> None:
    term = stored(typed(repr(number).replace("inf", "INF").replace("nan", "NaN"), "float"))
    value = value_of(term)
    assert type(value) is Float32
    assert value == number or number != number
    assert term_of(value) == term


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=9))
def test_decimals_have_the_text_that_the_store_gives_them(number: object) -> None:
    term = stored(typed(format(number, "f"), "decimal"))
    value = value_of(term)
    assert type(value) is Decimal18
    assert term_of(value) == term


@given(st.integers(-(2**64), 2**64))
def test_integers_beyond_64_bits_stay_terms(number: int) -> None:
    value = value_of(typed(str(number), "integer"))
    assert (type(value) is int) is (-(2**63) <= number < 2**63)


@given(st.integers(-9999, 9999).filter(bool), st.integers(1, 12), st.integers(1, 28), st.integers(0, 86399))
def test_dates_of_any_year_are_in_calendar_order(year: int, month: int, day: int, second: int) -> None:
    hour, rest = divmod(second, 3600)
    date = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"
    text = f"{date}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}"
    later = stored(typed(text, "dateTime"))
    store = Store()
    moment, origin = value_of(later), value_of(typed("2000-01-01T00:00:00", "dateTime"))
    assert isinstance(moment, ComparableTime) and isinstance(origin, ComparableTime)
    (answer,) = store.query(f"SELECT ({later} > {origin.term} AS ?r) {{}}")
    assert (moment.instant > origin.instant) is (answer["r"].value == "true")


def test_malformed_literals_stay_terms() -> None:
    for text, name in [
        ("x", "integer"),
        ("", "decimal"),
        (".", "decimal"),
        ("1e", "double"),
        ("inf", "double"),
        ("yes", "boolean"),
        ("2020", "dateTime"),
        ("1_0", "double"),
        ("12", "time"),
    ]:
        assert value_of(typed(text, name)) == typed(text, name)


def test_the_value_table_gives_values_by_id_and_ids_by_value() -> None:
    terms = TermDictionary()
    table = ValueTable(terms)
    for value in (1, Decimal18(15 * 10**17), -0.0, 0.0, True, "x", Float32(0.5), NamedNode("http://e/a")):
        term_id = table.id_of(value)
        assert table[term_id] == value
        assert type(table[term_id]) is type(value)
    assert table.id_of(0.0) != table.id_of(-0.0)
    assert table.id_of(None) == 0
    assert table[0] is None
    table.clear()
    assert table[0] is None


numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.builds(Decimal18, st.integers(-(2**127), 2**127 - 1)),
    st.builds(lambda number, zeros: Decimal18(number * 10**zeros), st.integers(-99, 99), st.integers(0, 30)),
)


@given(numbers)
def test_numbers_have_the_id_of_their_term_and_come_back_from_it(number: int) -> None:
    terms = TermDictionary()
    values = ValueTable(terms)
    term_id = values.id_of(number)
    assert term_id == terms.encode(term_of(number))
    back = ValueTable(terms)[term_id]
    assert type(back) is type(number) and back == number


def test_values_are_forgotten_with_their_ids() -> None:
    terms = TermDictionary()
    table = ValueTable(terms)
    kept = terms.encode(Literal("a string that is kept"))
    terms.pin([kept])
    for term in (Literal("a string that goes"), typed("1.25", "decimal"), typed("7", "integer")):
        assert table[terms.encode(term)] is not None
    lone = table.id_of(Decimal18(5 * 10**17))
    assert table[lone] == Decimal18(5 * 10**17)
    assert table[kept] == "a string that is kept"
    terms.sweep()
    assert set(table) == {0, kept}
    assert table[lone] == Decimal18(5 * 10**17)
