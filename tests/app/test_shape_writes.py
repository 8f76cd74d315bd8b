"""Every write of the store over HTTP with shapes of each mode, their budgets, and rules that run first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from tests.app.conftest import LiveServer

SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:Named> sh:targetClass <urn:P> ; sh:property [ sh:path <urn:name> ; sh:minCount 1 ] .
<urn:Aged> sh:targetClass <urn:P> ;
  sh:property [ sh:path <urn:age> ; sh:minCount 1 ; sh:severity sh:Warning ] .
"""
DATA = ["default", "urn:names", "urn:g", "urn:view", "urn:inferred"]
BEFORE = """INSERT DATA {
    <urn:old> a <urn:P> . <urn:x> a <urn:P> . <urn:y> a <urn:P> . <urn:q1> a <urn:Q> . <urn:q2> a <urn:Q> .
    GRAPH <urn:names> { <urn:x> <urn:name> "x" . <urn:y> <urn:name> "y" } }"""
"""One standing violation, of ``urn:old``; ``urn:x`` and ``urn:y`` are named in a graph of names."""
TWO = "<urn:a> a <urn:P> .\n<urn:b> a <urn:P> .\n"
LINES = TWO.replace(" a ", " <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ")
RULE = "CONSTRUCT { ?x a <urn:P> } WHERE { ?x a <urn:Q> }"
OTHER_RULE = "CONSTRUCT { ?x <urn:other> 1 } WHERE { ?x a <urn:Q> }"
VIEW = """CONSTRUCT { ?s a <urn:P> } INTO GRAPH <urn:view>
    WHERE { STREAM <http://e/s> [RANGE 1h] { ?s <urn:v> ?o } }"""
TURTLE, SPARQL = {"Content-Type": "text/turtle"}, {"Content-Type": "application/sparql-update"}
MODES = ("reject", "warn", "watch")


@dataclass
class Outcome:
    """What a write has answered: an error document without any, the number of violations otherwise."""

    violations: int = 0
    error: dict[str, Any] = field(default_factory=dict)


Write = Callable[[LiveServer], Outcome]


def answered(answer: httpx.Response) -> Outcome:
    if answer.status_code == 422:
        return Outcome(error=answer.json())
    assert answer.status_code < 300, answer.text
    return Outcome(int(answer.headers.get("Quadrill-Violations", 0)))


def of_job(server: LiveServer, answer: httpx.Response) -> Outcome:
    assert answer.status_code == 202, answer.text
    until = time.monotonic() + 30
    while time.monotonic() < until:
        job = server.client.get(answer.headers["Location"]).json()
        if job["state"] == "failed":
            return Outcome(error=job)
        if job["state"] == "done":
            return Outcome(job["progress"]["violations"])
        time.sleep(0.02)
    raise AssertionError("the job has not ended")


# --- the writes --------------------------------------------------------------------------------------------


def update(server: LiveServer) -> Outcome:
    return answered(server.update(f"INSERT DATA {{ {TWO} }}"))


def put_graph(server: LiveServer) -> Outcome:
    return answered(server.client.put("/store?graph=urn:g", content=TWO, headers=TURTLE))


def put_dataset(server: LiveServer) -> Outcome:
    content = "<urn:old> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:P> .\n" + LINES
    headers = {"Content-Type": "application/n-quads"}
    return answered(server.client.put("/store", content=content, headers=headers))


def post_graph(server: LiveServer) -> Outcome:
    return answered(server.client.post("/store?default", content=TWO, headers=TURTLE))


def post_dataset(server: LiveServer) -> Outcome:
    headers = {"Content-Type": "application/n-quads"}
    return answered(server.client.post("/store", content=LINES, headers=headers))


def delete_graph(server: LiveServer) -> Outcome:
    return answered(server.client.delete("/store?graph=urn:names"))


def load(server: LiveServer) -> Outcome:
    return of_job(server, server.client.post("/loads", json={"source": "two.nt"}))


def large_load(server: LiveServer) -> Outcome:
    return of_job(server, server.client.post("/loads", json={"source": "two.nt", "engine": "oxigraph"}))


def restore(server: LiveServer) -> Outcome:
    return of_job(server, server.client.post("/restores", json={"folder": "saved"}))


def view(server: LiveServer) -> Outcome:
    """Push two elements in one batch; the view's commit has no answer, so the query tells of a refusal."""
    made = server.client.put("/queries/seen", json={"query": VIEW})
    assert made.status_code == 201, made.text
    lines = '{"at": 1000, "data": "<urn:a> <urn:v> <urn:c> .\\n<urn:b> <urn:v> <urn:c> ."}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    pushed = server.client.post("/streams?iri=http://e/s&wait=true", content=lines, headers=headers)
    assert pushed.status_code == 200, pushed.text
    until = time.monotonic() + 30
    while time.monotonic() < until:
        described = server.client.get("/queries/seen").json()
        if described["state"] == "failed" or server.boolean("ASK { GRAPH <urn:view> { <urn:b> a <urn:P> } }"):
            break
        time.sleep(0.02)
    assert described["state"] in ("failed", "running")
    return Outcome(error={"error": described["error"]} if described["state"] == "failed" else {})


