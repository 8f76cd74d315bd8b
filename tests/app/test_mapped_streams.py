"""Mapped streams over HTTP: records in, elements by the stream's mapping."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app.cli import main
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of

IRI = "http://example.org/readings"
CONSTRUCT = """PREFIX : <http://example.org/>
CONSTRUCT { ?s :celsius ?value_c } WHERE { BIND(IRI(CONCAT(STR(:), ?sensor)) AS ?s) }"""
MAPPING = {"format": "json", "construct": CONSTRUCT, "time": "ts", "time_format": "s"}


@pytest.fixture
def fresh(start_server: Start) -> LiveServer:
    return start_server()


def declare(live: LiveServer, **members: Any) -> Any:
    given = {**MAPPING, **members}
    mapping = {name: value for name, value in given.items() if value is not None}
    return live.client.put("/streams", params={"iri": IRI}, json={"mapping": mapping, "retention": "2h"})


def push(live: LiveServer, body: Any, media_type: str = "application/json", **parameters: Any) -> Any:
    content = body if isinstance(body, str) else json.dumps(body)
    return live.client.post(
        "/streams", params={"iri": IRI, **parameters}, content=content, headers={"Content-Type": media_type}
    )


def record(sensor: str, celsius: Any, ts: Any = 1000) -> dict[str, Any]:
    return {"sensor": sensor, "value": {"c": celsius}, "ts": ts}


def seen(live: LiveServer) -> list[str]:
    """The elements of the stream, newest first, as text."""
    engine = live.services.engine
    return [
        "|".join(" ".join(each) for each in element.statements)
        for element in engine.parts.streams.newest(IRI, 100)
    ]


def test_a_declaration_carries_a_mapping_and_shows_it(fresh: LiveServer) -> None:
    answer = declare(fresh)
    assert answer.status_code == 201
    assert answer.json()["mapping"] == MAPPING
    assert answer.json()["stamping"] == "event"
    assert declare(fresh).status_code == 200
    assert fresh.client.get("/streams", params={"iri": IRI}).json()["mapping"] == MAPPING
    fresh.client.put("/streams/plain", json={"iri": "urn:plain"})
    assert fresh.client.get("/streams/plain").json()["mapping"] is None


def test_objects_arrays_and_lines_are_records(fresh: LiveServer) -> None:
    declare(fresh)
    answer = push(fresh, record("a", 21.5), wait="true")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "stream": IRI, "first_seq": 1, "last_seq": 1, "accepted": 1, "late": 0, "durable": False,
        "dropped": 0, "skipped": 0, "waited": True,
    }  # fmt: skip
    answer = push(fresh, [record("b", 21), {"sensor": "none", "ts": 1}, record("c", 21.0)])
    assert (answer.json()["accepted"], answer.json()["skipped"]) == (2, 1)
    lines = "\n".join(json.dumps(record(name, 5, 1001)) for name in "de") + "\n\n"
    assert push(fresh, lines, "application/x-ndjson", wait="true").json()["last_seq"] == 5
    ordinary = fresh.client.post(
        "/streams/other?at=1", content="<urn:s> <urn:p> 1 .", headers={"Content-Type": "text/turtle"}
    )
    assert "skipped" not in ordinary.json()
    assert len(seen(fresh)) == 5
    assert seen(fresh)[0].startswith("<http://example.org/e> <http://example.org/celsius>")


def test_csv_has_strings_and_empty_fields_are_absent(fresh: LiveServer) -> None:
    assert declare(fresh, format="csv").status_code == 201
    body = 'ts,sensor,value.c\r\n1000,a,21.5\r\n1001,"b ""x""",\r\n1002,c,"2,5"\r\n'
    answer = push(fresh, body, "text/csv; charset=utf-8")
    assert (answer.status_code, answer.json()["accepted"], answer.json()["skipped"]) == (200, 2, 1)
    assert [each.split(" ", 2)[2].split("^")[0].strip() for each in seen(fresh)] == ['"2,5"', '"21.5"']


