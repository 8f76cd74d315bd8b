"""SERVICE in static parts: the rows of an endpoint, fetched by timer or by hand, joined with streams."""

from __future__ import annotations

import json

import pytest

from quadrill.app.describing.queries import describe, describe_all
from quadrill.continuous.engine import EngineSettings
from quadrill.continuous.remote.settings import RemoteSettings
from quadrill.store.errors import InputError, ReportedError, UnsupportedError
from quadrill.store.remote import FetchError

from ..engines import E
from .bench import Remote
from .endpoint import Answer, Asked, Endpoint

SEEN = "STREAM :s [RANGE 1h] { ?x :seen ?v }"


def call(far: Endpoint, pattern: str = "?x :label ?l", silent: str = "") -> str:
    return f"SERVICE {silent} <{far.url}sparql> {{ {pattern} }}"


def test_a_stream_is_joined_with_the_rows_of_an_endpoint(bench: Remote, far: Endpoint) -> None:
    bench.register("q", f"SELECT ?x ?l {{ {SEEN} {call(far)} }}")
    bench.push(1, "a", "c")
    assert bench.rows("q") == ["a 1"]
    assert len(far.asked) == 1, "the endpoint is asked once, not at each event"
    assert far.asked[0].headers["accept"].startswith("application/sparql-results+json")
    assert describe(bench.engine, "q")["engine"] == "native"


def test_a_timer_fetches_anew_and_the_answer_reacts_as_to_a_commit(bench: Remote, far: Endpoint) -> None:
    bench.register("q", f"SELECT ?x ?l {{ {SEEN} {call(far)} }}", output="changes")
    bench.push(1, "a")
    far.update("DELETE DATA { :a :label 1 } ; INSERT DATA { :a :label 3 }")
    bench.wait(50_000)
    assert bench.rows("q") == ["a 1"], "not due yet"
    bench.wait(20_000)
    assert bench.rows("q") == ["a 3"]
    deleted, inserted = bench.heads("q")[-2:]
    assert deleted["at"] == inserted["at"] == 1
    assert [mark["refresh_version"] for mark in inserted["sources"]] == [2]
    assert inserted["sources"][0]["source"] == f"{far.url}sparql"
    assert bench.source("q")["refreshed"] == bench.clock.now_ms()


def test_what_is_fetched_again_and_is_the_same_moves_nothing(bench: Remote, far: Endpoint) -> None:
    bench.register("q", f"SELECT ?x ?l {{ {SEEN} {call(far)} }}")
    bench.push(1, "a")
    before = describe(bench.engine, "q")
    bench.wait(70_000)
    after = describe(bench.engine, "q")
    assert len(far.asked) == 2
    assert after["counters"]["refreshes"] == before["counters"]["refreshes"]
    assert after["sources"][0]["refresh_version"] == 1
    assert after["sources"][0]["age_ms"] == 0


def test_the_text_and_the_registration_say_how_often_and_the_registration_goes_before(
    bench: Remote, far: Endpoint
) -> None:
    bench.register("text", f"SELECT ?x REFRESH EVERY 10s WHERE {{ {call(far)} }}")
    assert bench.source("text")["every_ms"] == 10_000
    assert describe(bench.engine, "text")["refresh"] == {"every": "10s"}
    other = call(far, "?y :label ?l")
    bench.register("option", f"SELECT ?y REFRESH EVERY 10s WHERE {{ {other} }}", refresh={"every": "20s"})
    assert bench.source("option")["every_ms"] == 20_000
    bench.register("default", f"SELECT ?z {{ {call(far, '?z :label ?l')} }}")
    assert bench.source("default")["every_ms"] == 60_000


def test_queries_with_the_same_call_share_its_source_and_the_shortest_period_counts(
    bench: Remote, far: Endpoint
) -> None:
    bench.register("one", f"SELECT ?x {{ {call(far)} }}", refresh={"every": "30s"})
    bench.register("two", f"SELECT ?l {{ {SEEN} {call(far)} }}", refresh={"every": "10s"})
    assert len(far.asked) == 1
    assert bench.source("one")["every_ms"] == 10_000
    bench.engine.queries.drop("two")
    assert bench.source("one")["every_ms"] == 30_000
    bench.engine.queries.drop("one")
    bench.wait(100_000)
    assert len(far.asked) == 1, "nobody reads it any more"


