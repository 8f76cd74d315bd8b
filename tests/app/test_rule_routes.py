"""``/rules``: rule sets over HTTP."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.store.registry import JobRecord
from tests.app.conftest import LiveServer, Start, problem_of

GRAND = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }"
CLOSED = "CONSTRUCT { ?x <urn:leaf> true } WHERE { ?x <urn:parent> ?y MINUS { ?z <urn:parent> ?x } }"
FAMILY = "INSERT DATA { <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> }"
INTO = "urn:inferred"


def members(*rules: str, **further: Any) -> dict[str, Any]:
    """The members of a PUT."""
    return {"rules": list(rules or (GRAND,)), "into": INTO, **further}


def put(server: LiveServer, name: str = "family", body: Any = None, **parameters: Any) -> httpx.Response:
    return server.client.put(f"/rules/{name}", json=body or members(), params=parameters)


def inferred(server: LiveServer, graph: str = INTO) -> set[str]:
    answer = server.client.get("/store", params={"graph": graph}, headers={"Accept": "application/n-triples"})
    return set() if answer.status_code == 404 else set(answer.text.splitlines())


def ended(server: LiveServer, location: str) -> dict[str, Any]:
    """The job at an address, once it has ended."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        job: dict[str, Any] = server.client.get(location).json()
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.02)
    raise AssertionError("the job has not ended")


def test_rule_set_is_created_kept_replaced_and_removed(start_server: Start) -> None:
    server = start_server()
    server.update(FAMILY)
    made = put(server)
    assert made.status_code == 201
    assert made.headers["Location"] == f"{server.url}rules/family"
    described = made.json()
    assert described.pop("cost_ms") > 0
    assert described.pop("created") > 0
    assert described == {
        "name": "family",
        "rules": [GRAND],
        "into": INTO,
        "max_inferred": 10_000_000,
        "max_time": "10s",
        "on_budget": "reject",
        "state": "ready",
        "version": 2,
        "inferred": 1,
        "materialised": None,
        "strata": [[0]],
        "inconsistencies": [],
        "error": None,
    }
    assert inferred(server) == {"<urn:a> <urn:grand> <urn:c> ."}
    server.update("INSERT DATA { <urn:c> <urn:parent> <urn:d> }")
    assert len(inferred(server)) == 2
    again = put(server, body=members(name="family"))
    assert (again.status_code, again.headers["ETag"]) == (200, '"3"')
    replaced = put(server, body=members(GRAND, CLOSED, into="urn:other", include=[]))
    assert (replaced.status_code, replaced.json()["into"]) == (200, "urn:other")
    assert replaced.json()["strata"] == [[0, 1]]
    assert inferred(server) == set()
    assert "<urn:a> <urn:leaf> " in "".join(inferred(server, "urn:other"))
    shown = server.client.get("/rules/family").json()
    assert shown.pop("inconsistencies") == []
    assert server.client.get("/rules").json() == {"rules": [shown]}
    assert server.client.delete("/rules/family").status_code == 204
    assert inferred(server, "urn:other") == set()
    for answer in (server.client.get("/rules/family"), server.client.delete("/rules/family")):
        assert problem_of(answer, 404)["code"] == "unknown-rules"
    assert server.client.get("/rules").json() == {"rules": []}


def test_inconsistencies_are_listed_with_their_premises(start_server: Start) -> None:
    server = start_server()
    owl, rdf = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    disjoint = f"<urn:A> <{owl}disjointWith> <urn:B>"
    server.update(f"INSERT DATA {{ {disjoint} . <urn:x> a <urn:A> . GRAPH <urn:g> {{ <urn:x> a <urn:B> }} }}")
    found = put(server, "owl", {"include": ["owl2-rl"], "into": "urn:owl"}).json()["inconsistencies"]
    assert [each["rule"] for each in found] == ["cax-dw"]
    assert sorted(found[0]["premises"]) == [
        f"<urn:A> <{owl}disjointWith> <urn:B> .",
        f"<urn:x> <{rdf}type> <urn:A> .",
        f"<urn:x> <{rdf}type> <urn:B> <urn:g> .",
    ]
    server.update("DELETE WHERE { <urn:x> a <urn:A> }")
    assert server.client.get("/rules/owl").json()["inconsistencies"] == []