@pytest.mark.parametrize("moment", ["2024-05-01 12:00:00", "2024-05-01 14:00:00.250000+02:00", "2024-05-01"])
def test_the_csv_of_a_data_frame_is_read(fresh: LiveServer, moment: str) -> None:
    """The index has no name, missing values are empty, times have a space and may lack a zone: UTC."""
    construct = "CONSTRUCT { [] <urn:p> ?v } WHERE {}"
    declare(fresh, format="csv", time="ts", time_format=None, construct=construct)
    body = f",,ts,v\n0,x,{moment},21.5\n1,y,{moment},\n"
    answer = push(fresh, body, "text/csv").json()
    assert (answer["accepted"], answer["skipped"]) == (1, 1)
    (element,) = fresh.services.engine.parts.streams.newest(IRI, 100)
    midnight = 1714521600000
    assert element.event_time - midnight == {"12": 43_200_000, "14": 43_200_250, "": 0}[moment[11:13]]


def test_records_on_a_stream_without_a_mapping_are_refused_with_the_remedy(fresh: LiveServer) -> None:
    for body, media_type, status in (
        ({"v": 1}, "application/json", 415),
        ('{"v": 1}\n{"v": 2}\n', "application/x-ndjson", 400),
        ("v\n1\n", "text/csv", 415),
    ):
        problem = problem_of(push(fresh, body, media_type), status)
        assert "the stream has no mapping" in problem["detail"]
        assert problem["hint"].startswith('Declare the stream with a "mapping"')


def test_csv_without_a_header_has_columns_a_b_c(fresh: LiveServer) -> None:
    construct = "CONSTRUCT { <urn:s> <urn:p> ?b } WHERE {}"
    declare(fresh, format="csv", construct=construct, header=False, time="a", time_format="ms")
    assert push(fresh, "1000,x\n2000,y\n", "text/csv").json()["accepted"] == 2
    assert seen(fresh) == ['<urn:s> <urn:p> "y" ', '<urn:s> <urn:p> "x" ']


@pytest.mark.parametrize(
    ("time_format", "value", "at"),
    [
        ("iso", "2024-05-01T12:00:00.5Z", 1714564800500),
        ("iso", "2024-05-01 14:00:00+02:00", 1714564800000),
        ("iso", "2024-05-01T12:00:00", 1714564800000),
        ("s", 1714564800.25, 1714564800250),
        ("s", "1714564800", 1714564800000),
        ("ms", 1714564800123, 1714564800123),
        ("us", 1714564800123999, 1714564800123),
        (None, 1714564800123, 1714564800123),
        (None, "2024-05-01T12:00:00Z", 1714564800000),
    ],
)
def test_the_event_time_is_that_of_a_field(
    fresh: LiveServer, time_format: str | None, value: Any, at: int
) -> None:
    declare(fresh, time_format=time_format)
    assert push(fresh, record("a", 1, value)).status_code == 200
    assert [each.event_time for each in fresh.services.engine.parts.streams.newest(IRI, 9)] == [at]


def test_without_a_time_the_stream_is_stamped_at_arrival(fresh: LiveServer) -> None:
    assert declare(fresh, time=None, time_format=None).json()["stamping"] == "arrival"
    assert push(fresh, record("a", 1)).status_code == 200
    assert push(fresh, record("a", 1), at=5).status_code == 400
    assert push(fresh, record("a", 1, None)).status_code == 200


def test_a_time_that_is_missing_is_that_of_the_push(fresh: LiveServer) -> None:
    declare(fresh)
    assert push(fresh, record("a", 1, None), at=7000).status_code == 200
    assert fresh.services.engine.parts.streams.newest(IRI, 1)[0].event_time == 7000


@pytest.mark.parametrize(
    ("body", "media_type", "told"),
    [
        ([record("a", 1), record("b", 2, "soon")], "application/json", "record 2: the field ts"),
        ([record("a", 1), 5], "application/json", "record 2 is not a JSON object"),
        ([record("a", 1, None)], "application/json", "record 1: the field ts of the event time is missing"),
        (json.dumps(record("a", 1)) + "\n{nonsense\n", "application/x-ndjson", "line 2, column 2"),
        (json.dumps(record("a", 1)) + "\n[]\n", "application/x-ndjson", "line 2 is not a JSON object"),
        ('{"sensor": "a",\n "value": }', "application/json", "line 2, column 11"),
        (json.dumps({**record("a", 1), "value_c": 2}), "application/json", r"record 1: two fields"),
        ('{"sensor": "\\ud800", "ts": 1}', "application/x-ndjson", "line 1"),
        ("[" * 200 + "]" * 200, "application/json", "deeper than"),
    ],
)
def test_a_wrong_record_is_an_error_of_the_push_at_its_place(
    fresh: LiveServer, body: Any, media_type: str, told: str
) -> None:
    declare(fresh)
    answer = push(fresh, body, media_type)
    assert answer.status_code in (400, 413), answer.text
    assert told in problem_of(answer, answer.status_code)["detail"]
    assert seen(fresh) == []
    assert fresh.client.get("/streams/readings/dead-letters").json()["letters"] == []


