"""Data frames, dicts and their values as records of a mapped stream."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest

from quadrill.client import Client, QuadrillError
from quadrill.client.bodies import body_of
from quadrill.client.records import is_frame, json_records
from tests.app.conftest import LiveServer, Start, start_server

__all__ = ["start_server"]

CONSTRUCT = "CONSTRUCT { [] <urn:n> ?n ; <urn:x> ?x ; <urn:t> ?t ; <urn:name> ?name ; <urn:ok> ?ok } WHERE {}"
MAPPING = {"construct": CONSTRUCT, "time": "t"}
S = "http://e/s"


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server()


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url) as found:
        yield found


def table(random: Random, rows: int) -> dict[str, list[Any]]:
    """Random columns as lists of Python values, with None where a value is missing."""

    def column(value: Callable[[], Any]) -> list[Any]:
        return [None if random.random() < 0.2 else value() for _ in range(rows)]

    return {
        "n": [random.randrange(-(2**40), 2**40) for _ in range(rows)],
        "x": column(lambda: random.choice([0.1, -2.5, 1e300, 3.0])),
        "t": [
            datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(microseconds=random.randrange(10**10))
            for _ in range(rows)
        ],
        "name": column(lambda: random.choice(["a", "", 'say "ü"', "NaN"])),
        "ok": column(lambda: random.random() < 0.5),
    }


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def as_arrow(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def as_batch(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pyarrow").record_batch(columns)


def as_dicts(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


FORMS = [as_pandas, as_polars, as_arrow, as_batch]


def stored(server: LiveServer) -> list[tuple[int, list[str]]]:
    """Event times and triples of the stream's elements, with one name for all blank nodes."""
    elements = server.services.engine.parts.streams.newest(S, 10_000)
    return sorted((each.event_time, sorted(" ".join(s[1:3]) for s in each.statements)) for each in elements)


@pytest.mark.parametrize("form", FORMS)
def test_a_pushed_frame_gives_the_elements_of_its_dicts(
    start_server: Start, form: Callable[[dict[str, list[Any]]], Any]
) -> None:
    columns = table(Random(f"frame {form.__name__}"), 300)
    seen = []
    for data in (form(columns), as_dicts(columns)):
        server = start_server()
        with Client(server.url) as client:
            client.declare_stream(S, mapping=MAPPING, retention="1h")
            assert client.push(S, data)["accepted"] == 300
        seen.append(stored(server))
    assert seen[0] == seen[1]
    triples = [text for _, statements in seen[0] for text in statements]
    assert len(triples) == sum(value is not None for values in columns.values() for value in values)


@pytest.mark.parametrize("form", [*FORMS, as_dicts])
def test_a_frame_is_tried_with_a_mapping(client: Client, form: Callable[[dict[str, list[Any]]], Any]) -> None:
    data = form({"v": [1, 2], "name": ["a", None]})
    mapping = {"construct": "CONSTRUCT { <urn:s> <urn:p> ?v ; <urn:q> ?name } WHERE {}"}
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    expected = [f'<urn:s> <urn:p> "{v}"^^<{integer}> .' for v in (1, 2)] + ['<urn:s> <urn:q> "a" .']
    assert sorted(client.map(data, mapping=mapping).splitlines()) == sorted(expected)
    client.declare_stream(S, mapping=mapping)
    assert sorted(client.map(data, stream=S).splitlines()) == sorted(expected)


def test_times_of_dicts_and_of_arguments_may_lack_a_zone(client: Client, server: LiveServer) -> None:
    client.declare_stream(S, mapping={"construct": "CONSTRUCT { [] <urn:v> ?v } WHERE {}", "time": "t"})
    noon, milliseconds = datetime(2024, 5, 1, 12), 1714564800000
    east = timezone(timedelta(hours=2))
    for moment in (noon, noon.replace(hour=14, tzinfo=east), noon.isoformat(" "), milliseconds):
        client.push(S, {"v": 1, "t": moment})
    client.push(S, "<urn:a> <urn:p> 1 .", media_type="text/turtle", at=noon)
    elements = server.services.engine.parts.streams.newest(S, 100)
    assert {each.event_time for each in elements} == {milliseconds}
    client.heartbeat(S, noon.replace(hour=13))
    assert client.streams()[0]["watermark"] == milliseconds + 3_600_000


