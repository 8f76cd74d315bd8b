"""What docs/extending.md shows works as it stands there."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyoxigraph import NamedNode

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.describing.queries import describe
from quadrill.app.http import negotiation
from quadrill.continuous.algebra import scalar_functions
from quadrill.continuous.algebra.static import split_static
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language import parse
from quadrill.continuous.language.write import write
from quadrill.continuous.spark.rule import refused
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import QueryTextError, UnsupportedError

from .continuous.engines import PREFIX, Bench, bench
from .continuous.test_recovery import Life

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
*ADDING, REMOVING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FUNCTION, NEWEST, RANGE, BETWEEN = re.findall(r"```sparql\n(.*?)```", PAGE, re.DOTALL)
RULE = "FILTER ?celsius BETWEEN 20 AND 22"
# A pattern that no plan keeps up to date: the answer is recomputed.
RECOMPUTED = "FILTER NOT EXISTS { { ?sensor :broken ?x } MINUS { ?sensor :celsius ?celsius } } } }"


@pytest.fixture
def additions() -> Iterator[dict[str, Any]]:
    """The function, window, aggregate, rule and output format of the page, by their names there."""
    names: dict[str, Any] = {}
    for block in ADDING:
        exec(compile(block, "docs/extending.md", "exec"), names)
    try:
        yield names
    finally:
        exec(compile(REMOVING, "docs/extending.md", "exec"), names)


def measured(one: Bench | Life, at: int, celsius: str, sensor: str = "a") -> None:
    line = f"<http://example.org/{sensor}> <http://example.org/celsius> {celsius} ."
    one.engine.streams.push(PushCall("http://example.org/readings", "text/turtle", at=at), line.encode())


def values(one: Bench | Life, name: str) -> list[str]:
    """The last column of the answer; a dash is an unbound value."""
    document = one.engine.queries.current_answer(name)
    column = document["head"]["vars"][-1]
    return sorted(row[column]["value"] if column in row else "-" for row in document["results"]["bindings"])


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_window_from_outside_holds_what_its_operator_says(additions: dict[str, Any], engine: str) -> None:
    text = NEWEST if engine == "native" else NEWEST.replace("} }", RECOMPUTED)
    with bench() as one:
        document = one.register("newest", text.removeprefix(PREFIX))
        assert document["engine"].startswith(engine)
        assert document["windows"][0]["window"] == "[NEWEST 2]"
        seen = []
        for at, celsius in enumerate(("20.5", "21", "22", "21")):
            measured(one, at * 1000, celsius)
            seen.append(values(one, "newest"))
        assert seen == [["20.5"], ["20.5", "21"], ["21", "22"], ["21", "22"]]


@pytest.mark.parametrize("kept", [False, True])
def test_a_window_from_outside_is_empty_after_a_restart_unless_it_has_a_snapshot(
    additions: dict[str, Any], kept: bool, tmp_path: Path
) -> None:
    if kept:
        window = additions["NewestWindow"]

        def restore(self: Any, snapshot: Any) -> None:
            content, self.elements = snapshot[0], list(snapshot[1])
            self.live.restore(content)

        window.snapshot = lambda self: (self.live.snapshot(), self.elements)
        window.restore = restore
    life = Life(tmp_path / "data", ManualClock(0))
    life.register("newest", NEWEST.removeprefix(PREFIX))
    for at, celsius in enumerate(("20", "21", "22")):
        measured(life, at * 1000, celsius)
    life.stop()
    life = Life(tmp_path / "data", ManualClock(0))
    assert describe(life.engine, "newest")["state_size"] == (2 if kept else 0)
    measured(life, 4000, "23")
    assert values(life, "newest") == (["22", "23"] if kept else ["23"])
    life.stop()


def test_a_window_from_outside_is_held_once_by_queries_that_share_it(additions: dict[str, Any]) -> None:
    with bench(templates=False) as one:
        for name in ("first", "second"):
            one.register(name, NEWEST.removeprefix(PREFIX))
        for at, celsius in enumerate(("20", "21", "22")):
            measured(one, at * 1000, celsius)
        assert describe(one.engine, "first")["sharing_group"] == ["first", "second"]
        one.engine.queries.patch("first", {"state": "paused"})
        for at, celsius in enumerate(("23", "24"), start=3):
            measured(one, at * 1000, celsius)
        assert values(one, "second") == ["23", "24"]
        one.engine.queries.patch("first", {"state": "running"})
        assert values(one, "first") == ["23", "24"]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_aggregate_from_outside_is_kept_up_to_date(additions: dict[str, Any], engine: str) -> None:
    text = RANGE if engine == "native" else RANGE.replace("} }", RECOMPUTED)
    with bench() as one:
        assert one.register("range", text.removeprefix(PREFIX))["engine"].startswith(engine)
        seen = []
        for at, celsius in enumerate(("20.5", "21", "30", '"warm"', "1", "2e0")):
            measured(one, at * 1000, celsius)
            seen.extend(values(one, "range"))
        assert seen == ["0", "0.5", "9", "-", "-", "1"]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_function_from_outside_is_called_for_each_row(additions: dict[str, Any], engine: str) -> None:
    text = FUNCTION if engine == "native" else FUNCTION.replace("} }", RECOMPUTED)
    with bench() as one:
        document = one.register("function", text.removeprefix(PREFIX))
        assert document["engine"].startswith(engine)
        seen = []
        for at, celsius in enumerate(("20", "21.5", '"warm"', "-40e0")):
            measured(one, at * 1000, celsius)
            seen.append(values(one, "function"))
        assert seen == [["68"], ["70.7"], ["-"], ["-40"]]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_function_that_takes_long_is_within_the_time_of_an_evaluation(
    additions: dict[str, Any], engine: str
) -> None:
    slow = NamedNode("urn:example:slow")
    scalar_functions.register(slow, lambda value: time.sleep(0.03) or value)
    text = FUNCTION.replace("urn:example:fahrenheit", slow.value).replace("[NOW]", "[RANGE 1m]")
    text = text if engine == "native" else text.replace("} }", RECOMPUTED)
    try:
        with bench() as one:
            one.register("slow", text.removeprefix(PREFIX), max_time="100ms")
            lines = "".join(
                f"<http://example.org/{each}> <http://example.org/celsius> {each} .\n" for each in range(20)
            )
            one.engine.streams.push(
                PushCall("http://example.org/readings", "text/turtle", at=1000), lines.encode()
            )
            error = describe(one.engine, "slow")["error"]
            assert error is not None and "max_time" in error
    finally:
        scalar_functions.unregister(slow)


def test_spark_refuses_functions_and_aggregates_from_outside(additions: dict[str, Any]) -> None:
    for call in ("<urn:example:range>(?l)", "<urn:example:fahrenheit>(MAX(?l))"):
        part = f"{{ SELECT ?s ({call} AS ?x) {{ ?s <urn:limit> ?l }} GROUP BY ?s }}"
        text = f"SELECT ?s ?x WHERE {{ STREAM <urn:s> [NOW] {{ ?s <urn:v> ?y }} {part} }}"
        query = parse(text)
        _, (static,) = split_static(query.root, frozenset({"s", "x"}))
        refusal = refused(static.pattern)
        assert refusal is not None and "urn:example:" in refusal


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_rule_from_outside_means_what_it_is_built_of(additions: dict[str, Any], engine: str) -> None:
    text = BETWEEN if engine == "native" else BETWEEN.replace("} }", RECOMPUTED)
    plain = BETWEEN.replace(RULE, "FILTER (?celsius >= 20 && ?celsius <= 22)")
    assert parse(BETWEEN).root == parse(plain).root
    with bench() as one:
        assert one.register("between", text.removeprefix(PREFIX))["engine"].startswith(engine)
        seen = []
        for at, celsius in enumerate(("19", "20", "21.5", "23")):
            measured(one, at * 1000, celsius)
            seen.append(values(one, "between"))
        assert seen == [[], ["20"], ["20", "21.5"], ["21.5"]]


def test_a_rule_from_outside_is_one_of_its_dialects_alone(additions: dict[str, Any]) -> None:
    with pytest.raises(QueryTextError) as fault:
        parse(BETWEEN.replace("AND 22", "22"))
    assert "expected" in str(fault.value) and "AND" in str(fault.value)
    with pytest.raises(QueryTextError):
        parse("SELECT ?x { ?x ?y ?z FILTER ?z BETWEEN 20 AND 22 }", dialect="sparql")


def test_texts_with_additions_are_written_and_read_again(additions: dict[str, Any]) -> None:
    for text in (FUNCTION, NEWEST, RANGE, RANGE.replace("(?celsius)", "(DISTINCT ?celsius)"), BETWEEN):
        query = parse(text)
        assert parse(write(query)).root == query.root
        assert parse(write(query)).windows == query.windows


def test_numbers_of_a_window_from_outside_are_checked(additions: dict[str, Any]) -> None:
    with pytest.raises(QueryTextError, match="from 1 to"):
        parse(NEWEST.replace("NEWEST 2", "NEWEST 0"))
    with pytest.raises(QueryTextError, match="takes other numbers"):
        parse(NEWEST.replace("NEWEST 2", "newest 2 3"))


def test_a_format_from_outside_is_written_wherever_solutions_are(additions: None, tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), port=0)
    with running.serve(settings) as server, httpx.Client(base_url=server.url, timeout=20) as client:
        query = 'SELECT ?x ?y { VALUES (?x ?y) { (1 "a") (2 UNDEF) } }'
        told = client.get("/query", params={"query": query}, headers={"Accept": "text/markdown"})
        assert told.headers["Content-Type"] == "text/markdown"
        assert told.text == '| ?x | ?y |\n| --- | --- |\n| 1 | "a" |\n| 2 |  |\n'
        text = NEWEST.replace("NEWEST 2", "ALL")
        client.put("/queries/q", json={"query": text}).raise_for_status()
        line = b"<http://example.org/a> <http://example.org/celsius> 20 ."
        client.post(
            "/streams", content=line, headers={"Content-Type": "text/turtle"},
            params={"iri": "http://example.org/readings", "wait": "true"},
        ).raise_for_status()  # fmt: skip
        for asked in ("/queries/q/results", "/queries/q/results?format=md"):
            answer = client.get(asked, headers={"Accept": "text/markdown" if asked.endswith("s") else "*/*"})
            assert answer.text.endswith("| <http://example.org/a> | 20 |\n")
        described = client.get("/openapi.json").json()["paths"]["/query"]["get"]["responses"]["200"]
        assert "text/markdown" in described["content"]


def test_a_sink_from_outside_gets_the_events(
    additions: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(data=str(tmp_path), port=0)
    with running.serve(settings) as server, httpx.Client(base_url=server.url, timeout=20) as client:
        kinds = [each["kind"] for each in client.get("/sinks:kinds").json()["kinds"]]
        assert kinds == ["file", "kafka", "log", "mqtt", "webhook"]
        client.put("/queries/q", json={"query": NEWEST.replace("NEWEST 2", "ALL")}).raise_for_status()
        client.put("/sinks/told", json={"kind": "log", "query": "q"}).raise_for_status()
        line = b"<http://example.org/a> <http://example.org/celsius> 20 ."
        client.post(
            "/streams", content=line, headers={"Content-Type": "text/turtle"},
            params={"iri": "http://example.org/readings", "wait": "true"},
        ).raise_for_status()  # fmt: skip
        until = time.monotonic() + 20
        while "http://example.org/a" not in caplog.text and time.monotonic() < until:
            time.sleep(0.02)
    assert "http://example.org/a" in caplog.text


def test_what_was_taken_away_is_unknown() -> None:
    with pytest.raises(QueryTextError, match="expected ALL, ELEMENTS, NOW"):
        parse(NEWEST)
    with pytest.raises(QueryTextError, match="neither grouped nor aggregated"):
        parse(RANGE.replace("NEWEST 2", "TRIPLES 2"))
    with pytest.raises(QueryTextError):
        parse(BETWEEN.replace("NEWEST 2", "TRIPLES 2"))
    with bench() as one, pytest.raises(UnsupportedError, match="urn:example:fahrenheit"):
        one.register("function", FUNCTION.removeprefix(PREFIX))
    assert "text/markdown" not in {offer.media_type for offer in negotiation.result_offers()}
