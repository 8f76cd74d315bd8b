"""Static parts that hold many rows back: a worker's memory is what they take, and the rows are the same."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.evaluation.static_parts import PartLimits, StaticParts
from quadrill.app.evaluation.workers import WorkerPool
from quadrill.continuous.algebra.buffered_rows import count_buffered_patterns
from quadrill.continuous.algebra.columnar import StaticEngines
from quadrill.continuous.algebra.static import StaticPattern, split_static
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.language import parse
from quadrill.continuous.rows import Solution
from quadrill.continuous.static.static_evaluator import EvaluationOptions, StaticEvaluator
from quadrill.continuous.static.table_reading import Progress
from quadrill.store.errors import ConflictError, ReportedError
from quadrill.store.quads.quad_store import QuadStore

from .conftest import LiveServer, Start
from .test_held_rows import MEMORY, THREE, UPDATE, data
from .test_server import eventually

SHAPES = {
    "order": f"{{ SELECT ?a {{ {THREE} }} ORDER BY ?c LIMIT 5 }}",
    "distinct": f"{{ SELECT DISTINCT ?a {{ {THREE} }} }}",
    "group": f"{{ SELECT ?a (SAMPLE(?b) AS ?n) {{ {THREE} }} GROUP BY ?a ?b ?c }}",
    "minus": f"{{ SELECT ?a {{ ?a <urn:p> ?y MINUS {{ {THREE} }} }} }}",
}


def query(part: str) -> str:
    return f"SELECT ?a ?y WHERE {{ STREAM <urn:s> [RANGE 1m] {{ ?a <urn:seen> ?y }} {part} }}"


def registered(server: LiveServer, name: str, part: str) -> dict[str, Any]:
    """The description of a query, once it runs or cannot."""
    answer = server.client.post("/queries", json={"name": name, "query": query(part)})
    if answer.status_code >= 400:
        return dict(answer.json())
    return settled(server, name)


def settled(server: LiveServer, name: str) -> dict[str, Any]:
    """The description of a query when its static parts are there, or cannot be had."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found: dict[str, Any] = server.client.get(f"/queries/{name}").json()
        if found["state"] != "materialising":
            return found
        time.sleep(0.1)
    raise AssertionError("it is still materialising")


@pytest.mark.parametrize(("shape", "place"), [("minus", "folder"), ("group", "memory")])
def test_a_query_with_a_part_that_holds_much_back_fails_alone(
    start_server: Start, tmp_path: Path, shape: str, place: str
) -> None:
    folder = {"data": str(tmp_path)} if place == "folder" else {}
    server = start_server(workers=0, worker_memory_bytes=MEMORY, **folder)
    server.client.post("/update", content=data(200), headers=UPDATE).raise_for_status()
    found = registered(server, "heavy", SHAPES[shape])
    said = found.get("error") or found["detail"]
    assert "<urn:p>" in said and f"(worker_memory_bytes, {MEMORY} bytes)" in said
    assert registered(server, "light", "?a <urn:p> ?x")["state"] == "running"


DATA = """
INSERT DATA {
  <urn:a> <urn:p> 1 , 2.50 , "x"@en , "l n" ; <urn:q> _:b . _:b <urn:p> "1"^^<urn:t> .
  <urn:b> <urn:p> 01 ; <urn:q> <<( <urn:a> <urn:p> 1 )>> .
  GRAPH <urn:g> { <urn:a> <urn:p> 7 . <urn:c> <urn:p> 8 }
  GRAPH <urn:h> { <urn:a> <urn:p> 9 }
}"""
PARTS = [
    "{ SELECT DISTINCT ?a ?x { ?a <urn:p> ?x } }",
    "{ SELECT ?a (COUNT(*) AS ?n) (AVG(?x) AS ?m) (MIN(?x) AS ?l) { ?a <urn:p> ?x } GROUP BY ?a }",
    "{ SELECT ?a (GROUP_CONCAT(?x; separator=' ') AS ?n) { ?a <urn:p> ?x } GROUP BY ?a }",
    "{ SELECT ?a ?x { ?a <urn:p> ?x } ORDER BY DESC(?x) LIMIT 3 }",
    "{ SELECT REDUCED ?a ?y { ?a <urn:q> ?y } }",
    "?a <urn:p> ?x MINUS { ?a <urn:q> ?y }",
    "?a <urn:p> ?x OPTIONAL { ?a <urn:q> ?y . ?y <urn:p> ?z }",
    "GRAPH ?g { { SELECT DISTINCT ?a { ?a <urn:p> ?x } } }",
    "{ SELECT DISTINCT ?a (CONCAT(STR(?x), STR(1/8.0)) AS ?y) { ?a <urn:p> ?x } }",
]


