"""One server reads another over HTTP: its endpoint, its graphs, its views; the other goes and returns."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from quadrill.app import running
from quadrill.app.config import Settings

from .conftest import LiveServer, Start, problem_of

E = "http://example.org/"
P = f"PREFIX : <{E}>\n"
SEEN = f"STREAM <{E}s> [RANGE 1h] {{ ?x :seen ?v }}"


def host_of(server: LiveServer) -> str:
    return server.url.removeprefix("http://").rstrip("/")


def register(server: LiveServer, name: str, text: str, **options: Any) -> dict[str, Any]:
    answer = server.client.put(f"/queries/{name}", json={"query": P + text, **options})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def rows(server: LiveServer, name: str) -> list[str]:
    document = server.client.get(f"/queries/{name}/results", headers={"Accept": "application/json"}).json()
    names = document["head"]["vars"]
    return sorted(
        " ".join(row[each]["value"].rpartition("/")[2] for each in names)
        for row in document["results"]["bindings"]
    )


def push(server: LiveServer, at: int, name: str) -> None:
    answer = server.client.post(
        "/streams",
        params={"iri": f"{E}s", "at": at, "wait": "true"},
        content=f"<{E}{name}> <{E}seen> 1 .",
        headers={"Content-Type": "text/turtle"},
    )
    assert answer.status_code == 200, answer.text


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not check():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def source(server: LiveServer, name: str) -> dict[str, Any]:
    (found,) = server.client.get(f"/queries/{name}").json()["sources"]
    document: dict[str, Any] = found
    return document


def test_a_server_joins_its_streams_with_the_endpoint_of_another(start_server: Start) -> None:
    far = start_server()
    near = start_server(remote_hosts=(host_of(far),))
    far.update(P + "INSERT DATA { :a :label 1 . :b :label 2 }")
    call = f"SERVICE <{far.url}query> {{ ?x :label ?l }}"
    described = register(near, "q", f"SELECT ?x ?l {{ {SEEN} {call} }}", refresh={"every": "1h"})
    assert described["sources"][0]["rows"] == 2
    push(near, 1, "a")
    assert rows(near, "q") == ["a 1"]
    far.update(P + "INSERT DATA { :a :label 3 }")
    assert near.client.post("/queries/q/refresh").status_code == 200
    assert rows(near, "q") == ["a 1", "a 3"]
    document = near.client.get("/queries/q/results", headers={"Accept": "application/json"}).json()
    assert document["sources"][0]["refresh_version"] == 2
    shown = near.client.get("/queries/q/explain").text
    assert "SERVICE" in shown


def test_a_graph_of_another_server_is_read_with_its_tag_and_kept_as_a_view(start_server: Start) -> None:
    far = start_server()
    near = start_server(remote_hosts=(host_of(far),))
    far.update(P + "INSERT DATA { GRAPH :g { :a :label 1 } }")
    graph = f"{far.url}store?graph={E}g"
    register(
        near,
        "copy",
        f"CONSTRUCT {{ ?x :label ?l }} FROM <{graph}> REFRESH EVERY 1h INTO GRAPH :copy "
        "WHERE { ?x :label ?l }",
    )
    eventually(lambda: near.boolean(P + "ASK { GRAPH :copy { :a :label 1 } }"))
    assert problem_of(near.update(P + "CLEAR GRAPH :copy"), 409)["code"] == "graph-owned"
    assert near.client.post("/queries/copy/refresh").json()["sources"][0]["refresh_version"] == 1
    far.update(P + "INSERT DATA { GRAPH :g { :b :label 2 } } ; DELETE DATA { GRAPH :g { :a :label 1 } }")
    assert near.client.post("/queries/copy/refresh").json()["sources"][0]["refresh_version"] == 2
    eventually(lambda: not near.boolean(P + "ASK { GRAPH :copy { :a ?p ?o } }"))
    assert near.boolean(P + "ASK { GRAPH :copy { :b :label 2 } }")
    assert near.client.delete("/queries/copy", params={"drop_graph": "true"}).status_code == 204
    assert near.client.get("/store", params={"graph": f"{E}copy"}).status_code == 404


def test_a_view_of_one_server_is_followed_by_another(start_server: Start) -> None:
    far = start_server()
    near = start_server(remote_hosts=(host_of(far),))
    view = f"CONSTRUCT {{ ?x :now ?v }} INTO GRAPH :view WHERE {{ {SEEN} }}"
    assert register(far, "v", view)["view"]["graph"] == f"{E}view"
    call = f"SERVICE <{far.url}sparql> {{ GRAPH :view {{ ?x :now ?v }} }}"
    register(near, "q", f"SELECT ?x {{ {call} }}", refresh={"every": "100ms"})
    push(far, 1, "a")
    eventually(lambda: rows(near, "q") == ["a"])
    push(far, 2, "b")
    eventually(lambda: rows(near, "q") == ["a", "b"])


def test_a_server_that_goes_away_leaves_stale_rows_until_it_returns(start_server: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        # A port that is chosen by its number can be taken again at once.
        port = free.getsockname()[1]
    with running.serve(Settings(data=":memory:", port=port)) as first:
        far = LiveServer(first)
        near = start_server(remote_hosts=(host_of(far),))
        far.update(P + "INSERT DATA { :a :label 1 }")
        call = f"SERVICE <{far.url}query> {{ ?x :label ?l }}"
        register(near, "q", f"SELECT ?x ?l {{ {call} }}", refresh={"every": "200ms"})
        assert rows(near, "q") == ["a 1"]
        far.client.close()
    eventually(lambda: bool(source(near, "q")["stale"]))
    assert "could not be fetched" in source(near, "q")["stale_reason"]
    assert rows(near, "q") == ["a 1"]
    with running.serve(Settings(data=":memory:", port=port)) as second:
        far = LiveServer(second)
        far.update(P + "INSERT DATA { :a :label 2 }")
        assert near.client.post("/queries/q/refresh").status_code == 200
        assert source(near, "q")["stale"] is False
        assert rows(near, "q") == ["a 2"]
        far.client.close()


def test_what_is_not_allowed_or_not_there_is_told_at_registration(start_server: Start) -> None:
    far = start_server()
    near = start_server(remote_hosts=(host_of(far),))
    answer = near.client.put(
        "/queries/q", json={"query": "SELECT ?x { SERVICE <http://other.example/> { ?x ?p ?o } }"}
    )
    assert problem_of(answer, 400)["code"] == "remote-not-allowed"
    text = f"SELECT ?x FROM <{far.url}store?graph={E}none> {{ ?x ?p ?o }}"
    answer = near.client.put("/queries/q", json={"query": text, "refresh": {"every": "1h"}})
    assert problem_of(answer, 502)["code"] == "fetch-failed"
    assert near.client.get("/queries/q").status_code == 404
    text = f"SELECT ?x {{ SERVICE <{far.url}query> {{ ?x ?p ?o }} }}"
    answer = near.client.post("/queries:validate", json={"query": text})
    assert answer.status_code == 200