def test_put_without_waiting_answers_with_a_job(start_server: Start) -> None:
    server = start_server()
    server.update(FAMILY)
    answer = put(server, wait="false")
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"{server.url}jobs/{answer.json()['id']}"
    assert answer.json()["kind"] == "rules"
    job = ended(server, answer.headers["Location"])
    assert (job["state"], job["progress"]["stage"], job["progress"]["rows"]) == ("done", "done", 1)
    assert job["request"] == {"rules": "family", "into": INTO}
    assert len(inferred(server)) == 1
    assert put(server, wait="false").status_code == 200, "an unchanged set needs no job"
    failing = put(server, "small", members(into="urn:small", max_inferred=0), wait="false")
    job = ended(server, failing.headers["Location"])
    assert job["state"] == "failed"
    assert "max_inferred" in job["error"]
    problem_of(server.client.get("/rules/small"), 404)
    refused = put(server, "unsafe", members("CONSTRUCT { ?x <urn:p> ?z } WHERE { ?x ?p ?o }"), wait="false")
    assert problem_of(refused, 400)["code"] == "rule-unsafe"


@pytest.mark.parametrize(
    ("rules", "code", "place", "number"),
    [
        (["CONSTRUCT { ?x <urn:p> ?z } WHERE { ?x ?p ?o }"], "rule-unsafe", (1, 24), 0),
        ([GRAND, "CONSTRUCT {\n ?x <urn:p> [] } WHERE { ?x ?p ?o }"], "rule-blank-node", (2, 13), 1),
        (["CONSTRUCT { _:new <urn:p> 1 } WHERE { ?x ?p ?o }"], "rule-blank-node", (1, 13), 0),
        ([GRAND, "CONSTRUCT { ?x <urn:p> } WHERE { ?x ?p ?o }"], "query-text", (1, 24), 1),
        (["SELECT * { ?s ?p ?o }"], "query-text", (1, 1), 0),
    ],
)
def test_refused_rule_is_named_with_its_place(
    server: LiveServer, rules: list[str], code: str, place: tuple[int, int], number: int
) -> None:
    problem = problem_of(put(server, "refused", members(*rules)), 400)
    assert problem["code"] == code
    assert (problem["line"], problem["column"], problem["rule"]) == (*place, number)
    assert problem["excerpt"].endswith("^")
    assert problem["detail"].startswith(f"rule {number}: ")
    problem_of(server.client.get("/rules/refused"), 404)


@pytest.mark.parametrize(
    ("text", "word", "column"),
    [
        ("CONSTRUCT { ?x <urn:p> 1 } WHERE { STREAM <urn:s> [NOW] { ?x ?p ?o } }", "window", 36),
        ("CONSTRUCT { ?x <urn:p> 1 } FROM <urn:g> WHERE { ?x ?p ?o }", "FROM", 28),
        ("CONSTRUCT { ?x <urn:p> 1 } WHERE { SERVICE <urn:h> { ?x ?p ?o } }", "SERVICE", 36),
        ("CONSTRUCT { ?x <urn:p> 1 } WHERE { ?x ?p ?o } LIMIT 1", "LIMIT", 47),
        ("CONSTRUCT { ?x <urn:p> 1 } WHERE { ?x ?p ?o } OFFSET 1", "OFFSET", 47),
        ("CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x ?p ?o BIND(NOW() AS ?y) }", "NOW", 51),
        ("CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x ?p ?o BIND(RAND() AS ?y) }", "RAND", 51),
        ("CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x ?p ?o BIND(UUID() AS ?y) }", "UUID", 51),
        ("CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x ?p ?o BIND(STRUUID() AS ?y) }", "STRUUID", 51),
        ("CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x ?p ?o BIND(BNODE() AS ?y) }", "BNODE", 51),
    ],
)
def test_unsupported_construct_of_a_rule_is_501(
    server: LiveServer, text: str, word: str, column: int
) -> None:
    problem = problem_of(put(server, "refused", members(text)), 501)
    assert word in problem["detail"]
    assert (problem["rule"], problem["line"], problem["column"]) == (0, 1, column)