@pytest.fixture(scope="module", params=["folder", "memory"])
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """A store, and who takes all parts of queries over it that hold anything back."""
    folder = tmp_path_factory.mktemp("parts") / "data" if request.param == "folder" else None
    with QuadStore.open(folder) as store:
        store.writer.update(DATA)
        pool = WorkerPool(store, folder, size=1, memory_bytes=0, max_nesting=100)
        yield Parts(store, pool)
        pool.close()


@dataclass
class Parts:
    store: QuadStore
    pool: WorkerPool

    def evaluator(self, text: str, limits: PartLimits | None) -> tuple[StaticEvaluator, StaticPattern]:
        """Of a text that is one static part; without limits the store alone evaluates it."""
        asked = parse(f"SELECT * {text}", dialect="sparql", base_iri="http://base/")
        bounded = None if limits is None else StaticParts(self.store, self.pool, limits)
        options = EvaluationOptions(name="q", engines=StaticEngines(bounded=bounded))
        (part,) = split_static(asked.root, in_scope(asked.root))[1]
        return StaticEvaluator(asked, self.store, options), part

    def rows(self, text: str, limits: PartLimits | None) -> list[Solution]:
        evaluator, part = self.evaluator(text, limits)
        assert limits is None or evaluator.is_heavy(part)
        return list(evaluator.whole(self.store.reader, part))


@pytest.mark.parametrize("text", PARTS)
@pytest.mark.parametrize("dataset", ["", "FROM <urn:g> FROM NAMED <urn:h>"])
def test_a_worker_gives_the_rows_that_the_store_gives(parts: Parts, text: str, dataset: str) -> None:
    whole = f"{dataset} {{ {text} }}"
    assert Counter(parts.rows(whole, PartLimits(rows=0, scanned=0))) == Counter(parts.rows(whole, None))


def test_the_rows_are_those_of_the_version_at_which_it_began(parts: Parts) -> None:
    evaluator, part = parts.evaluator(
        "{ { SELECT DISTINCT ?a { ?a <urn:new> ?x } } }", PartLimits(rows=0, scanned=0)
    )
    began = evaluator.whole(parts.store.reader, part)
    parts.store.writer.update("INSERT DATA { <urn:z> <urn:new> 1 }")
    assert list(began) == []
    assert len(list(evaluator.whole(parts.store.reader, part))) == 1
    evaluator.whole(parts.store.reader, part).close()
    parts.store.writer.update("DELETE DATA { <urn:z> <urn:new> 1 }")


ALL = " . ".join(f"?s{each} ?p{each} ?o{each}" for each in range(9))
LONG = f"{{ {{ SELECT (COUNT(*) AS ?n) {{ {ALL} }} }} }}"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (PartLimits(rows=0, scanned=0, seconds=0.5), "took longer than 0.5 s (max_static_time)"),
        (PartLimits(rows=0, scanned=0, max_bytes=50), "has rows of more than 50 bytes (max_result_bytes)"),
        (PartLimits(rows=0, scanned=0, text=5), "the limit is 5 (max_text_length)"),
    ],
)
def test_a_part_over_a_limit_is_told_with_the_setting(parts: Parts, limits: PartLimits, said: str) -> None:
    joined = "{ { SELECT (GROUP_CONCAT(STR(?x)) AS ?y) { ?a <urn:p> ?x } } }"
    with pytest.raises(ReportedError) as refused:
        parts.rows(LONG if limits.seconds < 1 else joined, limits)
    assert said in str(refused.value)


def test_a_part_of_a_registration_that_was_called_off_ends(parts: Parts) -> None:
    progress, found = Progress(), list[Exception]()

    def make() -> None:
        evaluator, part = parts.evaluator(LONG, PartLimits(rows=0, scanned=0))
        try:
            list(evaluator.whole(parts.store.reader, part, progress.check))
        except ConflictError as error:
            found.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    progress.called_off = True
    thread.join(10)
    assert len(found) == 1


