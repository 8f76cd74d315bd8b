"""The parameter ``entailment`` of queries: the graph of a rule set in the default graph, or none of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.cli import main
from quadrill.app.config import Settings
from tests.app.conftest import LiveServer, Start, problem_of

GRAND = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }"
FACTS = """
INSERT DATA {
    <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> . <urn:a> <urn:grand> <urn:c> , <urn:x> .
    GRAPH <urn:g> { <urn:c> <urn:parent> <urn:d> . <urn:a> <urn:grand> <urn:c> }
}
"""
INTO = "urn:inferred"
ALL = "SELECT ?x ?z { ?x <urn:grand> ?z }"
COUNT = "SELECT (COUNT(*) AS ?n) %s { ?x <urn:grand> ?z }"
GRAPHS = "SELECT DISTINCT ?g %s { GRAPH ?g { ?s ?p ?o } }"


@pytest.fixture(name="family")
def _family(server: LiveServer) -> LiveServer:
    server.update(FACTS)
    assert server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO}).status_code == 201
    return server


def rows(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return sorted(
        " ".join(value["value"] for value in row.values()) for row in answer.json()["results"]["bindings"]
    )


def ask(server: LiveServer, text: str, path: str = "/query", **parameters: Any) -> list[str]:
    return rows(server.client.get(path, params={"query": text, **parameters}))


def test_default_graph_is_a_union_with_the_graph_of_the_set(family: LiveServer) -> None:
    assert ask(family, ALL) == ["urn:a urn:c", "urn:a urn:x"]
    for path in ("/query", "/sparql"):
        found = ask(family, ALL, path, entailment="family")
        assert found == ["urn:a urn:c", "urn:a urn:x", "urn:b urn:d"], "a triple of both graphs counts once"
    assert ask(family, COUNT % "", entailment="family") == ["3"]
    assert ask(family, COUNT % "", entailment="none") == ["2"]
    form = family.client.post("/query", data={"query": COUNT % "", "entailment": "family"})
    assert rows(form) == ["3"]
    direct = family.client.post(
        "/query",
        params={"entailment": "family"},
        content=COUNT % "",
        headers={"Content-Type": "application/sparql-query"},
    )
    assert rows(direct) == ["3"]


def test_graphs_of_the_text_and_of_the_request_are_united_with_the_graph(family: LiveServer) -> None:
    assert ask(family, COUNT % "FROM <urn:g>") == ["1"]
    assert ask(family, COUNT % "FROM <urn:g>", entailment="family") == ["2"]
    assert ask(family, COUNT % f"FROM <urn:g> FROM <{INTO}>", entailment="family") == ["2"]
    assert ask(family, COUNT % "FROM NAMED <urn:g>", entailment="family") == ["2"]
    assert ask(family, GRAPHS % "FROM <urn:g>", entailment="family") == []
    assert ask(family, GRAPHS % "FROM NAMED <urn:g>", entailment="family") == ["urn:g"]
    named = {"default-graph-uri": "urn:g", "entailment": "family"}
    assert ask(family, COUNT % "", **named) == ["2"]
    assert ask(family, COUNT % "FROM <urn:h>", **named) == ["2"]
    assert ask(family, GRAPHS % "", **{"named-graph-uri": "urn:g", "entailment": "family"}) == ["urn:g"]
    assert ask(family, GRAPHS % "", entailment="family") == ["urn:g", INTO]
    merged = {"union-default-graph": "", "entailment": "family"}
    assert ask(family, COUNT % "", **merged) == ["3"]


def test_none_hides_the_graphs_of_all_sets(family: LiveServer) -> None:
    second = {"rules": ["CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x <urn:parent> ?y }"], "into": "urn:second"}
    assert family.client.put("/rules/second", json=second).status_code == 201
    assert ask(family, GRAPHS % "") == ["urn:g", INTO, "urn:second"]
    assert ask(family, GRAPHS % "", entailment="none") == ["urn:g"]
    assert ask(family, f"SELECT * {{ GRAPH <{INTO}> {{ ?s ?p ?o }} }}", entailment="none") == []
    assert ask(family, COUNT % f"FROM <{INTO}>", entailment="none") == ["0"]
    assert ask(family, COUNT % f"FROM <{INTO}> FROM <urn:g>", entailment="none") == ["1"]
    assert ask(family, GRAPHS % f"FROM NAMED <{INTO}> FROM NAMED <urn:g>", entailment="none") == ["urn:g"]
    assert ask(family, COUNT % "", **{"default-graph-uri": INTO, "entailment": "none"}) == ["0"]
    assert ask(family, COUNT % "", **{"union-default-graph": "", "entailment": "none"}) == ["2"]
    assert ask(family, COUNT % "", **{"union-default-graph": ""}) == ["3"]
    family.client.delete("/rules/second")
    family.client.delete("/rules/family")
    assert ask(family, COUNT % "", entailment="none") == ["2"]


def test_look_ups_and_repeated_texts_follow_the_parameter(family: LiveServer) -> None:
    text = "SELECT ?z { <urn:b> <urn:grand> ?z }"
    for _ in range(3):
        assert ask(family, text) == []
        assert ask(family, text, entailment="family") == ["urn:d"]
        assert ask(family, text, entailment="none") == []
    family.update("INSERT DATA { <urn:d> <urn:parent> <urn:e> . <urn:c> <urn:parent> <urn:f> }")
    assert ask(family, text, entailment="family") == ["urn:d", "urn:f"]


def test_paths_and_aggregates_over_the_union(family: LiveServer) -> None:
    assert ask(family, "SELECT ?z { <urn:b> <urn:grand>* ?z }", entailment="family") == ["urn:b", "urn:d"]
    text = "SELECT (GROUP_CONCAT(?z; separator=' ') AS ?r) { <urn:a> <urn:grand> ?z . FILTER(?z = <urn:c>) }"
    assert ask(family, text, entailment="family") == ["urn:c"]
    built = family.client.get(
        "/query",
        params={"query": "CONSTRUCT WHERE { ?x <urn:grand> ?z }", "entailment": "family"},
        headers={"Accept": "application/n-triples"},
    )
    assert len(built.text.splitlines()) == 3


def test_worker_processes_get_the_same_dataset(start_server: Start) -> None:
    server = start_server(workers=1)
    server.update(FACTS)
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    server.services.endpoint.slow_texts.texts.update(dict.fromkeys((COUNT % "", GRAPHS % "")))
    assert server.services.endpoint._workers.takes(1)
    assert ask(server, COUNT % "", entailment="family") == ["3"]
    assert ask(server, GRAPHS % "", entailment="none") == ["urn:g"]
    assert ask(server, GRAPHS % "", entailment="family") == ["urn:g", INTO]


def test_stored_queries_take_the_parameter(family: LiveServer) -> None:
    family.client.put(
        "/stored-queries/all", content=COUNT % "", headers={"Content-Type": "application/sparql-query"}
    )
    assert rows(family.client.get("/stored-queries/all/results")) == ["2"]
    assert rows(family.client.get("/stored-queries/all/results?entailment=family")) == ["3"]


def test_unknown_sets_and_wrong_parameters_are_problems(family: LiveServer) -> None:
    unknown = family.client.get("/query", params={"query": ALL, "entailment": "other"})
    assert problem_of(unknown, 404)["code"] == "unknown-rules"
    twice = family.client.get(f"/query?query={ALL}&entailment=family&entailment=none")
    assert problem_of(twice, 400)["code"] == "parameter"
    update = family.client.post(
        "/update",
        params={"entailment": "family"},
        content="INSERT DATA { <urn:a> <urn:b> 1 }",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert problem_of(update, 400)["code"] == "parameter"
    none = family.client.put("/rules/none", json={"rules": [GRAND], "into": "urn:none"})
    assert problem_of(none, 400)["code"] == "name"
    wrong = family.client.get("/query", params={"query": "SELECT FROM <urn:g> {", "entailment": "family"})
    assert problem_of(wrong, 400)["line"] == 1


# --- registrations --------------------------------------------------------------------------------


def register(server: LiveServer, name: str, text: str, **members: Any) -> httpx.Response:
    return server.client.put(f"/queries/{name}", json={"query": text, **members})


def answer(server: LiveServer, name: str) -> list[str]:
    server.services.engine.sync()
    found = server.client.get(f"/queries/{name}/results?snapshot=true", headers={"Accept": JSON_RESULTS})
    return rows(found)


JSON_RESULTS = "application/sparql-results+json"


def test_static_parts_of_a_registration_read_the_union(start_server: Start) -> None:
    server = start_server()
    server.update(FACTS)
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    made = register(server, "grand", ALL, entailment="family")
    assert made.status_code == 201, made.text
    assert made.json()["options"]["entailment"] == "family"
    for name, text in (("counted", COUNT % ""), ("graphs", GRAPHS % ""), ("from", COUNT % "FROM <urn:g>")):
        assert register(server, name, text, entailment="family").status_code == 201
    assert register(server, "plain", COUNT % "").status_code == 201
    assert register(server, "none", GRAPHS % "", entailment="none").status_code == 201
    assert answer(server, "grand") == ["urn:a urn:c", "urn:a urn:x", "urn:b urn:d"]
    assert (answer(server, "counted"), answer(server, "plain")) == (["3"], ["2"])
    assert answer(server, "graphs") == ["urn:g", INTO]
    assert (answer(server, "from"), answer(server, "none")) == (["2"], ["urn:g"])
    server.update(
        "DELETE DATA { <urn:a> <urn:parent> <urn:b> } ; INSERT DATA { <urn:d> <urn:parent> <urn:e> }"
    )
    assert answer(server, "grand") == ["urn:a urn:c", "urn:a urn:x", "urn:b urn:d", "urn:c urn:e"]
    assert (answer(server, "counted"), answer(server, "plain")) == (["4"], ["2"])
    assert (answer(server, "from"), answer(server, "none")) == (["3"], ["urn:g"])
    server.update("DELETE DATA { <urn:a> <urn:grand> <urn:c> , <urn:x> }")
    assert answer(server, "grand") == ["urn:b urn:d", "urn:c urn:e"]


def test_a_set_that_a_query_names_is_in_use(start_server: Start) -> None:
    server = start_server()
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    register(server, "grand", ALL, entailment="family")
    refused = problem_of(server.client.delete("/rules/family"), 409)
    assert (refused["code"], refused["used_by"]) == ("in-use", ["the query grand"])
    moved = server.client.put("/rules/family", json={"rules": [GRAND], "into": "urn:other"})
    assert problem_of(moved, 409)["code"] == "in-use"
    wider = {"rules": [GRAND, "CONSTRUCT { ?y <urn:grand> ?x } WHERE { ?x <urn:parent> ?y }"], "into": INTO}
    server.update(FACTS)
    assert server.client.put("/rules/family", json=wider).status_code == 200
    assert len(answer(server, "grand")) == 6
    server.client.delete("/queries/grand")
    assert server.client.delete("/rules/family").status_code == 204


def test_wrong_entailments_of_registrations_are_problems(start_server: Start) -> None:
    server = start_server()
    assert problem_of(register(server, "q", ALL, entailment="family"), 404)["code"] == "unknown-rules"
    assert problem_of(register(server, "q", ALL, entailment=7), 400)
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    windows = "SELECT * WHERE { STREAM <urn:s> [RANGE 1m] { ?x <urn:v> ?v } ?x <urn:grand> ?z }"
    assert register(server, "q", windows, entailment="none").status_code == 201
    negating = "CONSTRUCT { ?x <urn:only> ?y } WHERE { ?x <urn:parent> ?y MINUS { ?x <urn:grand> ?y } }"
    server.client.put("/rules/only", json={"rules": [GRAND, negating], "into": "urn:only"})
    refused = problem_of(register(server, "r", windows, entailment="only"), 400)
    assert "its rule 1 negates or aggregates triples that the rule 0 derives" in refused["detail"]
    assert [each["rule"] for each in refused["rules"]] == [1, 0] and "hint" in refused
    assert register(server, "r", ALL, entailment="only").status_code == 201
    timed = """REGISTER QUERY t AS SELECT ?x FROM STREAM <urn:s> [RANGE 10s STEP 10s]
        WHERE { ?x <urn:v> ?v FILTER(timestamp(?x) > 0) }"""
    problem_of(register(server, "t", timed, entailment="family"), 501)
    validated = server.client.post("/queries:validate", json={"query": ALL, "entailment": "family"})
    assert validated.status_code == 200, validated.text


def test_an_entailment_is_kept_over_a_restart(tmp_path: Path, start_server: Start) -> None:
    folder = str(tmp_path / "data")
    with running.serve(Settings(data=folder, port=0)) as found:
        server = LiveServer(found)
        server.update(FACTS)
        server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
        register(server, "grand", ALL, entailment="family")
        assert len(answer(server, "grand")) == 3
        server.client.close()
    server = start_server(data=folder)
    assert server.client.get("/queries/grand").json()["options"]["entailment"] == "family"
    assert len(answer(server, "grand")) == 3
    server.update("INSERT DATA { <urn:d> <urn:parent> <urn:e> }")
    assert len(answer(server, "grand")) == 4
    assert problem_of(server.client.delete("/rules/family"), 409)["code"] == "in-use"


def test_dump_and_apply_carry_the_entailment(
    tmp_path: Path, start_server: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = start_server(), start_server()
    one.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    register(one, "grand", ALL, entailment="family")
    assert main(["dump", "--server", one.url]) == 0
    file = tmp_path / "all.toml"
    file.write_text(capsys.readouterr().out)
    assert main(["apply", str(file), "--server", two.url]) == 0
    assert two.client.get("/queries/grand").json()["options"]["entailment"] == "family"
    assert two.client.get("/rules/family").json()["into"] == INTO
    two.update(FACTS)
    assert len(answer(two, "grand")) == 3


def test_a_replay_reads_the_graph_of_a_set_that_is_gone(tmp_path: Path, start_server: Start) -> None:
    """The journal has the graph, because the registry has the set no more."""
    server = start_server(data=str(tmp_path / "data"), checkpoint_interval="1h")
    server.update(FACTS)
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    made = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:grand> ?z }"
    assert register(server, "grand", made, entailment="family", output="istream").status_code == 201
    assert register(
        server, "seen", "SELECT * { STREAM <http://localhost/grand> [ALL] { ?x ?p ?z } }"
    ).is_success
    server.update("INSERT DATA { <urn:d> <urn:parent> <urn:e> }")
    server.services.engine.sync()
    found = answer(server, "seen")
    assert server.client.delete("/queries/grand").status_code == 204
    assert server.client.delete("/rules/family").status_code == 204
    server.services.engine.sync()
    shutil.copytree(tmp_path / "data", tmp_path / "crashed", ignore=shutil.ignore_patterns("LOCK"))
    again = start_server(data=str(tmp_path / "crashed"))
    assert [each["name"] for each in again.client.get("/queries").json()["queries"]] == ["seen"]
    assert again.client.get("/queries/seen").json()["state"] == "running"
    assert answer(again, "seen") == found