def test_half_of_a_surrogate_pair_in_a_rule_is_refused(server: LiveServer) -> None:
    text = "CONSTRUCT { ?x <urn:q> '\\ud800' } WHERE { ?x ?p ?y }"
    body = f'{{"rules": ["{text}"], "into": "urn:surrogate"}}'
    headers = {"Content-Type": "application/json"}
    problem = problem_of(server.client.put("/rules/refused", content=body, headers=headers), 400)
    assert (problem["code"], problem["column"]) == ("query-text", 25)
    assert "\ud800" in problem["excerpt"]
    queried = server.client.post("/queries?name=q", content=f'{{"query": "{text}"}}', headers=headers)
    assert problem_of(queried, 400)["code"] == "query-text"


def test_cycle_through_negation_names_its_rules(server: LiveServer) -> None:
    one = "CONSTRUCT { ?x <urn:q> 1 } WHERE { ?x <urn:p> 1 }"
    other = "CONSTRUCT { ?x <urn:p> 1 } WHERE { ?x <urn:r> 1 FILTER NOT EXISTS { ?x <urn:q> 1 } }"
    problem = problem_of(put(server, "cyclic", members(GRAND, one, other)), 400)
    assert problem["code"] == "rule-negation-cycle"
    assert sorted((each["rule"], each["text"]) for each in problem["rules"]) == [(1, one), (2, other)]
    count = "CONSTRUCT { ?x <urn:n> ?m } WHERE { ?x <urn:n> ?n BIND(?n + 1 AS ?m) }"
    problem = problem_of(put(server, "cyclic", members(count)), 400)
    assert (problem["code"], problem["rules"]) == ("rule-bind-cycle", [{"rule": 0, "text": count}])


def test_sets_that_would_read_one_another_are_refused(start_server: Start) -> None:
    server = start_server()
    itself = problem_of(put(server, body=members(**{"from": [INTO]})), 400)
    assert itself["code"] == "cycle"
    put(server, "one", members(into="urn:one", **{"from": ["urn:two"]}))
    problem = problem_of(put(server, "two", members(into="urn:two", **{"from": ["default", "urn:one"]})), 400)
    assert problem["code"] == "cycle"
    assert sorted(problem["cycle"]) == ["one", "two"]
    assert put(server, "three", members(into="urn:three", **{"from": ["urn:one"]})).status_code == 201
    used = problem_of(server.client.delete("/rules/one"), 409)
    assert (used["code"], used["used_by"]) == ("in-use", ["the rule set three"])
    moved = members(into="urn:moved", **{"from": ["urn:two"]})
    for path in ("/rules/one?dry_run=true", "/rules/one"):
        used = problem_of(server.client.put(path, json=moved), 409)
        assert (used["code"], used["used_by"]) == ("in-use", ["the rule set three"])
    assert server.client.get("/rules/one").json()["into"] == "urn:one"
    assert server.client.delete("/rules/three").status_code == 204
    assert put(server, "one", moved).status_code == 200


def test_graph_of_a_rule_set_belongs_to_the_set(start_server: Start) -> None:
    server = start_server()
    server.update("INSERT DATA { GRAPH <urn:full> { <urn:a> <urn:p> 1 } }")
    for path in ("/rules/family?dry_run=true", "/rules/family"):
        problem = problem_of(server.client.put(path, json=members(into="urn:full")), 409)
        assert (problem["code"], problem["graph"]) == ("graph-not-empty", "urn:full")
    put(server)
    written = server.update(f"INSERT DATA {{ <urn:x> <urn:p> 1 . GRAPH <{INTO}> {{ <urn:a> <urn:p> 1 }} }}")
    assert problem_of(written, 409)["code"] == "graph-owned"
    assert not server.boolean("ASK { <urn:x> ?p ?o }")
    assert problem_of(put(server, "second"), 409)["code"] == "graph-owned"


