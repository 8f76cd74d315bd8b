"""Streams whose elements are validated by registered shapes when they are accepted."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app.cli import main
from quadrill.continuous.shapes.errors import ShapesBudgetError
from quadrill.continuous.shapes.shape_set import ShapeSet
from tests.app.conftest import LiveServer, Start

SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix : <http://e/> .
:S sh:targetSubjectsOf :temperature ;
  sh:property [ sh:path :temperature ; sh:maxInclusive 100 ; sh:message "too hot" ] ,
    [ sh:path :in ; sh:minCount 1 ; sh:message "no room" ] ,
    [ sh:path :temperature ; sh:minInclusive 0 ; sh:severity sh:Warning ] ."""
IRI = "http://e/readings"


def reading(node: str, value: int) -> str:
    number = f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f"<http://e/{node}> <http://e/temperature> {number} ."


GOOD, HOT = reading("a", 20), reading("a", 200)


@pytest.fixture
def live(start_server: Start) -> LiveServer:
    server = start_server()
    prepare(server)
    return server


def prepare(server: LiveServer) -> None:
    put_shapes(server)
    update(server, "INSERT DATA { :a :in :kitchen . :standing :temperature 500 }")


def put_shapes(server: LiveServer, shapes: str = SHAPES, **parameters: str) -> None:
    headers = {"Content-Type": "text/turtle"}
    answer = server.client.put("/shapes/s", params=parameters, content=shapes, headers=headers)
    assert answer.status_code in (200, 201), answer.text


def update(server: LiveServer, text: str) -> None:
    headers = {"Content-Type": "application/sparql-update"}
    answer = server.client.post("/update", content=f"PREFIX : <http://e/> {text}", headers=headers)
    assert answer.status_code == 204, answer.text


def declare(server: LiveServer, **members: Any) -> httpx.Response:
    return server.client.put("/streams/r", json={"iri": IRI, "shapes": "s", **members})


def push(server: LiveServer, *elements: str, **parameters: str) -> httpx.Response:
    lines = [json.dumps({"at": 1000 * (at + 1), "data": data}) for at, data in enumerate(elements)]
    headers = {"Content-Type": "application/x-ndjson"}
    if "Idempotency-Key" in parameters:
        headers["Idempotency-Key"] = parameters.pop("Idempotency-Key")
    return server.client.post("/streams/r", content="\n".join(lines), params=parameters, headers=headers)


def accepted(server: LiveServer) -> list[str]:
    listed = server.client.get("/streams/r/elements").json()["elements"]
    return [each["quads"] for each in reversed(listed)]


def letters(server: LiveServer) -> list[dict[str, Any]]:
    return list(server.client.get("/streams/r/dead-letters").json()["letters"])


def test_an_element_that_does_not_conform_becomes_a_dead_letter_with_its_report(live: LiveServer) -> None:
    assert declare(live).json()["on_violation"] == "dead-letter"
    answer = push(live, GOOD, HOT, reading("b", -5), GOOD)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 2)
    assert [text.split()[0] for text in accepted(live)] == ["<http://e/a>"] * 2
    hot, homeless = letters(live)
    assert (hot["reason"], hot["seq"], hot["at"], hot["entered"]) == ("shape", None, 2000, False)
    assert "too hot" in hot["error"] and "200" in hot["quads"]
    assert "sh:ValidationReport" in hot["report"] and "too hot" in hot["report"]
    assert "no room" in homeless["report"] and "Warning" not in homeless["report"]
    described = live.client.get("/streams/r").json()
    assert (described["shapes"], described["late_counts"]["refused"]) == ("s", 2)
    assert described["last_seq"] == 2


def test_a_standing_violation_of_the_data_blocks_no_element(live: LiveServer) -> None:
    declare(live)
    assert push(live, '<http://e/standing> <http://e/unit> "C" .').json()["accepted"] == 1
    assert letters(live) == []


def test_with_refuse_the_push_is_422_and_nothing_is_accepted(live: LiveServer) -> None:
    declare(live, on_violation="refuse")
    answer = push(live, GOOD, HOT, reading("a", 300))
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["code"], problem["results"], problem["shapes"]) == ("shacl-violation", 2, "s")
    assert problem["report"].count("sh:resultMessage") == 2
    assert accepted(live) == [] and letters(live) == []
    assert push(live, GOOD).json()["accepted"] == 1