def test_by_hand_only_is_by_hand_only(bench: Remote, far: Endpoint) -> None:
    bench.register("q", f"SELECT ?x ?l {{ {call(far)} }}", refresh="manual")
    far.update("INSERT DATA { :c :label 3 }")
    bench.wait(10_000_000)
    assert len(far.asked) == 1 and bench.rows("q") == ["a 1", "b 2"]
    assert bench.source("q")["next_refresh"] is None
    bench.engine.queries.refresh("q")
    assert bench.rows("q") == ["a 1", "b 2", "c 3"]


def test_a_query_by_hand_keeps_its_rows_when_another_has_the_same_call_fetched(
    bench: Remote, far: Endpoint
) -> None:
    bench.register("hand", f"SELECT ?x ?l {{ {call(far)} }}", refresh="manual")
    bench.register("timer", f"SELECT ?x ?l {{ {call(far)} }}")
    far.update("INSERT DATA { :c :label 3 }")
    bench.wait(100_000)
    assert bench.rows("timer") == ["a 1", "b 2", "c 3"]
    assert bench.rows("hand") == ["a 1", "b 2"]
    assert bench.source("hand")["refresh_version"] == 1
    bench.engine.queries.refresh("hand")
    assert bench.rows("hand") == ["a 1", "b 2", "c 3"]


def test_a_query_without_windows_follows_store_and_endpoint_each_in_its_way(
    bench: Remote, far: Endpoint
) -> None:
    bench.store.writer.update(f"PREFIX : <{E}> INSERT DATA {{ :a :in :hall . :b :in :shed }}")
    bench.register("q", f"SELECT ?x ?l ?r {{ ?x :in ?r {call(far)} }}")
    assert bench.rows("q") == ["a 1 hall", "b 2 shed"]
    bench.store.writer.update(f"PREFIX : <{E}> DELETE DATA {{ :a :in :hall }}")
    bench.engine.sync()
    assert bench.rows("q") == ["b 2 shed"]
    far.update("INSERT DATA { :b :label 22 }")
    bench.wait(70_000)
    assert bench.rows("q") == ["b 2 shed", "b 22 shed"]
    assert [event["at"] for event in bench.heads("q")][-1] == bench.clock.now_ms()


@pytest.mark.parametrize(
    ("columns", "pattern", "expected"),
    [
        ("?x ?l", "OPTIONAL { CALL }", ["a 1", "c -"]),
        ("?x", "MINUS { CALL }", ["c"]),
        ("?x", "FILTER EXISTS { CALL }", ["a"]),
        ("?x", "FILTER NOT EXISTS { CALL }", ["c"]),
        ("?x ?l", "{ CALL } UNION { BIND(0 AS ?l) }", ["a 0", "a 1", "c 0"]),
        ("?x ?n", "{ SELECT ?x (SUM(?l) AS ?n) { CALL } GROUP BY ?x }", ["a 1"]),
        ("?x ?l", "CALL FILTER(?l > 1)", []),
    ],
)
def test_a_call_may_stand_wherever_sparql_has_it(
    bench: Remote, far: Endpoint, columns: str, pattern: str, expected: list[str]
) -> None:
    bench.register("q", f"SELECT {columns} {{ {SEEN} {pattern.replace('CALL', call(far))} }}")
    bench.push(1, "a", "c")
    assert bench.rows("q") == expected
    assert len(far.asked) == 1