def test_the_csv_of_a_frame_is_read(client: Client, server: LiveServer) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns: dict[str, Any] = {"v": [1.5, None, 2.5]}
    columns["t"] = [datetime(2024, 5, 1, 12, second, tzinfo=UTC) for second in range(3)]
    naive = {"v": columns["v"], "t": [each.replace(tzinfo=None) for each in columns["t"]]}
    client.declare_stream(S, mapping={"construct": "CONSTRUCT { [] <urn:v> ?v } WHERE {}", "time": "t"})
    texts = [pandas.DataFrame(each).to_csv() for each in (columns, naive)]
    texts += [pandas.DataFrame(naive).set_index("t").to_csv(), polars.DataFrame(columns).write_csv()]
    for text in texts:
        answer = client.push(S, text, media_type="text/csv")
        assert (answer["accepted"], answer["skipped"]) == (2, 1)
    assert {at for at, _ in stored(server)} == {1714564800000, 1714564920000}


def test_a_named_index_of_pandas_is_a_column() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"v": [1, 2]}, index=pandas.Index(["a", "b"], name="sensor"))
    assert list(json_records(frame)) == [{"sensor": "a", "v": 1}, {"sensor": "b", "v": 2}]
    assert list(json_records(frame.reset_index(drop=True))) == [{"v": 1}, {"v": 2}]
    wide = pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([("v", "min"), ("v", "max")]))
    assert list(json_records(wide)) == [{"v_min": 1, "v_max": 2}]


def test_values_have_one_json_form() -> None:
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    stamp = pandas.Timestamp("2024-05-01 12:00:00.123456789", tz="UTC")
    given = {
        "text": "a", "flag": True, "whole": 7, "real": 0.5, "decimal": Decimal("21.50"),
        "moment": datetime(2024, 5, 1, 12), "day": date(2024, 5, 1), "time": time(12), "stamp": stamp,
        "span": timedelta(minutes=1.5), "back": -timedelta(seconds=1), "id": UUID(int=1),
        "int8": numpy.int8(3), "float32": numpy.float32(0.5), "bool": numpy.bool_(True),
        "stamp64": numpy.datetime64("2024-05-01T12:00:00.5", "ns"), "array": numpy.array([1.5, math.nan]),
        "nested": {"c": 1, "none": None}, "list": [1, None, Decimal(2)], 5: "number",
        "none": None, "nan": math.nan, "NaN": Decimal("NaN"), "NA": pandas.NA, "NaT": pandas.NaT,
        "float64": numpy.float64("nan"), "nat64": numpy.datetime64("NaT"),
    }  # fmt: skip
    (record,) = json_records(given)
    assert record == {
        "text": "a", "flag": True, "whole": 7, "real": 0.5, "decimal": 21.5,
        "moment": "2024-05-01T12:00:00", "day": "2024-05-01", "time": "12:00:00",
        "stamp": "2024-05-01T12:00:00.123456789+00:00", "span": "PT90.000000S", "back": "-PT1.000000S",
        "id": "00000000-0000-0000-0000-000000000001", "int8": 3, "float32": 0.5, "bool": True,
        "stamp64": "2024-05-01T12:00:00.500000000", "array": [1.5, None],
        "nested": {"c": 1}, "list": [1, None, 2.0], "5": "number",
    }  # fmt: skip
    assert json.loads(body_of(given)[0]) == record


def test_what_is_no_record_is_refused_with_its_place() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for data, message in (
        ([{"v": 1}, {"v": b"x"}], "record 2: v is a bytes"),
        ([{"v": object()}], "record 1: v is a object"),
        ([{"v": {"w": [1j]}}], "record 1: w is a complex"),
        (pandas.Series([1]), "pandas.Series cannot be pushed; use its to_frame"),
        (polars.Series([1]), "polars.Series cannot be pushed; use its to_frame"),
        (polars.LazyFrame({"v": [1]}), "polars.LazyFrame cannot be pushed; collect"),
    ):
        with pytest.raises(TypeError, match=message):
            body_of(data)
    with pytest.raises(ValueError, match="record 1: v is inf, which JSON cannot express"):
        body_of({"v": math.inf})
    with pytest.raises(ValueError, match="two columns with the name 'v'"):
        body_of(pandas.DataFrame([[1, 2]], columns=["v", "v"]))
    assert not is_frame({"v": 1}) and not is_frame("text")


def test_records_for_a_stream_without_a_mapping_are_refused_with_the_remedy(client: Client) -> None:
    pandas = pytest.importorskip("pandas")
    for data in ({"v": 1}, [{"v": 1}], pandas.DataFrame({"v": [1]})):
        with pytest.raises(QuadrillError, match="the stream has no mapping.*Declare the stream with a"):
            client.push(S, data)
