"""Types of the columns of data frames: times, decimals and mixed values, compared with the terms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from quadrill.client import Answer
from quadrill.client.terms import XSD, instant_ns

pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def answer(*terms: tuple[str, str] | str | None) -> Answer:
    """An answer with one column ?v: pairs of datatype and text, an IRI, or unbound."""

    def term(given: tuple[str, str] | str) -> dict[str, str]:
        if isinstance(given, str):
            return {"type": "uri", "value": given}
        return {"type": "literal", "value": given[1], "datatype": XSD + given[0]}

    rows = [{} if given is None else {"v": term(given)} for given in terms]
    return Answer({"head": {"vars": ["v"]}, "results": {"bindings": rows}})


def random_time(random: Random) -> tuple[str, int]:
    """The text of an xsd:dateTime and its nanoseconds since 1970, computed by integers alone."""
    seconds = random.randrange(-9 * 10**9, 9 * 10**9)
    digits = "".join(random.choices("0123456789", k=random.choice([0, 0, 1, 3, 6, 9, 12])))
    zone = random.choice(["", "Z", "+00:00", "-00:00", "+05:30", "-14:00", "+14:00"])
    minutes = 0 if len(zone) < 6 else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[4:]))
    local = (EPOCH + timedelta(seconds=seconds + minutes * 60)).strftime("%Y-%m-%dT%H:%M:%S")
    return local + ("." if digits else "") + digits + zone, seconds * 10**9 + int(digits[:9].ljust(9, "0"))


def test_times_are_instants_in_every_frame() -> None:
    """For random texts, every library has the nanoseconds that integers give; missing times stay missing."""
    random = Random("times")
    for size in (1, 7, 300):
        made = [random_time(random) if random.random() < 0.8 else None for _ in range(size)]
        given = answer(*(None if each is None else ("dateTime", each[0]) for each in made))
        expected = [None if each is None else each[1] for each in made]
        if expected.count(None) == size:
            continue
        frame = given.to_pandas()["v"]
        assert str(frame.dtype) == "datetime64[ns, UTC]"
        assert [None if each is pandas.NaT else each.value for each in frame] == expected
        assert given.to_polars()["v"].dtype == polars.Datetime("ns", "UTC")
        assert given.to_polars()["v"].cast(polars.Int64).to_list() == expected
        column = given.to_arrow().column("v")
        assert column.type == pyarrow.timestamp("ns", tz="UTC")
        assert column.cast(pyarrow.int64()).to_pylist() == expected
        for row, instant in zip(given.rows(), expected, strict=True):
            assert row["v"] == (None if instant is None else EPOCH + timedelta(microseconds=instant // 1000))


def test_times_beyond_64_bits_of_nanoseconds_have_microseconds() -> None:
    given = answer(("dateTime", "0001-01-01T00:00:00Z"), None, ("dateTime", "9999-12-31T23:59:59.999999Z"))
    frame = given.to_pandas()["v"]
    assert str(frame.dtype) == "datetime64[us, UTC]"
    assert [each.year for each in frame.dropna()] == [1, 9999] and frame.isna().tolist() == [
        False,
        True,
        False,
    ]
    assert given.to_polars()["v"].dtype == polars.Datetime("us", "UTC")
    assert given.to_arrow().column("v").type == pyarrow.timestamp("us", tz="UTC")
    assert [each and each.year for each in given.to_arrow().column("v").to_pylist()] == [1, None, 9999]


def test_texts_that_are_no_instant_stay_texts() -> None:
    for text in ("soon", "2024-02-30T00:00:00Z", "-0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z",
                 "0001-01-01T00:00:00+01:00", "2024-01-01T24:00:01Z", "2024-01-01"):  # fmt: skip
        assert instant_ns(text) is None
        given = answer(("dateTime", text), ("dateTime", "2024-01-01T12:00:00+01:00"))
        assert given.rows()[0]["v"] == text
        assert given.rows()[1]["v"] == datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
        assert given.to_arrow().to_pydict()["v"] == [text, "2024-01-01T11:00:00+00:00"]
    assert instant_ns("1970-01-01T24:00:00Z") == 86_400 * 10**9


def test_decimals_keep_every_digit() -> None:
    random = Random("decimals")
    for size in (1, 200):
        values: list[Decimal | None] = [Decimal("1.50")]
        for _ in range(size):
            number = Decimal(random.randrange(-(10**20), 10**20)).scaleb(-random.randrange(15))
            values.append(number if random.random() < 0.8 else None)
        given = answer(*(None if each is None else ("decimal", f"{each:f}") for each in values))
        assert [row["v"] for row in given.rows()] == values
        assert [None if each is None else Decimal(each) for each in given.to_pandas()["v"]] == values
        column = given.to_arrow().column("v")
        assert pyarrow.types.is_decimal128(column.type) and column.to_pylist() == values
        assert given.to_polars()["v"].dtype.base_type() is polars.Decimal
        assert given.to_polars()["v"].to_list() == values


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([("integer", "1"), ("decimal", "2.5"), None], [Decimal(1), Decimal("2.5"), None]),
        ([("integer", "1"), ("double", "2.5E0")], [1.0, 2.5]),
        ([("decimal", "1.5"), ("double", "2.5")], [1.5, 2.5]),
        ([("integer", str(10**25)), ("integer", "1")], [Decimal(10**25), Decimal(1)]),
        ([("decimal", "1" * 30), ("decimal", "0." + "1" * 20)], ["1" * 30, "0." + "1" * 20]),
        ([("boolean", "true"), ("integer", "1")], ["True", "1"]),
        (["urn:a", ("string", "x"), None], ["urn:a", "x", None]),
        ([("dateTime", "2024-01-01T00:00:00Z"), ("integer", "1")], ["2024-01-01T00:00:00+00:00", "1"]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_a_column_of_arrow_and_polars_has_one_type(terms: list[Any], expected: list[Any]) -> None:
    given = answer(*terms)
    assert given.to_arrow().to_pydict() == {"v": expected}
    assert given.to_polars().to_dict(as_series=False) == {"v": expected}
    assert len(given.to_pandas()) == len(terms) and list(given.to_pandas().columns) == ["v"]


def test_rows_without_columns_are_counted() -> None:
    empty = Answer({"head": {"vars": []}, "results": {"bindings": [{}, {}]}})
    assert empty.to_pandas().shape == (2, 0)