@pytest.mark.parametrize("policy", ["refuse", "dead-letter"])
def test_a_partial_push_lists_the_elements_that_do_not_conform(live: LiveServer, policy: str) -> None:
    declare(live, on_violation=policy)
    answer = push(live, GOOD, HOT, partial="true").json()
    assert answer["accepted"] == 1
    (bad,) = answer["bad"]
    assert "too hot" in bad["error"] and bad["line"] == 2
    assert len(letters(live)) == (policy == "dead-letter")
    assert live.client.get("/streams/r").json()["late_counts"]["refused"] == 1


def test_a_retry_validates_again(live: LiveServer) -> None:
    declare(live)
    push(live, reading("b", 20) + "\n<http://e/b> <http://e/near> _:x .")
    (letter,) = letters(live)
    path = f"/streams/r/dead-letters:retry?id={letter['id']}"
    answer = live.client.post(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "shacl-violation")
    assert len(letters(live)) == 1
    update(live, "INSERT DATA { :b :in :hall }")
    answer = live.client.post(path)
    assert (answer.status_code, answer.json()["seq"]) == (200, 1), answer.text
    assert letters(live) == [] and "<http://e/b>" in accepted(live)[0]
    assert live.client.post(path).status_code == 404


def test_a_repeated_push_gets_the_first_answer_without_a_validation(live: LiveServer) -> None:
    declare(live, on_violation="refuse")
    key = {"Idempotency-Key": "k"}
    assert push(live, GOOD, **key).json()["first_seq"] == 1
    update(live, "DELETE DATA { :a :in :kitchen }")
    assert push(live, GOOD, **key).json()["first_seq"] == 1
    assert push(live, GOOD).status_code == 422


def test_shapes_of_a_stream_must_exist_and_stay(live: LiveServer) -> None:
    for parameters in ({}, {"dry_run": "true"}):
        members = {"iri": IRI, "shapes": "other"}
        answer = live.client.put("/streams/r", json=members, params=parameters)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-shapes")
    declare(live)
    answer = live.client.delete("/shapes/s")
    assert (answer.status_code, answer.json()["code"]) == (409, "in-use")
    assert answer.json()["used_by"] == ["the stream r"]
    assert "shapes" not in live.client.put("/streams/r", json={"iri": IRI}).json()
    assert live.client.delete("/shapes/s").status_code == 204


@pytest.mark.parametrize(
    "members",
    [{"on_violation": "drop"}, {"shapes": None, "on_violation": "refuse"}, {"shapes": 7}, {"shapes": "a b"}],
)
def test_a_wrong_declaration_is_400(live: LiveServer, members: dict[str, Any]) -> None:
    answer = declare(live, **members)
    assert answer.status_code == 400, answer.text


