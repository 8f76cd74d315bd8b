"""What explain and validate tell of a text: the same offline and over HTTP, with warnings and every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.app.cli import main
from tests.app.conftest import LiveServer

TEXT = """PREFIX : <http://example.org/>
SELECT ?car ?owner ?v WHERE {
  STREAM :entries [RANGE 10m] { ?car :entered ?gate }
  STREAM :radar [ALL] { ?r :speed ?v }
  ?car :ownedBy/:name ?owner .
}
"""
UNUSED = """PREFIX : <http://example.org/>
SELECT ?a FROM NAMED WINDOW :w ON :s [RANGE PT10S] FROM NAMED WINDOW :v ON :s [RANGE PT1S]
WHERE { WINDOW :w { ?a :p ?b } }
"""
WRITTEN = """\
           SELECT ?car ?owner ?v
           WHERE {
             STREAM :entries [RANGE 10m] {
               ?car :entered ?gate .
             }"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.cqels").write_text(TEXT)
    (tmp_path / "unused.rspql").write_text(UNUSED)
    (tmp_path / "bad.cqels").write_text("SELECT ?a WHERE {\n  STREAM <s> [RANGE x] { ?a <p> }\n}")
    return tmp_path


def test_a_file_is_explained_without_a_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder / "q.cqels")]) == 0
    printed = capsys.readouterr()
    for part in (
        WRITTEN,
        "dialect  cqels, profile cqels, SELECT",
        "report   on-content-change, output istream",
        "stream   <http://example.org/entries>",
        "window   <urn:quadrill:window:2> on <http://example.org/radar> [ALL]",
        "?car :ownedBy ",
        "(window <urn:quadrill:window:1>",
    ):
        assert part in printed.out, part
    assert "its state is unbounded" in printed.err
    assert "Nothing connects ?car, ?gate, ?owner with ?r, ?v" in printed.err
    assert "?gate occurs only once" in printed.err
    assert "No triple of the store" not in printed.err, "there is no store"


def test_unused_windows_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder / "unused.rspql")]) == 0
    assert (
        "<http://example.org/v> on <http://example.org/s> is declared but not used" in capsys.readouterr().err
    )


def test_every_fault_of_a_wrong_file_is_told_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder / "bad.cqels")]) == 1
    told = capsys.readouterr().err
    assert told.count("quadrill: line 2, column ") == 2
    assert told.count("line 2, column 21:") == 1
    assert told.count("^") == 2
    assert "Traceback" not in told


def test_validation_tells_the_same_and_registers_nothing(server: LiveServer) -> None:
    answer = server.client.post("/queries:validate", json={"query": TEXT, "name": "cars"})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["dialect"], found["profile"], found["form"]) == ("cqels", "cqels", "select")
    assert [stream["iri"] for stream in found["streams"]] == [
        "http://example.org/entries",
        "http://example.org/radar",
    ]
    assert [window["window"] for window in found["windows"]] == ["[RANGE 10m]", "[ALL]"]
    (part,) = found["static_parts"]
    assert ":ownedBy" in part["pattern"] and set(part["variables"]) == {"car", "owner"}
    assert found["algebra"].startswith("(project (?car ?owner ?v)")
    assert [warning.split()[0] for warning in found["warnings"]] == [
        "The", "Nothing", "?gate", "?r", "No", "No",
    ]  # fmt: skip
    assert found["warnings"][4:] == [
        f"No triple of the store has the predicate <http://example.org/{name}>."
        for name in ("ownedBy", "name")
    ]
    assert WRITTEN in found["plan"]
    assert server.client.get("/queries").json()["queries"] == []


JOINED = """PREFIX : <http://example.org/>
SELECT ?car ?owner WHERE {
  STREAM :entries [RANGE 10m] { ?car :entered ?gate FILTER(?gate != :back) }
  ?car :owner ?owner .
}
"""