def test_wrong_csv_is_told_with_its_line(fresh: LiveServer) -> None:
    declare(fresh, format="csv")
    header = "ts,sensor,value_c\n"
    answer = push(fresh, header + "1,a,2\n1,a\n", "text/csv")
    assert "line 3 has 2 fields, there are 3 columns" in problem_of(answer, 400)["detail"]
    assert "line 2 is not CSV" in problem_of(push(fresh, header + '1,"a"b,2\n', "text/csv"), 400)["detail"]
    assert "is there twice" in problem_of(push(fresh, "ts,ts\n1,2\n", "text/csv"), 400)["detail"]
    partial = push(fresh, header + '1,a,2\n1,a\n2,b,3\n1,"a"b,2\n3,c,4\n', "text/csv", partial="true").json()
    assert (partial["accepted"], [each["line"] for each in partial["bad"]]) == (3, [3, 5])


def test_with_partial_a_wrong_record_is_a_dead_letter_that_can_be_tried_again(
    start_server: Start, tmp_path: Path
) -> None:
    live = start_server(data=str(tmp_path / "d"))
    declare(live)
    bad = json.dumps(record("b", 2, "soon"))
    body = f"{json.dumps(record('a', 1))}\n{bad}\n{{nonsense\n{json.dumps(record('c', 3))}\n"
    answer = push(live, body, "application/x-ndjson", partial="true").json()
    assert (answer["accepted"], answer["skipped"]) == (2, 0)
    assert [(each["line"], each["element"]) for each in answer["bad"]] == [(2, "line 2"), (3, "line 3")]
    letters = live.client.get("/streams/readings/dead-letters").json()["letters"]
    assert [(each["reason"], each["record"]) for each in letters] == [
        ("unreadable", bad),
        ("unreadable", "{nonsense"),
    ]
    assert "the field ts" in letters[0]["error"]
    retry = "/streams/readings/dead-letters:retry"
    first, second = (each["id"] for each in letters)
    assert live.client.post(retry, params={"id": first}).status_code == 400
    declare(live, time_format=None, time="sensor")  # nonsense, too
    assert live.client.post(retry, params={"id": first}).status_code == 400
    construct = CONSTRUCT.replace("?value_c", "?value_c ; :when ?ts")
    assert live.client.get("/streams/readings/late").json()["elements"] == []
    declare(live, construct=construct, time="value.c", time_format="s")
    tried = live.client.post(retry, params={"id": first})
    assert (tried.status_code, tried.json()["retried"], tried.json()["seq"]) == (200, "record", 3)
    assert live.client.post(retry, params={"id": first}).status_code == 404
    letters = live.client.get("/streams/readings/dead-letters").json()["letters"]
    assert second in [each["id"] for each in letters]
    assert first not in [each["id"] for each in letters]


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson", "text/csv"])
def test_a_record_that_is_refused_for_its_time_is_a_dead_letter(
    start_server: Start, tmp_path: Path, media_type: str
) -> None:
    live = start_server(data=str(tmp_path / "d"))
    mapping = {name: each for name, each in MAPPING.items() if name != "format"}
    assert (
        live.client.put("/streams", params={"iri": IRI}, json={"late": "error", "mapping": mapping})
    ).status_code == 201
    records = [
        record("a", 1, 1_000),
        record("b", 2, 9_000_000_000),
        record("c", 3, 500),
        record("d", 4, 2_000),
    ]
    body = {
        "application/json": json.dumps(records),
        "application/x-ndjson": "".join(json.dumps(each) + "\n" for each in records),
        "text/csv": "sensor,value_c,ts\n"
        + "".join(f"{each['sensor']},{each['value']['c']},{each['ts']}\n" for each in records),
    }[media_type]
    assert push(live, record("z", 0, 1_000)).status_code == 200
    answer = push(live, body, media_type, partial="true").json()
    assert answer["accepted"] == 2 and len(answer["bad"]) == 2
    letters = live.client.get("/streams/readings/dead-letters").json()["letters"]
    (late,) = (each for each in letters if each["reason"] == "unreadable")
    assert json.loads(late["record"])["sensor"] == "c" and "behind the watermark" in late["error"]
    (early,) = (each for each in letters if each["reason"] == "early")
    assert "<http://example.org/b>" in early["quads"] and "ahead of the clock" in early["error"]
    assert len(letters) == 2
    live.services.close()
    again = start_server(data=str(tmp_path / "d"))
    assert again.client.get("/streams/readings/dead-letters").json()["letters"] == letters
    retry = "/streams/readings/dead-letters:retry"
    assert again.client.post(retry, params={"id": letters[1]["id"]}).status_code in (400, 409, 422)
    assert again.client.get("/streams/readings/dead-letters").json()["letters"] == letters


