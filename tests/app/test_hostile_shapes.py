"""Shapes over HTTP that are ill-formed, huge or slow, requests at once, and other parts with shapes."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.cli import main
from quadrill.app.config import Settings
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of
from tests.program import Program

PREFIXES = """@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
"""
SH = "http://www.w3.org/ns/shacl#"
TURTLE = {"Content-Type": "text/turtle"}
NAMED = "<urn:S> sh:targetClass <urn:P> ; sh:property [ sh:path <urn:name> ; sh:minCount 1 ] ."
SHAPE = "<urn:S> sh:targetClass <urn:P> ; "
PROPERTY = SHAPE + "sh:property [ sh:path <urn:p> ; {} ] ."


def put(
    server: LiveServer,
    text: str = NAMED,
    name: str = "s",
    headers: dict[str, str] = TURTLE,
    **parameters: Any,
) -> httpx.Response:
    content = text if headers is not TURTLE else PREFIXES + text
    return server.client.put(f"/shapes/{name}", params=parameters, content=content, headers=headers)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        (PROPERTY.format('sh:minCount "a"'), "minCount", "must be an xsd:integer"),
        (PROPERTY.format("sh:minCount 1.5"), "minCount", "must be an xsd:integer"),
        (PROPERTY.format("sh:minCount 1, 2"), "minCount", "must have at most one value"),
        (SHAPE + "sh:property [ sh:minCount 1 ] .", "property", "which has sh:path"),
        (SHAPE + "sh:property [ sh:path <urn:p>, <urn:q> ] .", "path", "must have one value"),
        (SHAPE + 'sh:property [ sh:path "p" ] .', "path", "must be a path"),
        (SHAPE + "sh:property [ sh:path (<urn:p>) ] .", "path", "two or more paths"),
        (SHAPE + "sh:property [ sh:path _:x ] . _:x sh:inversePath _:x .", "path", "contain itself"),
        (SHAPE + "sh:property [ sh:path [] ] .", "path", "must be a path"),
        (SHAPE + "sh:in <urn:x> .", "in", "RDF list"),
        (SHAPE + "sh:in _:l . _:l rdf:first 1 ; rdf:rest _:l .", "in", "with an end"),
        (SHAPE + "sh:nodeKind sh:Foo .", "nodeKind", "must be one of"),
        (SHAPE + 'sh:pattern "(" .', "pattern", "regular expression"),
        (SHAPE + 'sh:pattern "(a)\\\\1" .', "pattern", "back-references"),
        (SHAPE + "sh:uniqueLang true .", "uniqueLang", "property shapes only"),
        (SHAPE + 'sh:closed "x" .', "closed", "true or false"),
        (SHAPE + 'sh:or ("x") .', "or", "must be a shape"),
        (SHAPE + 'sh:severity "x" .', "severity", "must be an IRI"),
        (SHAPE + "sh:message 4 .", "message", "must be a string"),
        ('<urn:S> a sh:NodeShape ; sh:targetClass "x" .', "targetClass", "must be an IRI"),
        (SHAPE + "sh:node <urn:S> .", "node", "is recursive"),
        (SHAPE + "sh:not [ sh:and ( [ sh:node <urn:S> ] ) ] .", "node", "is recursive"),
        (SHAPE + 'sh:sparql [ sh:select "SELECT" ] .', "select", "must be a SPARQL query"),
        (SHAPE + 'sh:sparql [ sh:select "DROP ALL" ] .', "select", "must be a SPARQL query"),
        (SHAPE + 'sh:sparql [ sh:select "SELECT $this { SERVICE <urn:x> { } }" ] .', "select", "SERVICE"),
    ],
)  # fmt: skip
def test_ill_formed_shapes_are_refused_with_their_place(
    server: LiveServer, text: str, place: str, expected: str
) -> None:
    problem = problem_of(put(server, text), 400)
    assert (problem["code"], problem["property"]) == ("shapes-invalid", SH + place)
    assert expected in problem["expected"] and expected in problem["detail"]
    assert problem["shape"] in problem["detail"]
    problem_of(server.client.get("/shapes/s"), 404)


@pytest.mark.parametrize(
    "text", [SHAPE + "sh:js [] .", SHAPE + "sh:target [] .", "<> sh:entailment <urn:e> ."]
)
def test_what_is_not_supported_is_501(server: LiveServer, text: str) -> None:
    assert problem_of(put(server, text), 501)["code"] == "unsupported"


@pytest.mark.parametrize(
    ("headers", "text", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, "x", 415, "unsupported-media-type"),
        ({}, "x", 415, "unsupported-media-type"),
        ({"Content-Type": "text/turtle"}, "a b c", 400, "rdf-syntax"),
        ({"Content-Type": "application/json"}, "[]", 400, "json-syntax"),
        ({"Content-Type": "application/json"}, "{}", 400, "member"),
        ({"Content-Type": "application/json"}, '{"graph": "x"}', 400, "member"),
        ({"Content-Type": "application/json"}, '{"graph": "urn:none"}', 404, "no-such-graph"),
        ({"Content-Type": "text/turtle"}, "", 400, "shapes-invalid"),
        ({"Content-Type": "text/turtle"}, "# no triples", 400, "shapes-invalid"),
    ],
)
def test_wrong_body_is_refused(
    server: LiveServer, headers: dict[str, str], text: str, status: int, code: str
) -> None:
    assert problem_of(put(server, text, headers=headers), status)["code"] == code


@pytest.mark.parametrize(
    ("name", "status"), [("a b", 400), ("%2F", 400), ("x" * 200, 400), ("é", 400), ("a/b", 404), ("", 404)]
)
def test_odd_name_is_refused(server: LiveServer, name: str, status: int) -> None:
    problem_of(put(server, name=name), status)


@pytest.mark.parametrize(
    "parameters",
    [
        {"mode": "stop"}, {"data": "rel"}, {"into": "rel"}, {"max_time": "x"}, {"max_time": "0s"},
        {"max_results": "-1"}, {"max_results": "1e9"}, {"colour": "red"}, {"into": ["urn:a", "urn:b"]},
    ],
)  # fmt: skip
def test_wrong_parameter_is_refused(server: LiveServer, parameters: dict[str, Any]) -> None:
    problem_of(put(server, **parameters), 400)


def flat(count: int) -> str:
    lines = (f"<urn:S{n}> sh:targetClass <urn:P{n}> ; sh:closed true .\n" for n in range(count))
    return "".join(lines)


def nested(levels: int) -> str:
    lines = (
        f"<urn:D{n}> sh:property [ sh:path <urn:p> ; sh:node <urn:D{n + 1}> ] .\n" for n in range(levels)
    )
    return f"<urn:D0> sh:targetClass <urn:P> . <urn:D{levels}> sh:class <urn:x> .\n" + "".join(lines)


def long_path(nodes: int) -> str:
    lines = (f"_:b{n} sh:inversePath _:b{n + 1} .\n" for n in range(nodes))
    return SHAPE + f"sh:property [ sh:path _:b0 ] . _:b{nodes} sh:inversePath <urn:p> .\n" + "".join(lines)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (flat(20_001), "20,001 shapes, 20,000 at most"),
        (nested(2_000), "levels of shapes inside"),
        (long_path(2_000), "100 nodes"),
    ],
    ids=["shapes", "levels", "path"],
)
def test_huge_shapes_are_refused_at_once(server: LiveServer, text: str, part: str) -> None:
    started = time.monotonic()
    problem = problem_of(put(server, text), 400)
    assert (problem["code"], part in problem["detail"]) == ("limit", True), problem
    assert time.monotonic() - started < 10


def test_ten_thousand_shapes_check_a_commit_within_their_time(server: LiveServer) -> None:
    assert put(server, flat(10_000), mode="reject").status_code == 201
    started = time.monotonic()
    problem = problem_of(server.update("INSERT DATA { <urn:a> a <urn:P7> ; <urn:p> 1 }"), 422)
    assert problem["results"] == 2
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("^(a+)+$", "a" * 60 + "!"),
        ("^(a|a)*$", "a" * 60 + "!"),
        ("(x+x+)+y", "x" * 60),
        ("(.*a){20}", "a" * 19 + "b" * 3000),
    ],
)
def test_catastrophic_pattern_takes_no_time(server: LiveServer, pattern: str, value: str) -> None:
    assert put(server, PROPERTY.format(f'sh:pattern "{pattern}"'), mode="reject").status_code == 201
    started = time.monotonic()
    problem = problem_of(server.update(f'INSERT DATA {{ <urn:a> a <urn:P> ; <urn:p> "{value}" }}'), 422)
    assert problem["code"] == "shacl-violation"
    assert time.monotonic() - started < 2


def test_exponential_conjunctions_are_shared(server: LiveServer) -> None:
    lines = (f"<urn:D{n}> sh:and ( <urn:D{n + 1}> [ sh:node <urn:D{n + 1}> ] ) .\n" for n in range(24))
    text = "<urn:D0> sh:targetClass <urn:P> . <urn:D24> sh:class <urn:P> .\n" + "".join(lines)
    assert put(server, text, mode="reject", max_time="2s").status_code == 201
    started = time.monotonic()
    answer = server.update("INSERT DATA { <urn:a> a <urn:P> }")
    assert answer.status_code == 204 or problem_of(answer, 422)["code"] == "shapes-budget"
    assert time.monotonic() - started < 10


def test_graph_that_has_quads_or_an_owner_cannot_hold_the_report(server: LiveServer) -> None:
    server.update("INSERT DATA { GRAPH <urn:full> { <urn:a> <urn:b> 1 } }")
    for more in ({"dry_run": "true"}, {}):
        assert problem_of(put(server, into="urn:full", **more), 409)["code"] == "graph-not-empty"
    assert put(server, into="urn:report", dry_run="true").json() == {"change": "create"}
    assert put(server, into="urn:report").status_code == 201
    for more in ({"dry_run": "true"}, {}):
        refused = put(server, name="other", into="urn:report", **more)
        assert problem_of(refused, 409)["code"] == "graph-owned"
    for answer in (
        server.update("INSERT DATA { GRAPH <urn:report> { <urn:a> <urn:b> 1 } }"),
        server.client.put("/store?graph=urn:report", content="<urn:a> <urn:b> 1 .", headers=TURTLE),
        server.client.put("/rules/r", json={"rules": [], "include": ["rdfs"], "into": "urn:report"}),
    ):
        assert problem_of(answer, 409)["code"] == "graph-owned"


def test_reports_that_lead_to_one_another_are_a_cycle(server: LiveServer) -> None:
    assert problem_of(put(server, data="urn:d", into="urn:d"), 400)["code"] == "cycle"
    assert put(server, name="a", into="urn:ra", data="default").status_code == 201
    assert put(server, name="b", into="urn:rb", data="urn:ra").status_code == 201
    for more in ({"dry_run": "true"}, {}):
        refused = put(server, name="a", into="urn:ra", data=["default", "urn:rb"], **more)
        assert problem_of(refused, 400)["code"] == "cycle"
    in_use = problem_of(server.client.delete("/shapes/a"), 409)
    assert (in_use["code"], in_use["used_by"]) == ("in-use", ["the shapes b"])
    for more in ({"dry_run": "true"}, {}):
        assert problem_of(put(server, name="a", **more), 409)["code"] == "in-use"


def test_data_may_name_a_graph_that_comes_later(server: LiveServer) -> None:
    assert put(server, mode="reject", data="urn:later").json()["results"] == 0
    assert server.update("INSERT DATA { <urn:a> a <urn:P> }").status_code == 204
    problem_of(server.update("INSERT DATA { GRAPH <urn:later> { <urn:a> a <urn:P> } }"), 422)


def test_rules_cannot_read_a_report(server: LiveServer) -> None:
    rule = {
        "rules": [f"CONSTRUCT {{ ?x <urn:bad> true }} WHERE {{ ?r <{SH}focusNode> ?x }}"],
        "into": "urn:bad",
    }
    assert put(server, into="urn:report").status_code == 201
    problem = problem_of(server.client.put("/rules/r", json=rule | {"from": ["urn:report"]}), 501)
    assert "rules run before shapes" in problem["detail"]
    assert server.client.put("/rules/r", json=rule | {"from": ["urn:next"]}).status_code == 201
    problem = problem_of(put(server, name="next", into="urn:next"), 501)
    assert "a rule set cannot read <urn:next>" in problem["detail"]
    assert server.client.put("/rules/all", json=rule | {"into": "urn:all"}).json()["inferred"] == 0


def test_shapes_are_no_entailment(server: LiveServer) -> None:
    put(server, into="urn:report")
    server.update("INSERT DATA { <urn:a> a <urn:P> }")
    assert problem_of(server.query("ASK { ?s ?p ?o }", entailment="s"), 404)["code"] == "unknown-rules"
    asked = f"ASK {{ GRAPH <urn:report> {{ ?r a <{SH}ValidationResult> }} }}"
    assert server.query(asked, entailment="none").json()["boolean"], "a report is not inferred"


def in_parallel(*calls: Callable[[], httpx.Response]) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda call=each: answers.append(call())) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_requests_about_the_same_shapes_at_once(start_server: Start) -> None:
    server = start_server()
    quads = "".join(f"<urn:n{n}> a <urn:P> .\n" for n in range(3_000))
    server.client.put("/store?default", content=quads, headers=TURTLE)
    with httpx.Client(base_url=server.url, timeout=60) as other:
        for turn in range(5):
            into, text = f"urn:o{turn}", PREFIXES + NAMED
            answers = in_parallel(
                partial(put, server, into=f"urn:r{turn}", mode="warn"),
                partial(other.put, "/shapes/s", params={"into": into}, content=text, headers=TURTLE),
                partial(server.client.delete, "/shapes/s"),
                partial(server.update, f"INSERT DATA {{ <urn:m{turn}> a <urn:P> }}"),
            )
            for answer in answers:
                assert answer.status_code in (200, 201, 204, 404, 409), answer.text
                if answer.status_code == 409:
                    assert answer.json()["code"] == "in-progress"
            found = server.client.get("/shapes").json()["shapes"]
            graphs = {each["into"] for each in found}
            rows = server.query(f"SELECT DISTINCT ?g {{ GRAPH ?g {{ ?r a <{SH}ValidationReport> }} }}")
            has = {row["g"]["value"] for row in rows.json()["results"]["bindings"]}
            assert has == graphs
            for each in found:
                assert each["results"] == 3_000 + turn + 1


def test_roles_of_shapes(start_server: Start) -> None:
    server = start_server(token="the-first-admin-token")
    headers = {}
    for role in ("read", "push", "write"):
        secret = f"{role}-token-of-sufficient-length"
        server.services.registry.tokens.add(TokenRecord(hash_token(secret), role, role))
        headers[role] = {"Authorization": f"Bearer {secret}"}
    body = PREFIXES + NAMED

    def asked(role: str, method: str, path: str, content: str | None = None) -> int:
        sent = headers[role] | (TURTLE if content is not None else {})
        return server.client.request(method, path, headers=sent, content=content).status_code

    assert [asked(role, "PUT", "/shapes/s", body) for role in ("read", "push", "write")] == [403, 403, 201]
    for path in ("/shapes", "/shapes/s", "/shapes/s/report"):
        assert [asked(role, "GET", path) for role in ("read", "write")] == [200, 200]
    assert asked("read", "POST", "/shapes:validate?shapes=s", "<urn:a> a <urn:P> .") == 200
    assert [asked(role, "DELETE", "/shapes/s") for role in ("read", "push", "write")] == [403, 403, 204]


def test_export_patches_and_restores_leave_reports_out(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(tmp_path / "backups"))
    assert put(server, into="urn:report", mode="warn").status_code == 201
    assert put(server, name="second", data="urn:report", into="urn:second").status_code == 201
    server.update("INSERT DATA { <urn:a> a <urn:P> }")
    lines = {"Accept": "application/n-quads"}
    assert "urn:report" not in server.client.get("/store", headers=lines).text
    assert "ValidationReport" in server.client.get("/store?inferred=true", headers=lines).text
    assert "ValidationReport" in server.client.get("/store?graph=urn:report", headers=lines).text
    assert server.client.post("/backups", json={"folder": "saved"}).status_code == 201
    report = server.client.get("/store?graph=urn:report", headers=lines).text
    server.update("INSERT DATA { <urn:b> a <urn:P> }")
    job = server.client.post("/restores", json={"folder": "saved"}).headers["Location"]
    while server.client.get(job).json()["state"] not in ("done", "failed"):
        time.sleep(0.02)
    assert server.client.get(job).json()["state"] == "done"
    assert sorted(server.client.get("/store?graph=urn:report", headers=lines).text.splitlines()) == sorted(
        report.splitlines()
    )
    assert main(["restore", str(tmp_path / "backups" / "saved"), "--data", str(tmp_path / "other")]) == 0
    other = start_server(data=str(tmp_path / "other"))
    assert other.client.get("/shapes/s").json()["results"] == 1
    assert [each["name"] for each in other.client.get("/shapes").json()["shapes"]] == ["s", "second"]
    assert sorted(other.client.get("/store?graph=urn:report", headers=lines).text.splitlines()) == sorted(
        report.splitlines()
    )


def test_folder_with_shapes_is_exported_checked_and_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "data")
    with running.serve(Settings(data=data, port=0)) as found:
        server = LiveServer(found)
        put(server, into="urn:report")
        server.update("INSERT DATA { <urn:a> a <urn:P> }")
        server.client.close()
    assert main(["export", "--data", data, str(tmp_path / "all.nq")]) == 0
    assert "urn:report" not in (tmp_path / "all.nq").read_text()
    assert main(["export", "--data", data, "--inferred", str(tmp_path / "more.nq")]) == 0
    assert "urn:report" in (tmp_path / "more.nq").read_text()
    assert main(["check", "--data", data]) == 0, capsys.readouterr().out
    assert main(["repair", "--drop-damaged", "--data", data]) == 0, capsys.readouterr().out
    with running.serve(Settings(data=data, port=0)) as found:
        assert httpx.get(f"{found.url}shapes/s").json()["results"] == 1


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.4])
def test_kill_in_the_middle_of_a_put(tmp_path: Path, delay: float) -> None:
    """After the restart, the shapes and the graph of their report are both there, or neither is."""
    data = tmp_path / "data"
    quads = "".join(f"<urn:n{n}> a <urn:P> .\n" for n in range(2_000))

    @contextlib.contextmanager
    def started() -> Iterator[tuple[Program, str]]:
        arguments = ("serve", "--data", str(data), "--port", "0")
        with Program(*arguments, stdout=subprocess.PIPE, text=True) as program:
            try:
                assert program.stdout is not None
                line = next(line for line in program.stdout if "http://" in line)
                yield program, next(word for word in line.split() if word.startswith("http://"))
            finally:
                program.kill()

    def put_shapes(url: str) -> httpx.Response | None:
        with contextlib.suppress(httpx.HTTPError):
            text = PREFIXES + NAMED
            return httpx.put(f"{url}shapes/s?into=urn:report", content=text, headers=TURTLE, timeout=60)
        return None

    with started() as (program, url):
        httpx.put(f"{url}store?default", content=quads, headers=TURTLE, timeout=60).raise_for_status()
        thread = threading.Thread(target=put_shapes, args=(url,))
        thread.start()
        time.sleep(delay)
        program.kill()
        thread.join()
    with started() as (program, url):
        found = httpx.get(f"{url}shapes").json()["shapes"]
        report = httpx.get(f"{url}store?graph=urn:report", headers={"Accept": "application/n-triples"})
        assert (report.status_code == 200) == bool(found)
        assert [each["results"] for each in found] in ([], [2_000])
        again = put_shapes(url)
        assert again is not None and again.is_success
