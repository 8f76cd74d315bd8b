"""``/queries/{name}/results/{id}/why``: what an event's row comes from, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.app.security import hash_token, new_token
from quadrill.continuous.why.limits import WhyLimits
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of

S = "http://example.org/readings"
PREFIX = "PREFIX : <http://example.org/>\n"
HOT = PREFIX + (
    "SELECT ?room ?v WHERE { STREAM :readings [RANGE 10s] { ?s :value ?v } "
    "GRAPH :rooms { ?s :in ?room } FILTER(?v > 30) }"
)
MEAN = PREFIX + (
    "SELECT ?room (AVG(?v) AS ?mean) WHERE { STREAM :readings [RANGE 10s] { ?s :value ?v } "
    "GRAPH :rooms { ?s :in ?room } } GROUP BY ?room"
)
ROOMS = PREFIX + "INSERT DATA { GRAPH :rooms { :s1 :in :kitchen . :s2 :in :kitchen . :s3 :in :hall } }"


def integer(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def reading(sensor: str, value: int) -> str:
    return f"<http://example.org/{sensor}> <http://example.org/value> {integer(value)} ."


def room_of(sensor: str, room: str) -> str:
    e = "http://example.org/"
    return f"<{e}{sensor}> <{e}in> <{e}{room}> <{e}rooms> ."


def register(server: LiveServer, name: str, text: str, **options: Any) -> None:
    server.client.put(f"/queries/{name}", json={"query": text, **options}).raise_for_status()


def push(server: LiveServer, at: int, *lines: str) -> None:
    answer = server.client.post(
        "/streams",
        params={"iri": S, "at": at, "wait": "true"},
        content="\n".join(lines),
        headers={"Content-Type": "application/n-triples"},
    )
    answer.raise_for_status()


def why(server: LiveServer, name: str, event: int | str, **parameters: Any) -> httpx.Response:
    return server.client.get(f"/queries/{name}/results/{event}/why", params=parameters)


@pytest.fixture
def live(start_server: Start) -> LiveServer:
    """A server with rooms, a query of hot rooms, and readings of three sensors."""
    server = start_server()
    server.update(ROOMS)
    register(server, "hot", HOT)
    push(server, 1_000, reading("s1", 20), reading("s3", 50))
    push(server, 2_000, reading("s1", 31))
    return server


def test_row_of_a_join_has_its_element_and_its_quad(live: LiveServer) -> None:
    answer = why(live, "hot", 2)
    assert answer.status_code == 200
    assert answer.json() == {
        "at": 2_000,
        "version": 1,
        "elements": [{"stream": S, "seq": 2, "quads": [reading("s1", 31)]}],
        "quads": [room_of("s1", "kitchen")],
        "inferred": [],
        "truncated": False,
    }
    assert why(live, "hot", 1).json()["quads"] == [room_of("s3", "hall")]


def test_row_is_chosen_by_its_number_in_the_event(live: LiveServer) -> None:
    push(live, 3_000, reading("s2", 40), reading("s3", 60))
    feed = live.services.engine.queries.feed("hot").find(3)
    for row, (sensor, value) in enumerate([("s3", 60), ("s2", 40)]):
        assert f'"{value}"' in feed.data
        quads = why(live, "hot", 3, row=row).json()["quads"]
        assert [quad.split()[0] for quad in quads] == [f"<http://example.org/{sensor}>"]


def test_row_of_a_group_has_the_elements_of_the_group(live: LiveServer) -> None:
    register(live, "mean", MEAN, start={"from": 0})
    push(live, 3_000, reading("s2", 9))
    document = why(live, "mean", live.services.engine.queries.feed("mean").history.last_id).json()
    assert [each["seq"] for each in document["elements"]] == [1, 2, 3]
    assert document["quads"] == [room_of("s1", "kitchen"), room_of("s2", "kitchen")]


def test_deleted_row_is_explained_as_it_was(live: LiveServer) -> None:
    register(live, "all", HOT, output="changes", start={"from": 0})
    live.update(PREFIX + "DELETE DATA { GRAPH :rooms { :s1 :in :kitchen } }")
    live.services.engine.sync()
    feed = live.services.engine.queries.feed("all")
    document = why(live, "all", feed.history.last_id).json()
    assert feed.find(feed.history.last_id).kind == "delete"
    assert document["version"] == 2
    assert document["quads"] == [room_of("s1", "kitchen")]
    assert [each["seq"] for each in document["elements"]] == [2]


def test_row_that_later_commits_removed_is_explained_at_its_version(live: LiveServer) -> None:
    live.update(PREFIX + "DROP GRAPH :rooms")
    document = why(live, "hot", 2).json()
    assert (document["version"], document["quads"]) == (1, [room_of("s1", "kitchen")])


def test_row_of_a_query_without_windows_has_quads_alone(live: LiveServer) -> None:
    register(live, "kitchen", PREFIX + "SELECT ?s { GRAPH :rooms { ?s :in :kitchen } }")
    document = why(live, "kitchen", 1, row=1).json()
    assert (document["elements"], document["quads"]) == ([], [room_of("s2", "kitchen")])


def test_inferred_quads_are_listed_by_themselves(live: LiveServer) -> None:
    rule = PREFIX + "CONSTRUCT { ?s :near ?r } WHERE { GRAPH :rooms { ?s :in ?r } }"
    live.client.put("/rules/near", json={"rules": [rule], "into": "urn:near"}).raise_for_status()
    text = PREFIX + "SELECT ?s ?r { ?s :near ?r }"
    register(live, "near", text, entailment="near")
    document = why(live, "near", 1).json()
    assert document["quads"] == []
    assert document["inferred"] == [
        "<http://example.org/s1> <http://example.org/near> <http://example.org/kitchen> <urn:near> ."
    ]
    source = live.client.get("/why", params={"quad": document["inferred"][0]}).json()
    assert source["derivations"][0]["premises"] == [room_of("s1", "kitchen")]


@pytest.mark.parametrize("stored", [False, True])
def test_row_of_replaced_rules_names_the_rule_set(live: LiveServer, *, stored: bool) -> None:
    if stored:  # The replacement changes the graph of the rule set by a commit.
        live.update(PREFIX + "INSERT DATA { :s9 :value 90 }")
    rule = PREFIX + "CONSTRUCT { ?s :hot ?v } WHERE { ?s :value ?v FILTER(?v > 30) }"
    live.client.put("/rules/heat", json={"rules": [rule], "into": "urn:heat"}).raise_for_status()
    text = PREFIX + "SELECT ?s ?v WHERE { STREAM :readings [RANGE 10s] { ?s :hot ?v } }"
    register(live, "heat", text, entailment="heat", start={"from": 0})
    assert [each["seq"] for each in why(live, "heat", 2).json()["elements"]] == [2]
    rule = rule.replace("30", "95")
    live.client.put("/rules/heat", json={"rules": [rule], "into": "urn:heat"}).raise_for_status()
    problem = problem_of(why(live, "heat", 2), 410)
    assert problem["code"] == "why-expired"
    assert "the rule set heat was replaced" in problem["detail"]
    assert "retention" not in problem["detail"]
    push(live, 3_000, reading("s1", 96))
    last = live.services.engine.queries.feed("heat").history.last_id
    assert [each["seq"] for each in why(live, "heat", last).json()["elements"]] == [3]


def test_quad_of_a_construct_and_boolean_of_an_ask_are_rows(live: LiveServer) -> None:
    body = "{ STREAM :readings [RANGE 10s] { ?s :value ?v } GRAPH :rooms { ?s :in ?room } FILTER(?v > 30) }"
    register(live, "alarms", f"{PREFIX}CONSTRUCT {{ ?room :hot ?v }} WHERE {body}", start={"from": 0})
    register(live, "any", f"{PREFIX}ASK {body}", start={"from": 0})
    assert why(live, "alarms", 2).json()["quads"] == [room_of("s1", "kitchen")]
    assert why(live, "any", 1).json()["quads"] == [room_of("s3", "hall")]


def test_unknown_query_event_and_row_are_not_found(live: LiveServer) -> None:
    assert problem_of(why(live, "none", 1), 404)["code"] == "unknown-query"
    for event in (0, 99, "x"):
        assert problem_of(why(live, "hot", event), 404)["code"] == "unknown-event"
    assert problem_of(why(live, "hot", 1, row=1), 404)["code"] == "unknown-row"
    assert problem_of(why(live, "hot", 1, row="x"), 400)["code"] == "parameter"
    assert problem_of(why(live, "hot", 1, rows=1), 400)["code"] == "parameter"
    live.client.delete("/queries/hot").raise_for_status()
    assert problem_of(why(live, "hot", 1), 404)["code"] == "unknown-query"


def test_replaced_query_does_not_know_earlier_events(live: LiveServer) -> None:
    text = HOT.replace("30", "40")
    live.client.put("/queries/hot", params={"replace": "true"}, json={"query": text}).raise_for_status()
    assert problem_of(why(live, "hot", 1), 404)["code"] == "unknown-event"
    push(live, 3_000, reading("s2", 41))
    assert [each["seq"] for each in why(live, "hot", 3).json()["elements"]] == [3]


def test_elements_out_of_retention_are_expired(start_server: Start) -> None:
    server = start_server(retention="5s")
    server.update(ROOMS)
    register(server, "hot", HOT)
    push(server, 1_000, reading("s1", 31))
    assert why(server, "hot", 1).status_code == 200
    push(server, 60_000, reading("s2", 1))
    assert problem_of(why(server, "hot", 1), 410)["code"] == "why-expired"


def test_event_that_is_no_longer_kept_is_expired(start_server: Start) -> None:
    server = start_server(feed_history=1)
    server.update(ROOMS)
    register(server, "hot", HOT)
    push(server, 1_000, reading("s1", 31))
    push(server, 2_000, reading("s2", 32))
    assert problem_of(why(server, "hot", 1), 410)["code"] == "why-expired"
    assert why(server, "hot", 2).status_code == 200


def test_bulk_load_expires_the_rows_before_it(live: LiveServer) -> None:
    live.services.store.writer.bulk_extend([Quad(NamedNode("urn:a"), NamedNode("urn:b"), NamedNode("urn:c"))])
    assert problem_of(why(live, "hot", 2), 410)["code"] == "why-expired"
    push(live, 3_000, reading("s2", 41))
    assert why(live, "hot", 3).json()["quads"] == [room_of("s2", "kitchen")]


def test_roles_are_those_that_read_results(start_server: Start) -> None:
    server = start_server()
    register(server, "hot", HOT)
    address = "/queries/hot/results/1/why"
    for role, status in (("read", 404), ("push", 403), ("write", 404)):
        token = new_token()
        server.services.registry.tokens.add(TokenRecord(hash_token(token), role, role, 0))
        server.services.security.refresh()
        auth = {"Authorization": f"Bearer {token}"}
        assert server.client.get(address, headers=auth).status_code == status, role
        if role == "write":
            assert server.client.post(address, headers=auth).status_code == 405
    assert server.client.get(address).status_code == 401


def test_long_lists_are_cut(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadrill.app.describing.why.why.__defaults__", (WhyLimits(listed=2),))
    register(live, "mean", MEAN, start={"from": 0})
    push(live, 3_000, reading("s2", 9))
    document = why(live, "mean", live.services.engine.queries.feed("mean").history.last_id).json()
    assert document["truncated"]
    assert len(document["elements"]) == 2


def test_limit_that_stops_all_evaluations_is_a_client_error(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = "STREAM :readings [RANGE 10s] { ?a :value ?v . ?b :value ?w }"
    first = "GRAPH :rooms { { SELECT ?s { ?s :in ?r } ORDER BY ?s LIMIT 1 } }"
    register(live, "pairs", f"{PREFIX}SELECT ?a ?b WHERE {{ {pairs} {first} }}", start={"from": 0})
    assert why(live, "pairs", 2).status_code == 200
    monkeypatch.setattr("quadrill.app.describing.why.why.__defaults__", (WhyLimits(rows=2),))
    problem = problem_of(why(live, "pairs", 2), 400)
    assert (problem["code"], problem["limit"]) == ("limit", 2)


def test_query_that_reads_other_servers_is_not_explained(start_server: Start) -> None:
    server = start_server(remote_hosts=["127.0.0.1"])
    register(server, "far", PREFIX + "SELECT ?s { SERVICE SILENT <http://127.0.0.1:9/sparql> { ?s ?p ?o } }")
    assert problem_of(why(server, "far", 1), 501)["code"] == "unsupported"