@pytest.mark.parametrize("header", [True, False])
def test_a_dead_letter_of_csv_is_tried_again_as_what_it_was(
    start_server: Start, tmp_path: Path, header: bool
) -> None:
    names = dict(
        zip(("ts", "sensor", "value_c"), ("ts", "sensor", "value_c") if header else "abc", strict=True)
    )
    construct = CONSTRUCT
    for old, new in names.items():
        construct = construct.replace(f"?{old}", f"?{new}")
    live = start_server(data=str(tmp_path / "d"))
    declared = {"format": "csv", "header": header, "construct": construct, "time": names["ts"]}
    declare(live, **declared)
    body = ("ts,sensor,value_c\n" if header else "") + 'soon,a,1\n2000,"b"x,2\n3000,c\n4000,d,4'
    answer = push(live, body, "text/csv", partial="true").json()
    assert (answer["accepted"], len(answer["bad"])) == (1, 3)
    letters = live.client.get("/streams/readings/dead-letters").json()["letters"]
    assert len(letters) == 3
    line = letters[1]["record"]
    assert line.endswith('2000,"b"x,2\n') and line.startswith("ts,sensor") == header
    # A line of two fields is right where nothing tells that there are three columns.
    for letter in letters if header else letters[:2]:
        tried = live.client.post("/streams/readings/dead-letters:retry", params={"id": letter["id"]})
        assert tried.status_code == 400, tried.text
        told = "the field" if "{" in letter["record"] else "fields" if ",c" in letter["record"] else "not CSV"
        assert told in tried.json()["detail"]
    assert live.client.get("/streams/readings/dead-letters").json()["letters"] == letters
    declare(live, **declared | {"time": names["value_c"]})
    tried = live.client.post("/streams/readings/dead-letters:retry", params={"id": letters[0]["id"]})
    assert (tried.status_code, tried.json()["retried"]) == (200, "record"), tried.text
    left = live.client.get("/streams/readings/dead-letters").json()["letters"]
    assert letters[0]["id"] not in [each["id"] for each in left]


def test_each_triple_of_an_early_record_makes_a_letter(fresh: LiveServer) -> None:
    declare(fresh, construct=CONSTRUCT.replace("?value_c", "?value_c ; :also ?value_c"))
    answer = push(fresh, [record("a", 1, 9_000_000_000)], each="triple", partial="true").json()
    assert answer["accepted"] == 0 and len(answer["bad"]) == 2
    letters = fresh.client.get("/streams/readings/dead-letters").json()["letters"]
    assert [each["reason"] for each in letters] == ["early", "early"]
    predicates = [each["quads"].split()[1] for each in letters]
    assert predicates == ["<http://example.org/celsius>", "<http://example.org/also>"]