def test_second_put_of_a_set_under_way_is_refused(start_server: Start) -> None:
    server = start_server()
    server.update(FAMILY)
    under_way = server.services.rules.put("family", members())
    for answer in (put(server), server.client.delete("/rules/family")):
        assert problem_of(answer, 409)["code"] == "in-progress"
    described = server.client.get("/rules/family").json()
    assert (described["state"], described["rules"], described["version"]) == ("materialising", [GRAND], None)
    under_way.run()
    assert server.client.get("/rules/family").json()["state"] == "ready"


def test_put_over_its_maximum_is_refused_or_suspends_the_set(start_server: Start) -> None:
    server = start_server()
    server.update(FAMILY)
    problem = problem_of(put(server, body=members(max_inferred=0)), 422)
    assert (problem["code"], problem["rules"]) == ("rule-budget", "family")
    problem_of(server.client.get("/rules/family"), 404)
    asked = members(max_inferred=0, on_budget="suspend")
    suspended = put(server, body=asked)
    assert (suspended.status_code, suspended.json()["state"]) == (201, "suspended")
    assert "max_inferred" in suspended.json()["error"]
    server.update("DELETE WHERE { <urn:b> ?p ?o }")
    assert server.client.get("/rules/family").json()["state"] == "suspended"
    assert put(server, body=asked).json()["state"] == "ready"
    assert put(server, body=members()).json()["state"] == "ready"


def test_commit_over_a_budget_is_refused(start_server: Start) -> None:
    server = start_server()
    put(server, body=members(max_inferred=0))
    assert problem_of(server.update(FAMILY), 422)["code"] == "rule-budget"
    assert not server.boolean("ASK { ?s ?p ?o }")


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("POST", "/store?default", "text/turtle"),
        ("PUT", "/store?default", "text/turtle"),
        ("POST", "/store?graph=urn:g", "text/turtle"),
        ("PUT", "/store?graph=urn:g", "text/turtle"),
        ("POST", "/store", "text/turtle"),
        ("POST", "/store", "application/n-quads"),
        ("PUT", "/store", "application/n-quads"),
    ],
)
def test_max_time_limits_updates_and_no_write_of_a_document(
    start_server: Start, method: str, target: str, kind: str
) -> None:
    server = start_server()
    pairs = "CONSTRUCT { ?x <urn:r> ?y } WHERE { ?x <urn:p> ?a . ?y <urn:p> ?b }"
    put(server, body=members(pairs, max_time="1ms"))
    document = "".join(f"<urn:{number}> <urn:p> <urn:o> .\n" for number in range(100))
    problem = problem_of(server.update(f"INSERT DATA {{ {document} }}"), 422)
    assert (problem["code"], problem["rules"]) == ("rule-budget", "family")
    written = server.client.request(method, target, content=document, headers={"Content-Type": kind})
    assert written.status_code in (201, 204)
    assert len(inferred(server)) == 10_000


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"into": INTO}, "needs rules, or include"),
        ({"rules": [GRAND]}, "into is missing"),
        (members(into="no iri"), "not an absolute IRI"),
        (members(colour="red"), "no member 'colour'"),
        (members(include=["owl"]), "no built-in rule set 'owl'"),
        (members(max_inferred=-1), "max_inferred"),
        (members(max_time="soon"), "max_time"),
        (members(on_budget="panic"), "on_budget"),
        (members(name="other"), "two names"),
        ({"rules": GRAND, "into": INTO}, "rules must be a list"),
    ],
)
def test_wrong_member_is_refused(server: LiveServer, body: dict[str, Any], part: str) -> None:
    assert part in problem_of(put(server, body=body), 400)["detail"]


def test_wrong_name_and_parameter_are_refused(server: LiveServer) -> None:
    assert problem_of(put(server, "-x"), 400)["code"] == "name"
    assert problem_of(put(server, waits="false"), 400)["code"] == "parameter"
    assert problem_of(put(server, wait="perhaps"), 400)["code"] == "parameter"


