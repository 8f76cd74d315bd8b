"""The anomalies of the LDBC ACID test list (Waudby et al., 2020), provoked over HTTP by many clients.

Dirty write (G0), aborted read (G1a), intermediate read (G1b), circular information flow (G1c), observed
transaction vanishes (OTV), fuzzy read (IMP), predicate reads (PMP), lost update (LU), write skew (WS). A
transaction is one request: an update of several operations, or a query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import LiveServer, Start

CLIENTS = 8
ROUNDS = 15
P = "PREFIX : <urn:> "


@pytest.fixture(params=["memory", "disk"])
def live(request: pytest.FixtureRequest, start_server: Start, tmp_path: Path) -> LiveServer:
    return start_server(data=":memory:" if request.param == "memory" else str(tmp_path / "data"))


def update(client: httpx.Client, text: str) -> int:
    answer = client.post("/update", data={"update": P + text})
    return answer.status_code


def rows(client: httpx.Client, text: str) -> list[tuple[str, ...]]:
    answer = client.post(
        "/query", data={"query": P + text}, headers={"Accept": "application/sparql-results+json"}
    )
    answer.raise_for_status()
    document = answer.json()
    names = document["head"]["vars"]
    return [
        tuple(row[name]["value"] for name in names if name in row) for row in document["results"]["bindings"]
    ]


def many(live: LiveServer, work: Callable[[httpx.Client, int], None], clients: int = CLIENTS) -> None:
    """Run ``work`` in so many clients at once."""

    def one(number: int) -> None:
        with httpx.Client(base_url=live.url, timeout=60) as client:
            work(client, number)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))


@pytest.mark.always("disk")
def test_g0_no_dirty_write_two_things_are_always_written_by_the_same_transaction(live: LiveServer) -> None:
    def write(client: httpx.Client, number: int) -> None:
        for task in range(ROUNDS):
            tag = number * ROUNDS + task
            text = "DELETE { ?x :tag ?t } WHERE { ?x :tag ?t } ; "
            assert (
                update(client, text + f"INSERT DATA {{ :a :tag {tag} }} ; INSERT DATA {{ :b :tag {tag} }}")
                == 204
            )
            found = rows(client, "SELECT ?a ?b { :a :tag ?a . :b :tag ?b }")
            assert len(found) == 1
            assert found[0][0] == found[0][1]

    many(live, write)


def test_g1a_no_read_of_what_was_aborted(live: LiveServer) -> None:
    assert update(live.client, "INSERT DATA { :a :version 1 }") == 204

    def work(client: httpx.Client, number: int) -> None:
        for _ in range(ROUNDS):
            if number % 2:
                text = "DELETE { :a :version ?v } INSERT { :a :version 2 } WHERE { :a :version ?v } ; "
                assert update(client, text + "LOAD <http://127.0.0.1:1/none>") >= 400
            else:
                assert rows(client, "SELECT ?v { :a :version ?v }") == [("1",)]

    many(live, work)


def test_g1b_no_read_of_what_stood_between_two_operations(live: LiveServer) -> None:
    assert update(live.client, "INSERT DATA { :a :n 1 }") == 204

    def work(client: httpx.Client, number: int) -> None:
        for _ in range(ROUNDS):
            if number % 2:
                step = "DELETE { :a :n ?v } INSERT { :a :n ?w } WHERE { :a :n ?v BIND(?v + 1 AS ?w) }"
                assert update(client, f"{step} ; {step}") == 204
            else:
                ((version,),) = rows(client, "SELECT ?v { :a :n ?v }")
                assert int(version) % 2 == 1

    many(live, work)


def test_g1c_information_never_flows_in_a_circle(live: LiveServer) -> None:
    """Each transaction writes one thing and copies the other: of two, at most one can see the other's."""
    update(live.client, "INSERT DATA { :a :v 0 . :b :v 0 }")

    def work(client: httpx.Client, number: int) -> None:
        mine, other = (":a", ":b") if number % 2 else (":b", ":a")
        for task in range(ROUNDS):
            tag = number * ROUNDS + task + 1
            text = f"DELETE {{ {mine} :v ?old }} INSERT {{ {mine} :v {tag} . :t{tag} :saw ?seen }} "
            assert update(client, text + f"WHERE {{ {mine} :v ?old . {other} :v ?seen }}") == 204

    many(live, work)
    saw = {int(t.removeprefix("urn:t")): int(v) for t, v in rows(live.client, "SELECT ?t ?v { ?t :saw ?v }")}
    assert len(saw) == CLIENTS * ROUNDS
    assert not [tag for tag, seen in saw.items() if saw.get(seen) == tag]