def test_the_source_of_a_file_is_shown_without_a_server(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "joined.cqels").write_text(JOINED)
    assert main(["explain", "--code", str(folder / "joined.cqels")]) == 0
    printed = capsys.readouterr().out
    compile(printed, "printed", "exec")
    assert "def step(changes, first):" in printed
    assert "<http://example.org/entered>" in printed, "constants are told as comments"
    assert "look-up in #" in printed


def test_live_figures_need_a_registered_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--analyze", str(folder / "q.cqels")]) == 1
    assert "no live figures" in capsys.readouterr().err


def test_rows_and_times_of_each_operator_are_told_while_a_query_runs(server: LiveServer) -> None:
    client = server.client
    owned = "".join(f"<urn:car{n}> <http://example.org/owner> <urn:owner{n % 3}> .\n" for n in range(100))
    client.post("/store?default", content=owned, headers={"Content-Type": "text/turtle"}).raise_for_status()
    client.put("/queries/owners", json={"query": JOINED}).raise_for_status()
    for n in range(150):
        gate = "back" if n % 2 else "front"
        triple = f"<urn:car{n}> <http://example.org/entered> <http://example.org/{gate}> .\n"
        answer = client.post(
            "/streams",
            params={"at": n, "iri": "http://example.org/entries", "wait": "true"},
            content=triple,
            headers={"Content-Type": "application/n-triples"},
        )
        assert answer.status_code in (200, 202), answer.text
    found = client.get("/queries/owners/explain", params={"analyze": "true"}).json()
    operators = {each["operator"]: each for each in found["operators"]}
    assert found["steps"] >= 150 > found["timed_steps"] >= 2
    assert operators["window"]["rows_out"] == 150
    # The rows of the table are looked into where they are: they never enter the join, which has them still.
    assert operators["join"]["rows_in"] == 75 and operators["join"]["rows_out"] == 50
    assert operators["join"]["state_rows"] == 75 + 100
    assert operators["join"]["microseconds"] > 0
    assert operators["filter"]["rows_in"] == 150 and operators["filter"]["rows_out"] == 75
    told = client.get(
        "/queries/owners/explain", params={"analyze": "true"}, headers={"Accept": "text/plain"}
    ).text
    assert "150 rows in, 75 out" in told and " µs" in told
    code = client.get("/queries/owners/explain", params={"code": "true"})
    assert code.headers["Content-Type"].startswith("text/plain")
    compile(code.text, "code", "exec")
    both = client.get("/queries/owners/explain", params={"code": "true", "analyze": "true"}).json()
    assert "def step(" in both["code"] and both["operators"]


def test_a_registration_tells_what_may_be_slips(server: LiveServer) -> None:
    text = "SELECT ?s ?valeu { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?value FILTER(?value > 1) } }"
    answer = server.client.put("/queries/slip", json={"query": text})
    assert answer.status_code == 201
    assert answer.json()["warnings"] == ["?valeu is never bound: is ?value meant?"]
    assert (
        server.client.post("/queries:validate", json={"query": text}).json()["warnings"]
        == answer.json()["warnings"]
    )
    assert server.client.get("/queries/slip").json()["warnings"] == [], "descriptions do not repeat them"
    assert server.client.delete("/queries/slip").status_code == 204


def test_a_self_contained_stream_splits_more_queries(server: LiveServer) -> None:
    text = """PREFIX : <http://example.org/>
    SELECT ?s (AVG(?v) AS ?mean) WHERE { STREAM :obs [RANGE 1m] { ?o :sensor ?s ; :value ?v } } GROUP BY ?s"""
    stream = {"iri": "http://example.org/obs"}
    assert "self_contained" not in server.client.put("/streams/obs", json=stream).json()
    server.client.put("/queries/means", json={"query": text}).raise_for_status()

    def key() -> object:
        scale_out = server.client.get("/queries/means/explain", headers={"Accept": "application/json"}).json()
        return scale_out["scale_out"]["key"]

    assert key() == ["?o"]
    declared = server.client.put("/streams/obs", json=stream | {"self_contained": True})
    assert declared.json()["self_contained"] is True
    assert key() == ["?s"]
    refused = server.client.put("/streams/obs", json=stream | {"self_contained": "yes"})
    assert refused.status_code == 400