def test_other_formats_than_the_mapping_s_are_refused_and_rdf_enters_as_ever(fresh: LiveServer) -> None:
    declare(fresh)
    assert push(fresh, "ts\n1\n", "text/csv").status_code == 415
    assert push(fresh, "<urn:s> <urn:p> 1 .", "text/turtle", at=5).status_code == 200
    declare(fresh, format=None)
    assert push(fresh, "ts,sensor,value_c\n6,a,1\n", "text/csv").status_code == 200
    assert push(fresh, record("a", 1, 7)).status_code == 200
    fresh.client.put("/streams/plain", json={"iri": "urn:plain"})
    answer = fresh.client.post("/streams/plain", json={"a": 1})
    assert answer.status_code == 415
    assert "mapping" in problem_of(answer, 415)["hint"]


def test_a_wrong_mapping_is_refused_with_its_place(fresh: LiveServer) -> None:
    answer = declare(fresh, construct="CONSTRUCT { ?s ?p ?o }\nWHERE { ?s ?p ?o }")
    assert answer.status_code == 400
    problem = problem_of(answer, 400)
    assert (problem["line"], problem["column"]) == (2, 12)
    assert "BIND, FILTER, VALUES, OPTIONAL and UNION" in problem["hint"]
    assert fresh.client.get("/streams", params={"iri": IRI}).status_code == 404
    stamped = fresh.client.put("/streams/x", json={"mapping": MAPPING, "stamping": "arrival"})
    assert stamped.status_code == 400


def test_a_mapping_can_be_changed_and_taken_away(fresh: LiveServer) -> None:
    declare(fresh)
    push(fresh, record("a", 1))
    assert declare(fresh, time=None, time_format=None).status_code == 409
    assert declare(fresh, construct=CONSTRUCT.replace("celsius", "c")).status_code == 200
    push(fresh, record("a", 1, 1001))
    assert ["/c>" in each for each in seen(fresh)] == [True, False]
    plain = fresh.client.put("/streams", params={"iri": IRI}, json={})
    assert plain.json()["mapping"] is None
    assert push(fresh, record("a", 1)).status_code == 415


def test_a_mapping_survives_a_restart(start_server: Start, tmp_path: Path) -> None:
    live = start_server(data=str(tmp_path / "d"))
    declare(live)
    push(live, record("a", 1), wait="true")
    push(live, "{nonsense", "application/x-ndjson", partial="true")
    live.services.close()
    live = start_server(data=str(tmp_path / "d"))
    assert live.client.get("/streams", params={"iri": IRI}).json()["mapping"] == MAPPING
    assert push(live, record("b", 2)).json()["first_seq"] == 2
    assert [each.split("^")[0] for each in seen(live)] == [
        f'<http://example.org/{name}> <http://example.org/celsius> "{value}"'
        for name, value in (("b", 2), ("a", 1))
    ]
    letters = live.client.get("/streams/readings/dead-letters").json()["letters"]
    assert [each["record"] for each in letters] == ["{nonsense"]


def test_an_idempotency_key_repeats_the_answer_with_what_was_skipped(fresh: LiveServer) -> None:
    declare(fresh)
    headers = {"Idempotency-Key": "k"}
    body = [record("a", 1), {"ts": 5}]
    first, again = (
        fresh.client.post("/streams", params={"iri": IRI}, json=body, headers=headers).json()
        for _ in range(2)
    )
    assert first == again
    assert first["skipped"] == 1