def test_a_costly_element_is_kept_with_the_reason_and_the_rest_of_the_push_waits_for_no_validation(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def added_by(*arguments: Any) -> Any:
        calls.append(arguments)
        raise ShapesBudgetError("the validation takes longer than 1 ms (max_time)")

    monkeypatch.setattr(ShapeSet, "added_by", added_by)
    declare(live)
    assert push(live, GOOD, GOOD).json()["accepted"] == 0
    assert len(calls) == 1
    first, second = letters(live)
    assert (
        first["error"]
        == second["error"]
        == ("the shapes s: the validation takes longer than 1 ms (max_time)")
    )
    assert first["report"] is None
    declare(live, on_violation="refuse")
    answer = push(live, GOOD)
    assert (answer.status_code, answer.json()["code"]) == (422, "shapes-budget")


def test_failed_shapes_let_no_element_in(live: LiveServer) -> None:
    declare(live)
    put_shapes(live, max_results="1")
    assert live.client.get("/shapes/s").json()["state"] == "failed"
    assert push(live, GOOD).json()["accepted"] == 0
    (letter,) = letters(live)
    assert "failed" in letter["error"]
    declare(live, on_violation="refuse")
    assert push(live, GOOD).json()["code"] == "shapes-failed"


def test_records_of_a_mapped_stream_are_validated(live: LiveServer) -> None:
    construct = "PREFIX : <http://e/> CONSTRUCT { :a :temperature ?t } WHERE {}"
    mapping = {"format": "json", "construct": construct, "time": "at", "time_format": "s"}
    declare(live, mapping=mapping)
    headers = {"Content-Type": "application/json"}
    records = json.dumps([{"t": 20, "at": 1}, {"t": 200, "at": 2}])
    answer = live.client.post("/streams/r", content=records, headers=headers)
    assert answer.json()["accepted"] == 1, answer.text
    (letter,) = letters(live)
    assert (letter["reason"], letter["at"]) == ("shape", 2000)


def test_lines_that_come_while_the_connection_is_open_are_validated(live: LiveServer) -> None:
    declare(live)

    def lines() -> Iterator[bytes]:
        for at, data in enumerate((GOOD, HOT)):
            yield json.dumps({"at": 1000 + at, "data": data}).encode() + b"\n"

    headers = {"Content-Type": "application/x-ndjson"}
    answer = live.client.post("/streams/r", content=lines(), headers=headers)
    assert answer.status_code == 200, answer.text
    assert len(accepted(live)) == len(letters(live)) == 1


def test_a_source_keeps_elements_that_do_not_conform_and_goes_on(start_server: Start, tmp_path: Path) -> None:
    live = start_server(source_folders=[str(tmp_path)])
    prepare(live)
    for policy, kept in (("refuse", 0), ("dead-letter", 1)):
        declare(live, on_violation=policy)
        before = len(accepted(live))
        file = tmp_path / f"{policy}.ndjson"
        file.write_text(
            "".join(json.dumps({"at": at, "data": data}) + "\n" for at, data in ((1, HOT), (2, GOOD)))
        )
        members = {"kind": "file", "path": str(file), "stream": IRI}
        answer = live.client.put(f"/sources/{policy}", json=members)
        assert answer.status_code in (200, 201), answer.text
        until = time.monotonic() + 10
        while len(accepted(live)) + live.client.get("/streams/r").json()["late_counts"]["dropped"] == before:
            assert time.monotonic() < until, live.client.get(f"/sources/{policy}").text
            time.sleep(0.05)
        assert len([each for each in letters(live) if each["reason"] == "shape"]) == kept
        live.client.delete(f"/sources/{policy}")


def test_after_a_restart_acceptance_is_not_decided_again(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"))
    prepare(server)
    declare(server)
    push(server, GOOD, HOT)
    before = accepted(server), letters(server)
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("LOCK"))
    for folder in ("copy", "data"):
        if folder == "data":
            server.services.close()
        again = start_server(data=str(tmp_path / folder))
        assert (accepted(again), letters(again)) == before
        update(again, "DELETE DATA { :a :in :kitchen }")
        assert push(again, GOOD).json()["accepted"] == 0
        assert len(letters(again)) == 2


def test_apply_and_dump_carry_the_shapes_of_a_stream(
    live: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live.client.delete("/shapes/s")
    (tmp_path / "shapes.ttl").write_text(SHAPES)
    file = tmp_path / "all.toml"
    file.write_text(f'[shapes.s]\nfile = "shapes.ttl"\n[streams.r]\niri = "{IRI}"\nshapes = "s"\n')
    assert main(["apply", str(file), "--server", live.url]) == 0
    assert live.client.get("/streams/r").json()["on_violation"] == "dead-letter"
    capsys.readouterr()
    assert main(["apply", str(file), "--server", live.url]) == 0
    assert "0 changed, 2 same" in capsys.readouterr().out
    assert main(["dump", "--server", live.url]) == 0
    dumped = capsys.readouterr().out
    assert 'shapes = "s"' in dumped
    file.write_text(dumped)
    assert main(["apply", str(file), "--server", live.url]) == 0
    assert "0 changed, 2 same" in capsys.readouterr().out


def test_the_stamping_of_a_stream_is_decided_by_an_element_that_does_not_conform(live: LiveServer) -> None:
    declare(live)
    headers = {"Content-Type": "text/turtle"}
    answer = live.client.post("/streams/r", content=HOT, headers=headers)
    assert answer.json()["accepted"] == 0
    (letter,) = letters(live)
    put_shapes(live, SHAPES.replace("100", "1000"))
    assert live.client.post(f"/streams/r/dead-letters:retry?id={letter['id']}").json()["seq"] == 1
    assert live.client.get("/streams/r").json()["stamping"] == "arrival"