def test_multiplicities_blank_nodes_languages_and_triple_terms_come_over(
    bench: Remote, far: Endpoint
) -> None:
    far.update("INSERT DATA { :d :many 1, 2 ; :node [ :of 'x'@en ] ; :says <<( :a :b 007 )>> }")
    bench.register("many", f"SELECT ?x {{ {call(far, '?x :many ?i')} }}")
    assert bench.rows("many") == ["d", "d"]
    bench.register("node", f"SELECT ?t (isBlank(?n) AS ?b) {{ {call(far, ':d :node ?n . ?n :of ?t')} }}")
    answer = bench.engine.queries.current_answer("node")["results"]["bindings"]
    assert answer[0]["t"]["xml:lang"] == "en" and answer[0]["b"]["value"] == "true"
    bench.register("says", f"SELECT ?t {{ {call(far, ':d :says ?t')} }}")
    assert bench.engine.queries.current_answer("says")["results"]["bindings"][0]["t"]["type"] == "triple"


def test_literals_of_an_endpoint_join_in_the_form_that_the_store_has(bench: Remote, far: Endpoint) -> None:
    def old_forms(asked: Asked) -> Answer:
        integer = "http://www.w3.org/2001/XMLSchema#integer"
        row = {"l": {"type": "literal", "value": "007", "datatype": integer}}
        document = {"head": {"vars": ["l"]}, "results": {"bindings": [row]}}
        return 200, {"Content-Type": "application/sparql-results+json"}, json.dumps(document).encode()

    far.handle = old_forms
    bench.store.writer.update(f"PREFIX : <{E}> INSERT DATA {{ :james :number 7 }}")
    bench.register("q", f"SELECT ?p {{ ?p :number ?l {call(far, '?any :label ?l')} }}")
    assert bench.rows("q") == ["james"]


def test_a_host_that_is_not_allowed_is_refused_at_registration(bench: Remote) -> None:
    with pytest.raises(InputError) as refused:
        bench.register("q", "SELECT ?x { SERVICE <http://other.example/sparql> { ?x :label ?l } }")
    assert refused.value.code == "remote-not-allowed" and "other.example" in refused.value.message


def test_a_redirect_to_a_host_that_is_not_allowed_is_not_followed(bench: Remote, far: Endpoint) -> None:
    far.handle = far.always(307, Location="http://other.invalid/sparql")
    with pytest.raises(ReportedError) as refused:
        bench.register("q", f"SELECT ?x {{ {call(far)} }}")
    assert refused.value.code == "host-not-allowed" and "other.invalid" in refused.value.message


def test_an_endpoint_that_is_a_variable_is_not_supported(bench: Remote) -> None:
    with pytest.raises(UnsupportedError, match="SERVICE with a variable"):
        bench.register("q", "SELECT ?x { ?x :at ?e SERVICE ?e { ?x :label ?l } }")


def test_a_call_that_depends_on_now_or_a_graph_is_refused_by_name(bench: Remote, far: Endpoint) -> None:
    with pytest.raises(UnsupportedError, match="inside SERVICE"):
        bench.register("q", f"SELECT ?x {{ {call(far, '?x :label ?l FILTER(?l > NOW())')} }}")
    with pytest.raises(UnsupportedError, match="SERVICE inside GRAPH"):
        bench.register("q", f"SELECT ?x {{ GRAPH :g {{ {call(far)} }} }}")


def test_a_registration_fails_when_the_endpoint_does_unless_it_is_silent(
    bench: Remote, far: Endpoint
) -> None:
    far.handle = far.always(500)
    with pytest.raises(FetchError, match="status 500"):
        bench.register("q", f"SELECT ?x {{ {call(far)} }}")
    assert describe_all(bench.engine) == []
    bench.register("q", f"SELECT ?x ?l {{ {SEEN} {call(far, silent='SILENT')} }}")
    bench.push(1, "a")
    assert bench.rows("q") == ["a -"], "a failed silent call is one solution without bindings"
    assert bench.source("q")["stale"] is True
    far.handle = far.sparql
    bench.wait(6_000)
    assert bench.rows("q") == ["a 1"]
    assert bench.source("q")["stale"] is False


def test_settings_have_their_defaults() -> None:
    assert EngineSettings().remote == RemoteSettings()