def test_read_only_server_refuses_rule_sets(start_server: Start) -> None:
    server = start_server(read_only=True)
    problem_of(put(server), 403)
    problem_of(server.client.delete("/rules/family"), 403)
    assert server.client.get("/rules").status_code == 200


def test_rule_sets_survive_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), port=0)
    with running.serve(settings) as found:
        server = LiveServer(found)
        server.update(FAMILY)
        put(server)
        before = server.client.get("/rules/family").json()
        server.services.rules.put("late", members(into="urn:late"))  # accepted, and not complete at the end
        asked = {"rules": "late", "into": "urn:late"}
        server.services.registry.jobs.add(JobRecord("cut-off", "rules", "running", asked))
        server.client.close()
    with running.serve(settings) as found:
        server = LiveServer(found)
        after = server.client.get("/rules/family").json()
        assert after | {"cost_ms": 0, "version": 0} == before | {"cost_ms": 0, "version": 0}
        assert inferred(server) == inferred(server, "urn:late") == {"<urn:a> <urn:grand> <urn:c> ."}
        assert server.client.get("/rules/late").json()["state"] == "ready"
        assert server.client.get("/jobs/cut-off").json()["state"] == "done"
        assert problem_of(server.update(f"CLEAR GRAPH <{INTO}>"), 409)["code"] == "graph-owned"
        server.update("DELETE DATA { <urn:a> <urn:parent> <urn:b> }")
        assert inferred(server) == set()
        server.client.close()


def test_why_gives_rule_and_premises_of_an_inferred_quad(start_server: Start) -> None:
    server = start_server()
    server.update(FAMILY)
    put(server)
    line = f"<urn:a> <urn:grand> <urn:c> <{INTO}>"
    why = server.client.get("/why", params={"quad": f"{line} ."}).json()
    premises = ["<urn:a> <urn:parent> <urn:b> .", "<urn:b> <urn:parent> <urn:c> ."]
    derivation = {"set": "family", "rule": GRAND, "premises": premises}
    assert why == {"version": 2, "asserted": False, "derivations": [derivation]}
    server.update("INSERT DATA { <urn:a> <urn:grand> <urn:c> }")
    assert server.client.get("/why", params={"quad": line}).json()["asserted"] is True
    given = server.client.get("/why", params={"quad": "<urn:a> <urn:parent> <urn:b> ."}).json()
    assert (given["asserted"], given["derivations"]) == (True, [])
    unknown = server.client.get("/why", params={"quad": "<urn:x> <urn:parent> <urn:b> ."})
    assert problem_of(unknown, 404)["code"] == "unknown-quad"
    for wrong in ("", "<urn:a>", "<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> <urn:d> ."):
        assert problem_of(server.client.get("/why", params={"quad": wrong}), 400)["code"] == "parameter"


def test_why_of_a_built_in_rule_has_its_w3c_name(start_server: Start) -> None:
    server = start_server()
    rdfs = "http://www.w3.org/2000/01/rdf-schema#"
    server.update(f"INSERT DATA {{ <urn:i> a <urn:c> . <urn:c> <{rdfs}subClassOf> <urn:d> }}")
    put(server, body={"include": ["rdfs"], "into": INTO})
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    why = server.client.get("/why", params={"quad": f"<urn:i> {kind} <urn:d> <{INTO}>"}).json()
    assert [each["rule"] for each in why["derivations"]] == ["rdfs9"]
    assert set(why["derivations"][0]["premises"]) == {
        f"<urn:i> {kind} <urn:c> .",
        f"<urn:c> <{rdfs}subClassOf> <urn:d> .",
    }


