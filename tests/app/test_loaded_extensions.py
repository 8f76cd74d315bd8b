"""A server that loads an extension: its functions and aggregates work everywhere, in worker processes too."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.test_cli import clean_environment
from tests.program import Program

PAGE = (Path(__file__).parent.parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
MORE = """
import os, threading
from quadrill.continuous.algebra import scalar_functions as s

def failing(value):
    raise RuntimeError("no result for this value")

def waiting(value):
    threading.Event().wait(60)

s.register(NamedNode("urn:example:failing"), failing)
s.register(NamedNode("urn:example:waiting"), waiting, costly=True)
number = lambda *given: Literal(os.getpid())
s.register(NamedNode("urn:example:process"), number, arity=0, deterministic=False, costly=True)
s.register(NamedNode("urn:example:here"), number, arity=[0, 1], deterministic=False)
s.register(NamedNode("urn:example:place"), number, arity=1)
s.register(NamedNode("urn:example:twice"), lambda text: Literal(text.value * 2))
"""
P = "PREFIX : <http://example.org/> PREFIX f: <urn:example:> "
DATA = P + "INSERT DATA { :a :limit 20 , 30 ; :label 'a' . :b :limit 25 ; :label 'b' }"
WINDOWED = {
    "native": P
    + "SELECT ?s (f:fahrenheit(?c) AS ?x) WHERE { STREAM :readings [RANGE 10s] { ?s :celsius ?c } }",
    "recomputed": P
    + "SELECT ?s (f:fahrenheit(?c) AS ?x) WHERE { STREAM :readings [RANGE 10s] { ?s :celsius ?c "
    "FILTER NOT EXISTS { { ?s :broken ?y } MINUS { ?s :celsius ?c } } } }",
    "ranges": P
    + "SELECT ?s (f:range(?c) AS ?x) WHERE { STREAM :readings [RANGE 10s] { ?s :celsius ?c } } GROUP BY ?s",
    "static": P + "SELECT ?s ?x WHERE { STREAM :readings [RANGE 10s] { ?s :celsius ?c } "
    "{ SELECT ?s (f:fahrenheit(f:range(?l)) AS ?x) { ?s :limit ?l } GROUP BY ?s } }",
    # These two differ in a constant alone: one group.
    "one": P + "SELECT ?s (f:fahrenheit(?c) AS ?x) WHERE { STREAM :readings [RANGE 5s] { ?s :celsius ?c } "
    "?s :label 'a' }",
    "two": P + "SELECT ?s (f:fahrenheit(?c) AS ?x) WHERE { STREAM :readings [RANGE 5s] { ?s :celsius ?c } "
    "?s :label 'b' }",
}


class Server:
    """A server process with the extensions of the page, and more."""

    def __init__(self, folder: Path) -> None:
        blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:-1]
        (folder / "additions.py").write_text("\n".join([*blocks, MORE]))
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = ["serve", "--data", str(self.folder / "data"), "--port", "0", "--extension", "additions"]
        self.process = Program(
            *arguments, stdout=subprocess.PIPE, text=True,
            env=clean_environment(PYTHONPATH=str(self.folder), QUADRILL_IDLE_TIMEOUT="0ms"),
        )  # fmt: skip
        assert self.process.stdout is not None
        self.client = httpx.Client(base_url=self.process.stdout.readline().split()[-1], timeout=20)

    def kill(self) -> None:
        if self.process is not None:
            self.client.close()
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()

    def rows(self, text: str, **parameters: Any) -> list[list[str]]:
        answer = self.client.post("/query", params=parameters, data={"query": P + text})
        assert answer.status_code == 200, answer.text
        return rows_of(answer.json())

    def update(self, text: str) -> None:
        answer = self.client.post("/update", data={"update": P + text})
        assert answer.status_code == 204, answer.text

    def push(self, at: int, text: str) -> None:
        self.client.post(
            "/streams", content=f"@prefix : <http://example.org/> . {text}",
            headers={"Content-Type": "text/turtle"},
            params={"iri": "http://example.org/readings", "wait": "true", "at": at},
        ).raise_for_status()  # fmt: skip

    def answer(self, name: str) -> list[list[str]]:
        answer = self.client.get(f"/queries/{name}/results", headers={"Accept": "application/json"})
        assert answer.status_code == 200, answer.text
        return rows_of(answer.json())


def rows_of(document: dict[str, Any]) -> list[list[str]]:
    names = document["head"]["vars"]
    rows = document["results"]["bindings"]
    values = [[row[name]["value"] if name in row else "-" for name in names] for row in rows]
    return sorted([[value.removeprefix("http://example.org/") for value in row] for row in values])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("extension"))
    try:
        found.start()
        found.update(DATA)
        yield found
    finally:
        found.kill()


@pytest.mark.process
def test_queries_call_functions_and_aggregates(server: Server) -> None:
    assert server.rows("SELECT (f:fahrenheit(?l) AS ?x) { :b :limit ?l }") == [["77"]]
    assert server.rows("SELECT (<urn:example:fahrenheit> # here\n (?l) AS ?x) { :b :limit ?l }") == [["77"]]
    grouped = "SELECT ?s (f:range({}?l) AS ?x) {{ ?s :limit ?l }} GROUP BY ?s"
    assert server.rows(grouped.format("")) == [["a", "10"], ["b", "0"]]
    assert server.rows(grouped.format("DISTINCT ")) == [["a", "10"], ["b", "0"]]
    assert server.rows("SELECT (f:fahrenheit(f:range(?l)) AS ?x) { ?s :limit ?l }") == [["50"]]


@pytest.mark.process
def test_a_function_that_raises_or_gets_other_arguments_is_an_error_of_the_expression(server: Server) -> None:
    assert server.rows("SELECT (f:failing(?l) AS ?x) { :b :limit ?l }") == [["-"]]
    assert server.rows("SELECT (f:fahrenheit(?l, 1) AS ?x) { :b :limit ?l }") == [["-"]]
    assert server.rows("SELECT (f:fahrenheit(:a) AS ?x) {}") == [["-"]]
    assert server.rows("SELECT ?l { :b :limit ?l FILTER (!f:failing(?l)) }") == []


@pytest.mark.process
def test_a_costly_function_is_called_in_a_worker_process_with_the_same_extensions(server: Server) -> None:
    assert server.process is not None
    [[here]] = server.rows("SELECT (f:here() AS ?x) {}")
    [[elsewhere, span]] = server.rows("SELECT (f:process() AS ?p) (f:range(?l) AS ?x) { :a :limit ?l }")
    assert int(here) == server.process.pid != int(elsewhere)
    assert span == "10"


@pytest.mark.process
def test_a_function_that_takes_long_is_ended_with_its_query(server: Server) -> None:
    asked = {"query": P + "SELECT (f:waiting(1) AS ?x) {}"}
    answer = server.client.post("/query", params={"timeout": "0.3"}, data=asked)
    assert answer.status_code == 503, answer.text
    written = {"update": P + "INSERT { :x :y ?y } WHERE { BIND (f:waiting(1) AS ?y) }"}
    answer = server.client.post("/update", params={"timeout": "0.3"}, data=written)
    assert answer.status_code == 503, answer.text


@pytest.mark.process
def test_long_results_count_for_the_limit(server: Server) -> None:
    doubled = "?t0".join(["BIND ('text' AS ", ") "])
    doubled += "".join(f"BIND (f:twice(?t{n}) AS ?t{n + 1}) " for n in range(20))
    answer = server.client.post("/query", data={"query": f"{P} SELECT (STRLEN(?t20) AS ?x) {{ {doubled} }}"})
    assert answer.status_code == 400 and "max_text_length" in answer.text, answer.text
    answer = server.client.post(
        "/update", data={"update": f"{P} INSERT {{ :x :y ?t20 }} WHERE {{ {doubled} }}"}
    )
    assert answer.status_code == 400 and "max_text_length" in answer.text, answer.text


@pytest.mark.process
def test_updates_call_functions_and_aggregates_here_and_in_a_worker_process(server: Server) -> None:
    for graph, extra in (("here", ""), ("worker", "BIND (f:process() AS ?p)")):
        server.update(
            f"INSERT {{ GRAPH :{graph} {{ ?s :span ?f }} }} WHERE {{ "
            f"{{ SELECT ?s (f:range(DISTINCT ?l) AS ?r) {{ ?s :limit ?l }} GROUP BY ?s }} "
            f"BIND (f:fahrenheit(?r) AS ?f) {extra} }} ; "
            f"INSERT {{ GRAPH :{graph} {{ ?s :twice ?t }} }} WHERE {{ "
            f"GRAPH :{graph} {{ ?s :span ?f }} BIND (f:twice(STR(?f)) AS ?t) {extra} }}"
        )
        found = server.rows(f"SELECT ?s ?f ?t {{ GRAPH :{graph} {{ ?s :span ?f ; :twice ?t }} }}")
        assert found == [["a", "50", "5050"], ["b", "32", "3232"]]


@pytest.mark.process
def test_windows_and_static_parts_call_them_and_go_on_after_a_kill(server: Server) -> None:
    for name, text in WINDOWED.items():
        server.client.put(f"/queries/{name}", json={"query": text}).raise_for_status()
    engines = {name: server.client.get(f"/queries/{name}").json()["engine"] for name in WINDOWED}
    assert engines["native"].startswith("native") and engines["recomputed"].startswith("reference"), engines
    explained = server.client.get("/queries/native/explain", headers={"Accept": "text/plain"}).text
    assert "urn:example:fahrenheit" in explained
    server.push(1000, ":a :celsius 20 . :b :celsius 30 .")
    server.push(2000, ":a :celsius 25 .")
    expected = {
        "native": [["a", "68"], ["a", "77"], ["b", "86"]],
        "recomputed": [["a", "68"], ["a", "77"], ["b", "86"]],
        "ranges": [["a", "5"], ["b", "0"]],
        "static": [["a", "50"], ["a", "50"], ["b", "32"]],
        "one": [["a", "68"], ["a", "77"]],
        "two": [["b", "86"]],
    }
    assert {name: server.answer(name) for name in WINDOWED} == expected
    server.kill()
    server.start()
    assert {name: server.answer(name) for name in WINDOWED} == expected
    server.push(11_500, ":a :celsius 0 .")
    assert server.answer("native") == server.answer("recomputed") == [["a", "32"], ["a", "77"]]
    assert server.answer("ranges") == [["a", "25"]]
    assert server.answer("one") == [["a", "32"]] and server.answer("two") == []


@pytest.mark.process
def test_a_static_part_that_a_worker_process_evaluates_calls_them(server: Server) -> None:
    assert server.process is not None
    # So many quads that the rows of two patterns could be too many to hold in the server.
    server.update(f"INSERT DATA {{ GRAPH :many {{ {' '.join(f':n{n} :of {n} .' for n in range(1100))} }} }}")
    part = "SELECT ?s (f:range(?l) AS ?r) (f:place(?s) AS ?x) { ?s :limit ?l ; :label ?n } GROUP BY ?s"
    text = f"{P} SELECT ?r ?x WHERE {{ STREAM :readings [RANGE 10s] {{ ?s :celsius ?c }} {{ {part} }} }}"
    server.client.put("/queries/heavy", json={"query": text}).raise_for_status()
    until = time.monotonic() + 30
    while server.client.get("/queries/heavy").json()["state"] == "materialising":
        assert time.monotonic() < until
        time.sleep(0.05)
    server.push(20_000, ":b :celsius 1 . :a :celsius 1 .")
    spans = server.answer("heavy")
    assert [span for span, _ in spans] == ["0", "10"]
    assert str(server.process.pid) not in {place for _, place in spans}


@pytest.mark.process
def test_a_function_that_is_not_deterministic_is_refused_in_a_continuous_query(server: Server) -> None:
    text = WINDOWED["native"].replace("f:fahrenheit(?c)", "f:here(?c)")
    answer = server.client.put("/queries/random", json={"query": text})
    assert answer.status_code == 501 and "not deterministic" in answer.text, answer.text


@pytest.mark.process
def test_another_number_of_arguments_is_refused_in_a_continuous_query(server: Server) -> None:
    text = WINDOWED["native"].replace("f:fahrenheit(?c)", "f:fahrenheit(?c, 1)")
    answer = server.client.put("/queries/wrong", json={"query": text})
    assert answer.status_code == 400 and "takes 1 argument, 2 given" in answer.text, answer.text