def put_rules(server: LiveServer, *, rule: str = RULE, wait: str = "true") -> httpx.Response:
    members = {"rules": [rule], "into": "urn:inferred", "from": ["default"]}
    return server.client.put("/rules/people", json=members, params={"wait": wait})


def new_rules(server: LiveServer) -> Outcome:
    return answered(put_rules(server))


def new_rules_as_job(server: LiveServer) -> Outcome:
    return of_job(server, put_rules(server, wait="false"))


def replaced_rules(server: LiveServer) -> Outcome:
    assert put_rules(server, rule=OTHER_RULE).status_code == 201
    return answered(put_rules(server))


def rules_of_an_update(server: LiveServer) -> Outcome:
    """An update that adds no violation by itself: its inferred triples do."""
    server.update("DELETE WHERE { ?x a <urn:Q> }")
    assert put_rules(server).status_code == 201
    return answered(server.update("INSERT DATA { <urn:a> a <urn:Q> . <urn:b> a <urn:Q> }"))


WRITES: list[Write] = [
    update, put_graph, put_dataset, post_graph, post_dataset, delete_graph, load, large_load, restore, view,
    new_rules, new_rules_as_job, replaced_rules, rules_of_an_update,
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("shapes")
    (folder / "in").mkdir()
    (folder / "in" / "two.nt").write_text(LINES)
    settings = Settings(
        data=str(folder / "data"),
        port=0,
        load_folders=(str(folder / "in"),),
        backup_folder=str(folder / "backups"),
    )
    with running.serve(settings) as found:
        server = LiveServer(found)
        server.update(BEFORE)
        server.update(f"INSERT DATA {{ {TWO} }}")
        assert server.client.post("/backups", json={"folder": "saved"}).status_code == 201
        yield server
        server.client.close()


@pytest.fixture
def store(served: LiveServer) -> LiveServer:
    """The server with `BEFORE` as its data, and without shapes, rules and queries."""
    for kind in ("queries", "shapes", "rules"):
        for each in served.client.get(f"/{kind}").json()[kind]:
            served.client.delete(
                f"/{kind}/{each['name']}", params={"drop_graph": "true"} if kind == "queries" else {}
            )
    served.client.delete("/streams?iri=http://e/s")
    served.services.store.writer.replace_dataset(())
    assert served.update(BEFORE).status_code == 204
    return served


def put(server: LiveServer, mode: str, **parameters: Any) -> dict[str, Any]:
    answer = server.client.put(
        "/shapes/people", params={"mode": mode, "data": DATA, **parameters}, content=SHAPES, headers=TURTLE
    )
    assert answer.status_code in (200, 201), answer.text
    document: dict[str, Any] = answer.json()
    return document


def quads(server: LiveServer) -> list[str]:
    answer = server.client.get("/store?inferred=true", headers={"Accept": "application/n-quads"})
    return sorted(answer.text.splitlines())


def violations(server: LiveServer) -> int:
    found: int = (
        server.client.get("/shapes/people")
        .json()["severities"]
        .get("http://www.w3.org/ns/shacl#Violation", 0)
    )
    return found


@pytest.mark.parametrize("into", [None, "urn:report"], ids=["", "report"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.__name__)
def test_write_that_adds_two_violations(store: LiveServer, write: Write, mode: str, into: str | None) -> None:
    put(store, mode, **({} if into is None else {"into": into}))
    before, version = quads(store), store.services.store.reader.version
    standing = violations(store)
    outcome = write(store)
    if mode == "reject":
        assert outcome.error, "the write was not refused"
        if write is view:
            assert "violates the shapes people" in outcome.error["error"]
        else:
            assert outcome.error["code"] == "shacl-violation"
            assert (outcome.error["shapes"], outcome.error["results"]) == ("people", 2)
            report = outcome.error["report"]
            assert report.count("a sh:ValidationResult") == 2
            assert "sh:Warning" not in report and "<urn:old>" not in report
        if write not in (rules_of_an_update, replaced_rules):
            assert (quads(store), store.services.store.reader.version) == (before, version)
        assert violations(store) == standing
    else:
        added = 0 if mode == "watch" or write is view else 2
        assert (outcome.violations, outcome.error) == (added, {})
        assert violations(store) == standing + 2
    if into is not None:
        found = store.query(
            "ASK { GRAPH <urn:report> { ?r a <http://www.w3.org/ns/shacl#ValidationResult> ; "
            "<http://www.w3.org/ns/shacl#focusNode> <urn:old> } }"
        )
        assert found.json()["boolean"]
        count = store.query(
            "PREFIX sh: <http://www.w3.org/ns/shacl#> "
            "SELECT (COUNT(?r) AS ?n) { GRAPH <urn:report> { ?r a sh:ValidationResult } }"
        )
        results = store.client.get("/shapes/people").json()["results"]
        assert int(count.json()["results"]["bindings"][0]["n"]["value"]) == results


@pytest.mark.parametrize("mode", MODES)
def test_warnings_alone_are_not_counted(store: LiveServer, mode: str) -> None:
    put(store, mode)
    assert answered(store.update('INSERT DATA { <urn:a> a <urn:P> ; <urn:name> "a" }')) == Outcome()
    assert store.client.get("/shapes/people").json()["severities"] == {
        "http://www.w3.org/ns/shacl#Violation": 1,
        "http://www.w3.org/ns/shacl#Warning": 4,
    }


def test_delete_of_rules_is_refused_while_data_names_their_graph(store: LiveServer) -> None:
    put(store, "watch")
    assert put_rules(store).status_code == 201
    refused = store.client.delete("/rules/people")
    assert refused.status_code == 409
    assert (refused.json()["code"], refused.json()["used_by"]) == ("in-use", ["the shapes people"])
    store.client.delete("/shapes/people")
    assert store.client.delete("/rules/people").status_code == 204


@pytest.mark.parametrize("mode", MODES)
def test_delete_of_rules_adds_nothing_to_shapes_without_data(store: LiveServer, mode: str) -> None:
    """The graph of a deleted set is empty, so shapes of all graphs without an owner see no change."""
    assert put_rules(store).status_code == 201
    answer = store.client.put("/shapes/people", params={"mode": mode}, content=SHAPES, headers=TURTLE)
    assert answer.json()["results"] == 4
    assert answered(store.client.delete("/rules/people")) == Outcome()
    assert store.client.get("/shapes/people").json()["results"] == 4


@pytest.mark.parametrize(
    "write", [each for each in WRITES if each is not view], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("mode", MODES)
def test_write_over_the_number_of_results(store: LiveServer, write: Write, mode: str) -> None:
    results = put(store, mode)["results"]
    put(store, mode, max_results=results + 1, into="urn:report")
    before = quads(store)
    outcome = write(store)
    if mode == "reject":
        assert outcome.error["code"] == "shapes-budget"
        assert "max_results" in outcome.error.get("detail", outcome.error.get("error"))
        if write not in (rules_of_an_update, replaced_rules):
            assert quads(store) == before
        assert store.client.get("/shapes/people").json()["state"] == "ready"
        return
    assert outcome.error == {}
    described = store.client.get("/shapes/people").json()
    assert (described["state"], described["results"]) == ("failed", 0)
    assert "max_results" in described["error"]
    assert "urn:report" not in "".join(quads(store))
    report = store.client.get("/shapes/people/report")
    assert (report.status_code, report.json()["code"]) == (409, "shapes-failed")
    assert answered(store.update("INSERT DATA { <urn:c> a <urn:P> }")) == Outcome(), (
        "failed shapes check nothing"
    )
    assert put(store, mode)["state"] == "ready"


@pytest.mark.parametrize("mode", MODES)
def test_update_over_the_time(store: LiveServer, mode: str) -> None:
    chain = "".join(
        f"<urn:n{n}> <urn:next> <urn:n{(n * 7 + 3) % 3000}> , <urn:n{n + 1}> . " for n in range(3000)
    )
    slow = (
        "@prefix sh: <http://www.w3.org/ns/shacl#> . <urn:Slow> sh:targetSubjectsOf <urn:next> ; "
        "sh:property [ sh:path [ sh:zeroOrMorePath <urn:next> ] ; sh:maxCount 100000 ] ."
    )
    parameters = {"mode": mode, "max_time": "50ms"}
    made = store.client.put("/shapes/slow", params=parameters, content=slow, headers=TURTLE)
    assert made.status_code == 201, made.text
    started = time.monotonic()
    outcome = answered(store.update(f"INSERT DATA {{ {chain} }}"))
    assert time.monotonic() - started < 10
    described = store.client.get("/shapes/slow").json()
    if mode == "reject":
        assert (outcome.error["code"], described["state"]) == ("shapes-budget", "ready")
        assert not store.boolean("ASK { ?s <urn:next> ?o }")
    else:
        assert (outcome.error, described["state"]) == ({}, "failed")
        assert "max_time" in described["error"]
        assert store.boolean("ASK { ?s <urn:next> ?o }")


def test_failed_view_runs_again_once_the_shapes_allow_it(store: LiveServer) -> None:
    put(store, "reject")
    assert view(store).error
    put(store, "warn")
    assert store.client.patch("/queries/seen", json={"state": "running"}).status_code == 200
    line = '{"at": 2000, "data": "<urn:a> <urn:v> <urn:c> ."}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    assert store.client.post("/streams?iri=http://e/s", content=line, headers=headers).status_code == 200
    until = time.monotonic() + 20
    while not store.boolean("ASK { GRAPH <urn:view> { <urn:a> a <urn:P> } }"):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert store.client.get("/queries/seen").json()["state"] == "running"


def test_representation_of_a_write_has_the_violations(store: LiveServer) -> None:
    put(store, "warn")
    headers = SPARQL | {"Prefer": "return=representation"}
    answer = store.client.post("/update", content=f"INSERT DATA {{ {TWO} }}", headers=headers)
    assert (answer.json()["violations"], answer.headers["Quadrill-Violations"]) == (2, "2")


def test_violations_of_several_shapes_are_added(store: LiveServer) -> None:
    put(store, "warn")
    for name, mode in (("more", "warn"), ("less", "watch")):
        store.client.put(f"/shapes/{name}", params={"mode": mode}, content=SHAPES, headers=TURTLE)
    assert update(store) == Outcome(4)


def test_loads_of_the_command_line_name_the_violations(
    store: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from quadrill.app.cli import main

    (tmp_path / "two.nt").write_text(LINES)
    put(store, "warn")
    assert main(["load", "--server", store.url, str(tmp_path / "two.nt")]) == 0
    assert "2 violations of shapes added" in capsys.readouterr().err
    put(store, "reject")
    (tmp_path / "two.nt").write_text(LINES.replace("urn:b", "urn:c"))
    assert main(["load", "--server", store.url, str(tmp_path / "two.nt")]) == 1
    assert "violates the shapes people" in capsys.readouterr().err


@pytest.mark.parametrize("killed", [False, True])
def test_refused_view_is_failed_after_a_restart_too(tmp_path: Path, killed: bool) -> None:
    folder = tmp_path / "data"
    with running.serve(Settings(data=str(folder), port=0)) as found:
        server = LiveServer(found)
        put(server, "reject")
        assert view(server).error
        before = server.client.get("/queries/seen").json()
        if killed:
            shutil.copytree(folder, tmp_path / "copy")
            folder = tmp_path / "copy"
        server.client.close()
    with running.serve(Settings(data=str(folder), port=0)) as found:
        server = LiveServer(found)
        after = server.client.get("/queries/seen").json()
        assert (after["state"], after["error"]) == (before["state"], before["error"])
        assert not server.boolean("ASK { GRAPH <urn:view> { ?s ?p ?o } }")
        server.client.close()


def test_metrics_count_results_validations_and_refusals(server: LiveServer) -> None:
    server.update("INSERT DATA { <urn:old> a <urn:P> }")
    for name, parameters in (("r", {"mode": "reject"}), ("w", {"max_results": "3"})):
        put_shapes = server.client.put(f"/shapes/{name}", params=parameters, content=SHAPES, headers=TURTLE)
        assert put_shapes.status_code == 201

    def value(metric: str) -> float:
        text = server.client.get("/metrics").text
        found = [line.split(" ")[1] for line in text.splitlines() if line.startswith(f"{metric} ")]
        assert len(found) == 1, metric
        return float(found[0])

    assert value('quadrill_shapes_results{severity="Violation",shapes="r"}') == 1
    assert value('quadrill_shapes_results{severity="Warning",shapes="r"}') == 1
    assert value('quadrill_shapes_results{severity="other",shapes="r"}') == 0
    server.update("INSERT DATA { <urn:a> a <urn:P> }")
    server.update('INSERT DATA { <urn:b> a <urn:P> ; <urn:name> "b" }')
    server.update("INSERT DATA { <urn:c> <urn:unseen> 1 }")
    assert value('quadrill_shapes_validations_total{shapes="r"}') == 2
    assert value('quadrill_shapes_refused_changes_total{shapes="r"}') == 1
    assert value('quadrill_shapes_stopped_validations_total{shapes="r"}') == 0
    assert value('quadrill_shapes_validation_seconds_total{shapes="r"}') > 0
    assert value('quadrill_shapes_results{severity="Warning",shapes="w"}') == 2
    server.update('INSERT DATA { <urn:d> a <urn:P> ; <urn:name> "d" }')
    assert value('quadrill_shapes_stopped_validations_total{shapes="w"}') == 1
    assert (value('quadrill_shapes{state="failed"}'), value('quadrill_shapes{state="ready"}')) == (1, 1)