def test_cycles_of_sets_and_views_are_refused(start_server: Start) -> None:
    server = start_server()

    def view(name: str, read: str, graph: str) -> httpx.Response:
        text = f"CONSTRUCT {{ ?x <urn:parent> ?y }} WHERE {{ GRAPH {read} {{ ?x <urn:grand> ?y }} }}"
        return server.client.put(f"/queries/{name}", json={"query": text, "into_graph": graph})

    assert view("one", f"<{INTO}>", "urn:view").status_code == 201
    refused = problem_of(put(server, body=members(**{"from": ["default", "urn:view"]})), 400)
    assert (refused["code"], refused["cycle"]) == ("cycle", ["family"])
    assert put(server, body=members(**{"from": ["default", "urn:other"]})).status_code == 201
    assert put(server, "second", members(into="urn:second", **{"from": ["urn:view"]})).status_code == 201
    for read in (f"<{INTO}>", "<urn:second>", "?g"):
        assert problem_of(view("two", read, "urn:other"), 400)["code"] == "cycle"
    assert view("two", "<urn:third>", "urn:other").status_code == 201
    third = put(server, "third", members(into="urn:third", **{"from": ["urn:second"]}))
    assert problem_of(third, 400)["code"] == "cycle"
    assert server.client.get("/rules/third").status_code == 404


def test_premises_are_what_each_pattern_of_the_solution_matches(start_server: Start) -> None:
    server = start_server()
    rules = [
        "CONSTRUCT { ?x <urn:label> ?l } WHERE { ?x <urn:parent> ?y OPTIONAL { ?x <urn:name> ?l } }",
        "CONSTRUCT { ?x <urn:either> ?y } WHERE { { ?x <urn:parent> ?y } UNION { ?x <urn:child> ?y } }",
        "CONSTRUCT { ?x <urn:above> ?y } WHERE { ?x <urn:parent>+ ?y }",
        "CONSTRUCT { ?x <urn:count> ?n } WHERE {"
        " { SELECT ?x (COUNT(*) AS ?n) { ?x <urn:parent> ?y } GROUP BY ?x } }",
    ]
    server.update(
        "INSERT DATA { <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> ."
        ' <urn:a> <urn:child> <urn:b> . GRAPH <urn:g> { <urn:a> <urn:name> "Ann" } }'
    )
    assert put(server, body=members(*rules)).status_code == 201
    first, second = "<urn:a> <urn:parent> <urn:b> .", "<urn:b> <urn:parent> <urn:c> ."

    def premises(triple: str) -> list[list[str]]:
        answer = server.client.get("/why", params={"quad": f"{triple} <{INTO}> ."})
        return [each["premises"] for each in answer.json()["derivations"]]

    assert premises('<urn:a> <urn:label> "Ann"') == [[first, '<urn:a> <urn:name> "Ann" <urn:g> .']]
    assert premises("<urn:a> <urn:either> <urn:b>") == [[first], ["<urn:a> <urn:child> <urn:b> ."]]
    assert premises("<urn:a> <urn:above> <urn:c>") == [[first, second]]
    assert premises('<urn:a> <urn:count> "1"^^<http://www.w3.org/2001/XMLSchema#integer>') == [[first]]


@pytest.mark.parametrize(
    "body", ["", "VALUES ?z { 1 }", "OPTIONAL { ?x <urn:p> ?y }", "FILTER NOT EXISTS { ?x <urn:none> ?y }"]
)
def test_graphs_that_come_and_go_change_what_their_names_derive(start_server: Start, body: str) -> None:
    server = start_server()
    rule = f"CONSTRUCT {{ ?g <urn:listed> true }} WHERE {{ GRAPH ?g {{ {body} }} }}"
    assert put(server, body=members(rule)).status_code == 201

    def listed() -> set[str]:
        return {line.split()[0] for line in inferred(server)}

    assert listed() == set()
    for update, names in (
        ("INSERT DATA { GRAPH <urn:one> { <urn:a> <urn:b> <urn:c> } }", {"<urn:one>"}),
        ("CREATE GRAPH <urn:two>", {"<urn:one>", "<urn:two>"}),
        ("DELETE DATA { GRAPH <urn:one> { <urn:a> <urn:b> <urn:c> } }", {"<urn:one>", "<urn:two>"}),
        ("DROP GRAPH <urn:one>", {"<urn:two>"}),
    ):
        assert server.update(update).status_code == 204
        assert listed() == names