def test_less_time_may_be_given(parts: Parts) -> None:
    bounded = StaticParts(parts.store, parts.pool, PartLimits(rows=0, scanned=0)).within(0.3)
    asked = parse(f"SELECT * {LONG}", dialect="sparql")
    evaluator = StaticEvaluator(asked, parts.store, EvaluationOptions(engines=StaticEngines(bounded=bounded)))
    (part,) = split_static(asked.root, in_scope(asked.root))[1]
    with pytest.raises(ReportedError, match=r"took longer than 0.3 s"):
        evaluator.evaluate([part])


def test_after_a_restart_such_a_query_fails_alone_again(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), port=0, worker_memory_bytes=MEMORY)
    with running.serve(settings) as first:
        server = LiveServer(first)
        server.client.post("/update", content=data(20), headers=UPDATE).raise_for_status()
        assert registered(server, "heavy", SHAPES["group"])["state"] == "running"
        server.client.post("/update", content=data(220), headers=UPDATE).raise_for_status()

        def problem() -> Any:
            return server.client.get("/queries/heavy").json()["static_parts"][0]["problem"]

        until = time.monotonic() + 60
        while problem() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert "worker_memory_bytes" in problem()
        server.client.close()
    with running.serve(settings) as second:
        server = LiveServer(second)
        assert server.client.get("/health/ready").status_code == 200
        found = settled(server, "heavy")
        assert found["state"] == "failed" and "worker_memory_bytes" in found["error"]
        server.client.close()


def test_what_follows_commits_is_read_anew_by_a_worker_where_many_keys_change(start_server: Start) -> None:
    server = start_server(workers=1)
    server.client.post("/update", content=data(900), headers=UPDATE).raise_for_status()
    part = "{ SELECT ?a (COUNT(*) AS ?y) { ?a <urn:p> ?x . ?a <urn:p> ?z } GROUP BY ?a }"
    assert registered(server, "counted", part)["state"] == "running"
    more = "INSERT { ?a <urn:p> <urn:y> } WHERE { ?a <urn:p> <urn:x> }"
    server.client.post("/update", content=more, headers=UPDATE).raise_for_status()
    few = "INSERT DATA { <urn:a1> <urn:p> <urn:z> . <urn:b1> <urn:p> <urn:z> }"
    server.client.post("/update", content=few, headers=UPDATE).raise_for_status()
    told: dict[str, Any] = {}

    def follows() -> bool:
        told.update(server.client.get("/queries/counted").json()["static_parts"][0])
        return bool(told["rows"] == 901 and told["behind_since"] is None)

    assert eventually(follows), told
    assert "in a worker process" in told["engine_reason"]
    assert "may buffer many rows" in told["anew_because"]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("?s <urn:a> ?x . ?s <urn:b> ?y . ?y <urn:c>+ ?z", 0),
        ("?s <urn:a> ?x FILTER NOT EXISTS { ?s <urn:b> ?y . ?y <urn:b> ?z }", 0),
        ("GRAPH ?g { ?s <urn:a> ?x . ?s <urn:b> ?y } VALUES ?x { 1 2 }", 0),
        ("{ ?s <urn:a> ?x . ?s <urn:b> ?y } UNION { ?s <urn:c> ?x }", 0),
        ("?s <urn:a> ?x . ?s <urn:b> ?z OPTIONAL { ?s <urn:c> ?y }", 1),
        ("?s <urn:a> ?x . ?s <urn:b> ?z MINUS { ?s <urn:c> ?y . ?y <urn:c> ?z }", 2),
        ("?j <urn:is> ?s { SELECT ?j { ?j <urn:at> ?t } ORDER BY ?t LIMIT 1 }", 1),
        ("{ SELECT DISTINCT ?s { ?s <urn:a>/<urn:b>* ?x } }", 3),
        ("{ SELECT ?s { ?s <urn:a> ?x . ?t <urn:b> ?y } }", 2),
        (
            "{ SELECT (MAX(?x) AS ?m) { ?s <urn:a> ?x ; <urn:b> 1 OPTIONAL { ?s <urn:c> ?z } } GROUP BY ?s }",
            3,
        ),
    ],
)
def test_how_much_a_part_holds_back(text: str, held: int) -> None:
    root = parse(f"SELECT * {{ {text} }}", dialect="sparql").root
    assert count_buffered_patterns(root) == held