def test_a_mapping_is_tried_without_anything_entering(fresh: LiveServer) -> None:
    declare(fresh)
    double = "http://www.w3.org/2001/XMLSchema#double"
    expected = f'<http://example.org/a> <http://example.org/celsius> "21.5"^^<{double}> .\n'
    for path, parameters in (("/streams:map", {"iri": IRI}), ("/streams/readings:map", {})):
        answer = fresh.client.post(path, params=parameters, json=record("a", 21.5))
        assert (answer.status_code, answer.text) == (200, expected)
        assert answer.headers["Content-Type"].startswith("application/n-quads")
    wrong = fresh.client.post("/streams:map", params={"iri": IRI}, json=record("a", 1, "soon"))
    assert wrong.status_code == 400
    blank = {"construct": "CONSTRUCT { [] <urn:v> ?v } WHERE {}"}
    tried = fresh.client.post("/streams:map", json={"mapping": blank, "records": [{"v": 1}, {"v": 2}, {}]})
    assert len({quad.subject for quad in parse(tried.text, RdfFormat.N_QUADS)}) == 2
    assert seen(fresh) == []
    assert fresh.client.post("/streams:map", json={"records": []}).status_code == 400
    for body, told in (
        ({"mapping": blank}, "has no records"),
        ({}, "has no mapping and no records"),
        ({"mapping": blank, "records": [], "more": 1}, "has 'more', which is no member"),
    ):
        assert told in problem_of(fresh.client.post("/streams:map", json=body), 400)["detail"]
    table = {"mapping": blank, "records": "v,w\r\n1,2\r\n,3\r\n"}
    assert fresh.client.post("/streams:map", json=table).text.count("\n") == 1
    headless = {
        "mapping": {"construct": "CONSTRUCT { [] <urn:p> ?b } WHERE {}", "header": False},
        "records": "1,2",
    }
    assert '"2"' in fresh.client.post("/streams:map", json=headless).text
    only = {"mapping": {**blank, "format": "json"}, "records": "v\n1"}
    assert fresh.client.post("/streams:map", json=only).status_code == 415
    assert fresh.client.post("/streams:map", params={"iri": "urn:none"}, json={}).status_code == 404
    fresh.client.put("/streams/plain", json={})
    assert fresh.client.post("/streams/plain:map", json={}).status_code == 400
    bad = fresh.client.post("/streams:map", json={"mapping": {"construct": "SELECT"}, "records": []})
    assert bad.status_code == 400
    for value in ("1e999", '"\\ud800"', "[" * 300 + "]" * 300):
        body = f'{{"mapping": {json.dumps(blank)}, "records": [{{"v": {value}}}]}}'
        assert fresh.client.post("/streams:map", content=body).status_code == 400


def test_records_over_limits_are_refused(fresh: LiveServer) -> None:
    declare(fresh, construct="CONSTRUCT { <urn:s> <urn:p> ?a , ?b } WHERE {}")
    many = {"ts": 1, "a": list(range(200)), "b": list(range(200))}
    assert push(fresh, many).status_code in (400, 413)
    long = json.dumps({"ts": 1, "a": "x" * 1_000_001})
    assert push(fresh, long, "application/x-ndjson").status_code in (400, 413)
    deep = '{"ts": 1, "a": ' + '{"a":' * 150 + "1" + "}" * 150 + "}"
    assert push(fresh, deep, "application/x-ndjson").status_code in (400, 413)