@pytest.mark.always("disk")
def test_otv_and_imp_and_pmp_a_reader_sees_one_state_throughout_its_query(live: LiveServer) -> None:
    """The same things are read several times within one query, by name and by predicate."""
    update(live.client, "INSERT DATA { " + " ".join(f":x{n} :v 0 ." for n in range(4)) + " }")
    both = (
        "SELECT ?low ?high ?n { { SELECT (MIN(?v) AS ?low) (MAX(?v) AS ?high) { ?x :v ?v } } "
        "{ SELECT (COUNT(*) AS ?n) { ?y :v ?w } } }"
    )

    def work(client: httpx.Client, number: int) -> None:
        for task in range(ROUNDS):
            if number % 2:
                new = number * ROUNDS + task
                size = 1 + new % 4
                things = " ".join(f":x{n} :v {new} ." for n in range(size))
                assert update(client, f"DELETE WHERE {{ ?x :v ?v }} ; INSERT DATA {{ {things} }}") == 204
            else:
                ((low, high, count),) = rows(client, both)
                assert low == high
                assert int(count) == (4 if low == "0" else 1 + int(low) % 4)

    many(live, work)


def test_lu_no_update_is_lost(live: LiveServer) -> None:
    update(live.client, "INSERT DATA { :counter :v 0 }")

    def work(client: httpx.Client, _number: int) -> None:
        text = (
            "DELETE { :counter :v ?v } INSERT { :counter :v ?w } WHERE { :counter :v ?v BIND(?v + 1 AS ?w) }"
        )
        for _ in range(ROUNDS):
            assert update(client, text) == 204

    many(live, work)
    assert rows(live.client, "SELECT ?v { :counter :v ?v }") == [(str(CLIENTS * ROUNDS),)]


@pytest.mark.always("disk")
def test_lu_no_update_is_lost_by_clients_that_read_first_and_write_with_if_match(live: LiveServer) -> None:
    live.client.put(
        "/store?graph=urn:c", content="<urn:c> <urn:v> 0 .", headers={"Content-Type": "text/turtle"}
    )

    def work(client: httpx.Client, _number: int) -> None:
        done = 0
        while done < 5:
            read = client.get("/store?graph=urn:c", headers={"Accept": "application/n-triples"})
            value = int(read.text.split('"')[1])
            headers = {"Content-Type": "text/turtle", "If-Match": read.headers["ETag"]}
            wrote = client.put(
                "/store?graph=urn:c", content=f"<urn:c> <urn:v> {value + 1} .", headers=headers
            )
            assert wrote.status_code in (204, 412)
            done += wrote.status_code == 204

    many(live, work)
    assert rows(live.client, "SELECT ?v { GRAPH <urn:c> { ?c :v ?v } }") == [(str(CLIENTS * 5),)]


def test_ws_no_write_skew(live: LiveServer) -> None:
    """Two accounts whose sum must not become negative: each withdrawal looks at both and changes one."""
    update(live.client, "INSERT DATA { :a :v 60 . :b :v 60 }")

    def work(client: httpx.Client, number: int) -> None:
        mine = ":a" if number % 2 else ":b"
        text = (
            f"DELETE {{ {mine} :v ?old }} INSERT {{ {mine} :v ?new }} "
            f"WHERE {{ :a :v ?a . :b :v ?b . {mine} :v ?old FILTER(?a + ?b >= 100) "
            "BIND(?old - 100 AS ?new) }"
        )
        assert update(client, text) == 204

    many(live, work)
    (total,) = rows(live.client, "SELECT (SUM(?v) AS ?s) { ?x :v ?v }")
    assert total == ("20",)


@pytest.mark.always("disk")
def test_readers_go_on_while_a_long_update_runs(live: LiveServer) -> None:
    things = " ".join(f"<urn:s{n}> <urn:p> {n} ." for n in range(1500))
    live.client.put("/store?default", content=things, headers={"Content-Type": "text/turtle"})
    taken: list[float] = []
    text = (
        "INSERT { :n :is ?n } WHERE { SELECT (COUNT(*) AS ?n) { ?a :p ?x . ?b :p ?y FILTER(?x * ?y > 0) } }"
    )
    writer = threading.Thread(target=lambda: update(live.client, text))
    started = time.monotonic()
    writer.start()
    with httpx.Client(base_url=live.url, timeout=60) as client:
        while writer.is_alive():
            before = time.monotonic()
            assert rows(client, "SELECT ?v { <urn:s7> <urn:p> ?v }") == [("7",)]
            taken.append(time.monotonic() - before)
    writer.join()
    assert len(taken) > 3, "the update was too short to tell"
    assert max(taken) < (time.monotonic() - started) / 2
