"""Term ids: what fits inside, what goes to the dictionary, what is forgotten."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.store import dictionary
from quadrill.store.dictionary import (
    TermDictionary,
    decimal_id,
    ids_of,
    inline_decimal,
    inline_id,
    inline_term,
    inline_text,
    inline_text_id,
    integer_id,
)
from quadrill.store.sweep import SweepPace
from quadrill.store.terms import term_text

XSD = "http://www.w3.org/2001/XMLSchema#"


def typed(text: str, name: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + name))


@pytest.mark.parametrize(
    ("text", "name", "inside"),
    [
        ("0", "integer", True),
        (str(2**57 - 1), "integer", True),
        (str(2**57), "integer", False),
        (str(-(2**57)), "integer", True),
        (str(-(2**57) - 1), "integer", False),
        ("01", "integer", False),
        ("+1", "integer", False),
        ("-0", "integer", False),
        ("1_0", "integer", False),
        (" 1", "integer", False),
        ("١", "integer", False),
        ("1", "int", False),
        ("1.5", "decimal", True),
        ("-0.25", "decimal", True),
        ("41.474937", "decimal", True),
        ("-0.0", "decimal", False),
        ("0.123456789012345678", "decimal", True),
        ("-123456789012345.25", "decimal", True),
        ("9" * 16 + "." + "9" * 18, "decimal", True),
        ("9" * 17, "decimal", False),
        ("0.1234567890123456789", "decimal", False),
        ("true", "boolean", True),
        ("1", "boolean", False),
        ("-0", "double", False),
        ("NaN", "double", False),
        ("INF", "double", False),
        ("0.1", "double", False),
        ("2020-01-01T00:00:00Z", "dateTime", False),
        ("2020-01-01T00:00:00+14:00", "dateTime", False),
        ("", "string", True),
        ("\0\0", "string", True),
        ("sector", "string", True),
        ("sectors", "string", False),
        ("é", "string", False),
    ],
)
def test_a_literal_is_held_inside_its_id_only_when_it_comes_back_exactly(
    text: str, name: str, inside: bool
) -> None:
    term = typed(text, name)
    term_id = inline_id(term)
    assert (term_id != 0) is inside
    if inside:
        assert term_id < 0
        assert inline_term(term_id) == term
        assert -term_id < 2**63 or name == "decimal"
    terms = TermDictionary()
    assert terms.decode(terms.encode(term)) == term


def test_language_strings_are_never_inside() -> None:
    assert inline_id(Literal("a", language="en")) == 0


@given(st.integers(-(2**60), 2**60))
def test_every_integer_has_one_id_whether_made_from_text_or_number(value: int) -> None:
    assert integer_id(value) == inline_id(typed(str(value), "integer"))


@given(st.integers(-(2**56), 2**56), st.integers(0, 20))
def test_every_decimal_has_one_id_whether_made_from_text_or_number(mantissa: int, scale: int) -> None:
    text = format(Decimal(mantissa).scaleb(-scale), "f")
    term_id = decimal_id(mantissa, scale)
    assert term_id == inline_id(typed(text, "decimal"))
    if term_id:
        assert inline_decimal(term_id) == mantissa * 10 ** (18 - scale)


@given(
    st.sampled_from(
        ["0", "-0", "7", "-7", "07", "+7", "1.5", "-0.0", "0.10", "1.", ".5", "", "9" * 17, "9" * 20]
    )
    | st.from_regex(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", fullmatch=True)
    | st.text("0123456789-+._ \u0663e", max_size=8),
    st.sampled_from(["integer", "decimal", "int"]),
)
def test_a_number_has_the_id_of_its_term_when_only_its_text_is_known(text: str, name: str) -> None:
    term = typed(text, name)
    term_id = inline_text_id(str(term))
    assert term_id == inline_id(term)
    known, other = TermDictionary(), "<http://e/a>"
    assert ids_of([str(term), other], known.texts) == [known.texts[str(term)], known.texts[other]]
    assert term_id in (0, known.texts[str(term)])
    if term_id:
        assert inline_text(term_id) == (text, XSD + name)
    if name == "decimal":
        inside = re.fullmatch(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,18})?", text, re.ASCII)
        assert bool(term_id) == (inside is not None and not re.fullmatch(r"-0(\.0+)?", text))


@pytest.mark.parametrize(
    ("text", "name"), [("1234", "integer"), ("-40.123456", "decimal"), ("abcd.efghi", "decimal")]
)
def test_of_objects_only_those_are_remembered_that_are_no_long_numbers(text: str, name: str) -> None:
    known, written = TermDictionary(), str(typed(text, name))
    (term_id,) = ids_of([written], known.texts)
    assert (term_id < 0) == (written not in known.texts.keys()) == (not text[0].isalpha())


def test_only_decimals_are_read_back_as_decimals() -> None:
    for term in (typed("1", "integer"), typed("true", "boolean"), Literal("abc")):
        assert inline_decimal(inline_id(term)) is None


literals = st.one_of(
    st.integers(-(2**70), 2**70).map(lambda value: typed(str(value), "integer")),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**13), max_value=10**13).map(
        lambda value: typed(format(value, "f"), "decimal")
    ),
    st.floats().map(lambda value: typed(repr(value), "double")),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(Literal),
    st.text("ab0.-+", max_size=4).map(lambda text: typed(text, "decimal")),
)


@given(st.lists(literals, max_size=20))
def test_ids_are_equal_exactly_when_the_terms_are(terms: list[Literal]) -> None:
    table = TermDictionary()
    ids = [table.encode(term) for term in terms]
    for term, term_id in zip(terms, ids, strict=True):
        assert table.decode(term_id) == term
    assert len(set(ids)) == len(set(terms))


def test_all_kinds_of_terms_and_unbound_round_trip() -> None:
    table = TermDictionary()
    triple = Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal("o", language="en"))
    for term in (NamedNode("http://e/s"), BlankNode("b"), triple, Literal("o", language="en"), None):
        assert table.decode(table.encode(term)) == term
    assert table.encode(None) == dictionary.UNBOUND


def test_a_sweep_forgets_what_nothing_holds_and_never_gives_an_id_twice() -> None:
    table = TermDictionary()
    kept, pinned, lost = (table.encode(NamedNode(f"http://e/{n}")) for n in range(3))
    release = table.hold(lambda: [(kept, 0, -7)])
    table.pin([pinned, -7, 0])
    assert table.sweep() == 1
    assert table.decode(kept) == NamedNode("http://e/0")
    assert table.decode(pinned) == NamedNode("http://e/1")
    with pytest.raises(KeyError):
        table.decode(lost)
    assert table.encode(NamedNode("http://e/2")) > lost
    release()
    table.unpin([pinned])
    assert table.sweep() == 3
    assert len(table) == 0


def test_memory_stays_flat_while_ever_new_terms_pass_by() -> None:
    table = TermDictionary(SweepPace(floor=1000))
    window: list[int] = []
    table.hold(lambda: [window])
    for number in range(20_000):
        window.append(table.encode(NamedNode(f"http://e/{number}")))
        table.encode(typed(str(number), "integer"))
        if len(window) > 100:
            del window[0]
        if table.due:
            table.sweep_slice()
    assert len(table) <= 1200
    assert [table.decode(term_id) for term_id in window][0] == NamedNode("http://e/19900")


def test_a_text_has_the_id_of_its_term_and_terms_that_are_remembered_are_bounded() -> None:
    table = TermDictionary(most=50)
    for number in range(200):
        for term in (
            NamedNode(f"http://e/{number}"),
            typed(str(number), "integer"),
            typed(f"{number}.5", "decimal"),
            typed("true", "boolean"),
            typed(f"{number}.5", "double"),
            Literal(f'"{number}'),
            Literal("long enough to be an entry"),
            Literal("en", language="en"),
            Triple(BlankNode("b"), NamedNode("http://e/p"), Literal(str(number))),
        ):
            assert table.texts[term_text(term)] == table.ids[term]
            assert table.terms[table.ids[term]] == term
        assert len(table.ids) <= 50 and len(table.terms) <= 50


@pytest.mark.parametrize(
    ("term", "remembered"),
    [
        (typed("20.5", "decimal"), True),
        (typed("-1250", "integer"), True),
        (typed("-73.956528", "decimal"), False),
        (typed("1790000000000", "integer"), False),
        (Literal("kitchn"), True),
        (typed("1" * 20, "decimal"), True),
    ],
)
def test_numbers_with_long_ids_are_not_remembered(term: Literal, remembered: bool) -> None:
    """They seldom come again; their ids and texts are made anew, and are the same."""
    table = TermDictionary()
    term_id = table.texts[str(term)]
    assert (str(term) in table.texts) == (term_id in table.text_of) == remembered
    assert term_id == table.texts[str(term)] == table.ids[term]
    assert table.terms[term_id] == term


@given(st.integers(-(2**60), 2**60), st.integers(0, 20))
def test_source_text_tells_the_decimals_of_ids(mantissa: int, scale: int) -> None:
    """Whatever an id is: that of a decimal, of another literal, or an entry."""
    inside = {"term_id": "term_id", "bits": "bits"}
    test, number = (text.format_map(inside) for text in dictionary.INLINE_DECIMAL)
    names = {"UNITS": dictionary.DECIMAL_UNITS}
    text = format(Decimal(mantissa).scaleb(-scale), "f")
    for term_id in (
        decimal_id(mantissa, scale),
        inline_id(Literal(text[:6])),
        inline_id(typed("7", "integer")),
        abs(mantissa) + 1,
    ):
        found = eval(f"{number} if {test} else None", names | {"term_id": term_id})
        assert found == (inline_decimal(term_id) if term_id < 0 else None)


def test_texts_of_terms_that_pass_by_are_forgotten_with_them() -> None:
    table = TermDictionary(SweepPace(floor=1000))
    window: list[int] = []
    table.hold(lambda: [window])
    for number in range(20_000):
        window.append(table.texts[f"<http://e/{number}>"])
        table.texts[f'"{number}"^^<{XSD}integer>']
        if len(window) > 100:
            del window[0]
        if table.due:
            table.sweep_slice()
    assert len(table) <= 1200 and len(table.texts) <= 3000
    assert table.texts["<http://e/19900>"] == window[0]