def test_the_command_line_declares_a_mapped_stream_and_shows_what_records_would_be(
    fresh: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, records, table = tmp_path / "m.rq", tmp_path / "r.json", tmp_path / "t.csv"
    text.write_text(CONSTRUCT)
    records.write_text(json.dumps([record("a", 21.5), record("b", 1)]))
    table.write_text("sensor,value.c,ts\nc,5,\n")

    def run(*arguments: str) -> str:
        assert main([*arguments, "--server", fresh.url]) == 0
        return capsys.readouterr().out

    assert (
        run("declare", IRI, "--mapping", str(text), "--time", "ts", "--time-format", "s")
        == "readings declared\n"
    )
    assert run("map", "readings", str(records)).count("celsius") == 2
    assert '<http://example.org/c> <http://example.org/celsius> "5" .\n' == run(
        "map", str(table), "--mapping", str(text)
    )
    assert json.loads(run("push", "readings", str(records)))["accepted"] == 2
    assert main(["map", str(records), "--server", fresh.url]) == 2
    assert "no mapping is given" in capsys.readouterr().err


def test_letters_that_have_gone_since_they_were_listed_are_not_dropped_again(
    fresh: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(fresh)
    push(fresh, "{nonsense\n{more\n{most\n", "application/x-ndjson", partial="true")
    engine = fresh.services.engine
    listed = engine.streams.dead_letters("readings")
    engine.streams.drop_dead_letters("readings", [listed[0]["id"]])
    lists = [listed, engine.streams.dead_letters("readings")]
    monkeypatch.setattr(engine.streams, "dead_letters", lambda name: lists.pop(0))
    dropped = fresh.client.delete("/streams/readings/dead-letters", params={"reason": "unreadable"})
    assert (dropped.status_code, dropped.json()) == (200, {"dropped": 2})
    monkeypatch.undo()
    assert engine.streams.dead_letters("readings") == []


TABLE = f"VALUES ?v {{ {' '.join(map(str, range(101)))} }}"
MUCH = {"construct": f"CONSTRUCT {{ <urn:s> <urn:p> ?a }} WHERE {{ {TABLE} }}"}
MANY = list(range(100))
SLOW = {
    "construct": "CONSTRUCT { <urn:s> <urn:p> ?v } WHERE { "
    f"VALUES ?v {{ {' '.join(map(str, range(9_000)))} }} "
    "FILTER(REGEX(?a, CONCAT('(x+x+)+', STR(?v), '$'))) }"
}


def test_a_record_over_a_limit_is_an_error_of_the_push_with_its_place(fresh: LiveServer) -> None:
    assert declare(fresh, **{**dict.fromkeys(MAPPING), **MUCH}).status_code == 201
    lines = "\n".join(json.dumps({"a": each}) for each in (1, MANY, 2))
    problem = problem_of(push(fresh, lines, "application/x-ndjson"), 400)
    assert problem["code"] == "limit" and problem["detail"].startswith("line 2: ")
    answer = push(fresh, lines, "application/x-ndjson", partial="true").json()
    assert [each["element"] for each in answer["bad"]] == ["line 2"]
    (letter,) = fresh.client.get("/streams/readings/dead-letters").json()["letters"]
    assert json.loads(letter["record"]) == {"a": MANY} and "10,000 solutions" in letter["error"]


def test_the_limits_of_a_record_are_settings(start_server: Start) -> None:
    table = f"VALUES ?v {{ {' '.join(map(str, range(500)))} }}"
    texts = {"construct": f"CONSTRUCT {{ ?s ?p ?t }} WHERE {{ {table} BIND(CONCAT(?a, STR(?v)) AS ?t) }}"}
    for mapping, settings in (
        (SLOW, {"max_record_time": "100ms"}),
        (texts, {"max_record_time": "60s", "max_record_bytes": 100_000}),
    ):
        live = start_server(**settings)
        assert declare(live, **{**dict.fromkeys(MAPPING), **mapping}).status_code == 201
        (*_, name) = settings
        assert name in problem_of(push(live, {"a": "x" * 50_000}), 400)["detail"]


def test_a_mapping_in_the_body_needs_the_role_write(start_server: Start) -> None:
    token = "t" * 32
    live = start_server(token=token)
    admin = {"Authorization": f"Bearer {token}"}
    tokens = {}
    for role in ("read", "write"):
        secret = f"{role}-" * 8
        live.services.registry.tokens.add(TokenRecord(hash_token(secret), role, role))
        tokens[role] = {"Authorization": f"Bearer {secret}"}
    declared = {"iri": IRI, "mapping": MAPPING}
    assert live.client.put("/streams", json=declared, headers=admin).status_code == 201
    body = {"mapping": MAPPING, "records": [record("a", 1)]}
    for headers, status in ((tokens["read"], 403), (tokens["write"], 200), (admin, 200)):
        answer = live.client.post("/streams:map", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        stored = live.client.post("/streams:map", params={"iri": IRI}, json=record("a", 1), headers=headers)
        assert stored.status_code == 200 and "celsius" in stored.text
    for content in (json.dumps(body), "{"):
        refused = live.client.post("/streams:map", content=content, headers=tokens["read"])
        assert problem_of(refused, 403)["code"] == "forbidden"


@pytest.mark.always("/streams:map")
@pytest.mark.parametrize("path", ["/streams:map", "/streams"])
def test_a_client_that_disconnects_ends_the_mapping_of_its_records(start_server: Start, path: str) -> None:
    live = start_server(max_record_time="60s")
    assert declare(live, **{**dict.fromkeys(MAPPING), **SLOW}).status_code == 201
    host, _, port = live.url.removeprefix("http://").rstrip("/").partition(":")
    body = json.dumps([{"a": "x" * 90_000}] * 20).encode()
    before = time.process_time()
    with socket.create_connection((host, int(port))) as client:
        head = f"POST {path}?iri={IRI} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json"
        sent = f"{head}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(sent.encode() + body)
        time.sleep(1)
        # Other clients are served meanwhile.
        assert live.client.get("/health/live", timeout=10).status_code == 200
    time.sleep(1)
    middle = time.process_time()
    time.sleep(1)
    assert middle > before
    assert time.process_time() - middle < 0.5
