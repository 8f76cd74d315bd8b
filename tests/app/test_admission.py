"""Which queries are light, and that heavy ones can be stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from quadrill.app.evaluation import admission
from quadrill.app.evaluation.admission import is_short_update
from quadrill.app.evaluation.processes import Process
from quadrill.continuous.analysis.prepared import prepared
from quadrill.store.sparql.skeletons import split_constants
from tests.app.conftest import LiveServer, Start, problem_of
from tests.program import Program

MILLION = 1_000_000


def is_light(text: str, quads: int, *sizes: Callable[[str], int | None]) -> bool:
    parts = split_constants(text)
    return admission.is_light(prepared(text, parts).shape, parts.constants, quads, *sizes)


CROSS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"


@pytest.mark.parametrize(
    "text",
    [
        "ASK {}",
        "SELECT * { ?s ?p ?o }",
        "SELECT * { ?s ?p ?o } LIMIT 10",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "SELECT ?p ?o { <urn:a> ?p ?o }",
        "SELECT * { GRAPH ?g { ?s a <urn:C> } }",
        "SELECT * { ?s a <urn:C> ; <urn:p> ?o , ?q . ?o <urn:q> 'x'@en , 1 OPTIONAL { ?o <urn:r> ?r } }",
        "PREFIX : <urn:> SELECT * { ?s :p \"1\"^^:int ; :q ?q FILTER(?q > 3 && REGEX(STR(?q), 'x', 'i')) }",
        "SELECT * { { ?s a <urn:C> } UNION { ?s a <urn:D> } }",
        "CONSTRUCT { ?a <urn:x> ?b . ?c <urn:y> ?d } WHERE { ?a <urn:p> ?b }",
        "SELECT * { <urn:a> <urn:p> ?x . ?x <urn:q>/<urn:r> ?y BIND(STR(?y) AS ?z) }",
        "SELECT * { ?y <urn:q> ?z . ?x <urn:p> ?y ; a <urn:C> }",
        "SELECT * { <urn:a> ^<urn:p> ?x . ?x <urn:name> ?n }",
    ],
)
def test_queries_that_start_at_a_constant_or_scan_once_are_light(text: str) -> None:
    assert is_light(text, MILLION)


@pytest.mark.parametrize(
    "text",
    [
        CROSS,
        "SELECT * { ?a ?b ?c . ?d ?e ?f }",
        "SELECT * { <urn:a> <urn:p> ?x . <urn:b> <urn:q> ?y }",
        "SELECT * { ?s <urn:p> ?o . ?o <urn:q> ?x }",
        "SELECT * { <urn:a> <urn:city> ?c . ?x <urn:city> ?c }",
        "SELECT * { <urn:a> <urn:p> ?x . ?x ^<urn:p> ?y }",
        "SELECT * { <urn:a> <urn:p>/^<urn:p> ?y . ?y <urn:p> ?z }",
        "SELECT * { ?a (<urn:p>|<urn:q>)* ?b }",
        "SELECT * { <urn:a> <urn:p>+ ?b }",
        "SELECT * { ?s ?p ?o FILTER NOT EXISTS { ?o ?q ?r } }",
        "SELECT * { VALUES ?x { 1 2 } VALUES ?y { 1 2 } }",
        "SELECT * { { SELECT ?s { ?s ?p ?o } } ?a ?b ?c }",
        "SELECT * { [ ?p ?o ] ?q ?r }",
        "SELECT * { << ?s ?p ?o >> ?q ?r }",
        "SELECT * { " + "{ ?s ?p ?o } UNION " * 500 + "{} }",
    ],
)
def test_products_closures_and_what_is_not_judged_are_heavy(text: str) -> None:
    assert not is_light(text, MILLION)


def test_a_small_store_bounds_the_work_of_any_join() -> None:
    assert is_light(CROSS, 100)
    assert not is_light(CROSS, 1000)


SIZES = {"urn:few": 20, "urn:many": MILLION, "urn:x/../many": 2}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { GRAPH <urn:few> { ?s <urn:p> ?v } ?s <urn:in> ?r }",
        "SELECT * { ?s <urn:in> ?r GRAPH <urn:few> { ?s <urn:p> ?v } }",
        "PREFIX : <urn:> PREFIX u: <urn:> SELECT * { GRAPH u:few { ?s :p ?v } ?s :in ?r }",
        "SELECT * { GRAPH <urn:few> { ?s <urn:p> ?v { ?v <urn:q> ?w } OPTIONAL { ?v <urn:q> ?x } } }",
        "SELECT * { GRAPH ?g { GRAPH <urn:few> { ?s <urn:p> ?v } ?s <urn:in> ?r } }",
    ],
)
def test_a_join_with_a_small_graph_is_light(text: str) -> None:
    assert is_light(text, 100_000, SIZES.get)
    assert not is_light(text, 100_000)
    assert not is_light(text, 100 * MILLION, {"urn:few": 100_000}.get)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { GRAPH <urn:many> { ?s <urn:p> ?v } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:few> { ?s <urn:p> ?v } ?s <urn:in> ?r . ?r <urn:in> ?t }",
        "SELECT * { GRAPH <urn:few> { } ?s <urn:p> ?v . ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:few> { GRAPH ?g { ?s <urn:p> ?v } ?v <urn:q> ?w } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:few> { { ?s <urn:p> ?v } } GRAPH ?g { ?v <urn:q> ?w . ?s <urn:in> ?r } }",
        "SELECT * { GRAPH <urn:few> { ?s <urn:p>/<urn:p>/<urn:p> ?v } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:few> { ?s <urn:p>* ?v } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:none> { ?s <urn:p> ?v } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:x/../many> { ?s <urn:p> ?v } ?s <urn:in> ?r }",
        "BASE <urn:few> SELECT * { GRAPH <> { ?s <urn:p> ?v } ?s <urn:in> ?r }",
        "SELECT * { GRAPH <urn:few> { ?s <urn:p> ?v } FILTER EXISTS { ?a ?b ?c . ?d ?e ?f } ?s ?p ?r }",
    ],
)
def test_a_join_is_heavy_unless_the_graphs_that_it_names_bound_it(text: str) -> None:
    assert not is_light(text, 100_000, SIZES.get)


@pytest.fixture(params=["memory", "disk"])
def loaded(request: pytest.FixtureRequest, start_server: Start, tmp_path: Path) -> LiveServer:
    server = start_server(data=":memory:" if request.param == "memory" else str(tmp_path / "data"))
    triples = "".join(f"<urn:s{n}> <urn:p> <urn:o{n}> .\n" for n in range(3000))
    server.client.put("/store?default", content=triples, headers={"Content-Type": "text/turtle"})
    server.update("CREATE GRAPH <urn:empty> ; INSERT DATA { GRAPH <urn:g> { _:b <urn:p> 1 } }")
    return server


def test_a_heavy_query_is_killed_at_its_time_out_while_others_are_answered(loaded: LiveServer) -> None:
    answers: list[float] = []

    def ask() -> None:
        for _ in range(10):
            started = time.monotonic()
            assert loaded.boolean("ASK { <urn:s1> ?p ?o }")
            answers.append(time.monotonic() - started)

    asking = threading.Thread(target=ask)
    asking.start()
    started = time.monotonic()
    problem = problem_of(loaded.query(CROSS, timeout="1"), 503)
    assert problem["code"] == "query-timeout"
    assert time.monotonic() - started < 2
    asking.join()
    assert len(answers) == 10
    assert loaded.services.endpoint.processes.list() == []


def test_a_join_with_a_small_graph_is_evaluated_in_the_server_and_a_growing_one_is_not(
    loaded: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[str] = []
    end = loaded.services.endpoint.processes.end

    def noted(process: Process) -> None:
        if process.kind == "query":
            lanes.append(process.lane)
        end(process)

    monkeypatch.setattr(loaded.services.endpoint.processes, "end", noted)
    loaded.update("INSERT DATA { GRAPH <urn:g> { <urn:s7> <urn:q> 1 } }")
    text = "SELECT ?o { GRAPH <urn:g> { ?s <urn:q> ?v } ?s <urn:p> ?o . }"
    assert loaded.query(text, "text/csv").text.split() == ["o", "urn:o7"]
    rows = " . ".join(f"<urn:s{n}> <urn:r> {n}" for n in range(4000))
    loaded.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {rows} }} }}")
    assert loaded.query(text, "text/csv").text.split() == ["o", "urn:o7"]
    assert lanes == ["inline", "worker"]
    problem_of(loaded.query("SELECT * { GRAPH <http://[> { ?s ?p ?o } ?s ?q ?r . ?r ?a ?b }"), 400)


def test_a_heavy_query_is_killed_on_request(loaded: LiveServer) -> None:
    found: list[dict[str, object]] = []
    asking = threading.Thread(target=lambda: found.append(problem_of(loaded.query(CROSS), 503)))
    asking.start()
    deadline = time.monotonic() + 10
    while not any(each["lane"] == "worker" for each in loaded.services.endpoint.processes.list()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (process,) = loaded.client.get("/processes").json()["processes"]
    assert loaded.client.delete(f"/processes/{process['id']}").status_code == 204
    asking.join(10)
    assert found[0]["code"] == "cancelled"


def test_workers_see_what_was_committed_before(loaded: LiveServer) -> None:
    heavy = "SELECT ?o { VALUES ?x { 1 } <urn:new> <urn:p> ?o }"
    for number in range(3):
        version = loaded.update(f"INSERT DATA {{ <urn:new> <urn:p> {number} }}").headers["ETag"]
        answer = loaded.query(heavy)
        assert len(answer.json()["results"]["bindings"]) == number + 1
        assert answer.headers["ETag"] == version


def test_workers_answer_as_the_server_itself_does(loaded: LiveServer) -> None:
    marker = "VALUES ?marker { 1 }"
    assert loaded.query(f"SELECT ?g {{ {marker} GRAPH ?g {{}} }} ORDER BY ?g", "text/csv").text.split() == [
        "g",
        "urn:empty",
        "urn:g",
    ]
    assert loaded.boolean(f"ASK {{ {marker} <urn:s1> <urn:p> <urn:o1> }}")
    graph = loaded.query(
        f"CONSTRUCT {{ ?s ?p ?o }} {{ {marker} ?s ?p ?o FILTER(?s = <urn:s7>) }}", "text/turtle"
    )
    assert graph.text.strip() == "<urn:s7> <urn:p> <urn:o7> ."
    named = loaded.query(f"SELECT ?o {{ {marker} ?s ?p ?o }}", **{"default-graph-uri": "urn:g"})
    assert [row["o"]["value"] for row in named.json()["results"]["bindings"]] == ["1"]
    here = loaded.query("SELECT ?s { GRAPH <urn:g> { ?s ?p 1 } }").json()["results"]["bindings"]
    there = loaded.query(f"SELECT ?s {{ {marker} GRAPH <urn:g> {{ ?s ?p 1 }} }}").json()["results"][
        "bindings"
    ]
    assert here == there, "blank nodes keep their labels"
    problem = problem_of(loaded.query(f"SELECT * {{ {marker} ?s ?p"), 400)
    assert problem["line"] == 1
    problem_of(loaded.query(f"SELECT (<urn:f>(1) AS ?x) {{ {marker} }}"), 501)
    problem_of(loaded.query(f"SELECT * {{ {marker} SERVICE <http://127.0.0.1:1/> {{}} }}"), 403)
    problem_of(loaded.query(f"SELECT * {{ {marker} }}", "image/png"), 406)


def test_a_worker_that_needs_too_much_memory_is_lost_alone(start_server: Start) -> None:
    server = start_server(worker_memory_bytes=1 << 28)
    values = " ".join(map(str, range(300)))
    text = "SELECT * { " + " ".join(f"VALUES ?v{n} {{ {values} }}" for n in range(4)) + " } ORDER BY ?v3 ?v0"
    assert problem_of(server.query(text), 500)["code"] in ("worker-lost", "store")
    assert server.boolean("ASK { VALUES ?x { 1 } }")


def test_copies_are_removed_with_the_server_and_after_a_crash(start_server: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "checkpoints-left").mkdir(parents=True)
    server = start_server(data=str(data))
    assert not (data / "checkpoints-left").exists()
    assert server.boolean("ASK { VALUES ?x { 1 } }")
    assert list(data.glob("checkpoints-*"))
    server.services.workers.close()
    assert not list(data.glob("checkpoints-*"))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the children of a process in /proc")
def test_workers_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    arguments = ["serve", "--data", ":memory:", "--port", "0"]
    server = Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        values = " ".join(map(str, range(200)))
        text = (
            "SELECT (COUNT(*) AS ?n) { " + " ".join(f"VALUES ?v{n} {{ {values} }}" for n in range(5)) + " }"
        )
        asking = threading.Thread(
            target=lambda: _ignore(lambda: httpx.get(f"{url}query", params={"query": text}))
        )
        asking.start()
        deadline = time.monotonic() + 10
        while not (workers := _children(server.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        server.send_signal(signal.SIGKILL)
        asking.join(20)
        deadline = time.monotonic() + 10
        while any(_runs(worker) for worker in workers):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        server.kill()
        server.communicate()


def _ignore(work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except Exception:  # the server is killed on purpose
        return


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(entry.parent.name))
    return found


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_text_that_was_slow_within_the_server_goes_to_a_worker_the_next_time(
    loaded: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    lanes_taken: list[str] = []
    end = loaded.services.endpoint.processes.end

    def noted(process: Process) -> None:
        lanes_taken.append(process.lane)
        end(process)

    monkeypatch.setattr(loaded.services.endpoint.processes, "end", noted)
    monkeypatch.setattr(loaded.services.endpoint.slow_texts, "after_seconds", 0.0)
    first = loaded.query(text).json()
    assert loaded.query(text).json() == first
    assert lanes_taken == ["inline", "worker"]


@pytest.mark.slow_cases("update")
@pytest.mark.parametrize(
    ("path", "text", "data"),
    [
        # Inline: it starts at a constant and only goes forward, and multiplies all the same.
        (
            "query",
            "SELECT (COUNT(*) AS ?n) { ?a a <urn:C> . ?b a <urn:C> ; <urn:q> ?a , ?c , ?d , ?e , ?f }",
            "disk",
        ),
        ("query", CROSS, "memory"),
        ("update", "INSERT { <urn:x> <urn:y> ?n } WHERE { " + CROSS + " }", "disk"),
    ],
    ids=["inline", "worker", "update"],
)
def test_a_stopping_server_ends_within_seconds_whatever_it_evaluates(
    path: str, text: str, data: str, tmp_path: Path
) -> None:
    arguments = ["--data", ":memory:" if data == "memory" else str(tmp_path / "data"), "--port", "0"]
    process = Program(
        "serve", *arguments,
        env=os.environ | {"QUADRILL_SHUTDOWN_TIMEOUT": "0.5"}, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        hubs = "".join(f"<urn:s{n}> a <urn:C> .\n" for n in range(300))
        links = "".join(f"<urn:s{n}> <urn:q> <urn:s{m}> .\n" for n in range(100) for m in range(300))
        headers = {"Content-Type": "text/turtle"}
        with httpx.Client(base_url=url, timeout=60) as client:
            client.put("/store?default", content=hubs + links, headers=headers).raise_for_status()

            def ask() -> None:
                with contextlib.suppress(httpx.HTTPError):
                    httpx.post(f"{url}{path}", data={path: text}, timeout=60)

            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            deadline = time.monotonic() + 10
            while not client.get("/processes").json()["processes"]:
                assert time.monotonic() < deadline
            time.sleep(0.3)
        stopped = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert time.monotonic() - stopped < 8
        asking.join(10)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("INSERT DATA { <urn:a> <urn:p> 1 }", True),
        ("DELETE DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }", True),
        (
            "PREFIX : <urn:> DELETE { :a :p ?o } INSERT { :a :p 1 } WHERE { :a :p ?o BIND(?o + 1 AS ?n) }",
            True,
        ),
        ("delete where { <urn:a> <urn:p> ?o }", True),
        ("INSERT { <urn:a> <urn:p> ?y } WHERE { OPTIONAL { <urn:a> <urn:q> ?x } . ?x <urn:q> ?y }", True),
        ("INSERT DATA { <urn:a> <urn:p> 1 } ; INSERT DATA { <urn:a> <urn:p> 2 }", False),
        ("DELETE WHERE { ?s <urn:p> ?o }", False),
        ("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", False),
        ("INSERT { ?a <urn:p> ?b } WHERE { <urn:a> ?p ?a . <urn:b> ?p2 ?b }", False),
        ("INSERT { <urn:a> <urn:p> ?b } WHERE { <urn:a> <urn:p>+ ?b }", False),
        ("INSERT { <urn:a> <urn:p> ?b } WHERE { SERVICE <urn:x> { <urn:a> <urn:p> ?b } }", False),
        ("INSERT { ?s <urn:p> 1 } USING <urn:g> WHERE { <urn:a> <urn:p> ?s }", False),
        ("CLEAR ALL", False),
        ("LOAD <urn:x>", False),
        ("nonsense", False),
        ("INSERT DATA { " + "<urn:a> <urn:p> 1 . " * 60 + "}", False),
    ],
)
def test_short_updates_are_data_or_begin_at_known_terms(text: str, short: bool) -> None:
    if "data" not in text.lower():
        assert not is_short_update(text), "it comes for the first time"
    assert is_short_update(text) == short
