"""The resources under /queries: registering, describing, pausing, dropping, and the feed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from .bench import SPARQL_HEAD, Bench, Sse, ans, ins, problem, rows_of

NOW = "PREFIX : <http://e/> SELECT ?s WHERE { STREAM <%s> [NOW] { ?s :p ?o } }"
GRID = "SELECT ?s FROM NAMED WINDOW :w ON <%s> [RANGE 10] WHERE { WINDOW :w { ?s :p ?o } }"


def put(bench: Bench, name: str, body: str, kind: str = "text/plain", **params: Any) -> Any:
    return bench.client.put(f"/queries/{name}", content=body, params=params, headers={"Content-Type": kind})


# -- registering --------


@pytest.mark.parametrize("kind", ["text/plain", "application/sparql-query", "text/plain; charset=utf-8"])
def test_a_text_registers_with_201_location_and_description(bench: Bench, kind: str) -> None:
    answer = bench.client.post(
        "/queries?name=plain", content=NOW % "http://e/s", headers={"Content-Type": kind}
    )
    assert answer.status_code == 201
    assert answer.headers["Location"].endswith("/queries/plain")
    found = answer.json()
    assert found["name"] == "plain"
    assert found["profile"] == "cqels"
    assert found["state"] == "running"


def test_json_registers(bench: Bench) -> None:
    answer = bench.client.post("/queries", json={"name": "byjson", "query": NOW % "http://e/s"})
    assert answer.status_code == 201
    assert answer.json()["name"] == "byjson"


def test_every_member_of_a_registration(bench: Bench) -> None:
    body = {
        "name": "all",
        "query": 'PREFIX : <http://e/> SELECT ?s WHERE { STREAM <x> [RANGE 10 SLIDE 5] { ?s :p "$v$" } }',
        "dialect": "cqels",
        "output": "rstream",
        "report": {"periodic": "10s"},
        "t0": 1000,
        "refresh": "trigger",
        "parameters": {"v": "x"},
        "profile": "cqels",
        "bounds": "open-closed",
        "non_empty": True,
        "start": {"from": 0},
        "lateness": "1s",
        "memory": 100_000_000,
        "strict_dataset": True,
        "uncertain_filters": "late",
    }
    answer = bench.client.post("/queries", json=body)
    assert answer.status_code == 201, answer.text
    again = bench.client.post("/queries", json=body)
    assert again.status_code == 200


@pytest.mark.parametrize(
    "member",
    [
        {"dialect": "flink"},
        {"output": "xstream"},
        {"report": "sometimes"},
        {"report": {"periodic": "often"}},
        {"t0": "noon"},
        {"refresh": "never"},
        {"refresh": {"every": "-1s"}},
        {"profile": "sql"},
        {"bounds": "closed-closed"},
        {"non_empty": "maybe"},
        {"start": {"from": "noon"}},
        {"lateness": "late"},
        {"memory": "much"},
        {"strict_dataset": 7},
        {"parameters": []},
        {"unknown": 1},
        {"query": 7},
    ],
)
def test_a_wrong_member_is_refused(bench: Bench, member: dict[str, Any]) -> None:
    found = problem(bench.client.post("/queries", json={"name": "w", "query": NOW % "x", **member}), 400)
    assert next(iter(member)) in found["detail"]


def test_the_same_again_is_200_and_different_is_409(bench: Bench) -> None:
    assert put(bench, "q", NOW % "http://e/s").status_code == 201
    assert put(bench, "q", NOW % "http://e/s").status_code == 200
    problem(put(bench, "q", NOW % "http://e/other"), 409)
    other_options = {"query": NOW % "http://e/s", "output": "changes"}
    problem(bench.client.put("/queries/q", json=other_options), 409)


def test_put_replace_drops_and_registers_anew_and_its_feed_gets_a_reset(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "q", NOW % s)
    bench.push(s, 1, ":a :p 1 .")
    with Sse(bench.client, "/queries/q/results", **{"from": "0"}) as feed:
        assert feed.one().kind == "insert"
        assert put(bench, "q", NOW % s + " #changed", replace="true").status_code in (200, 201)
        assert feed.one().kind == "reset"
        bench.push(s, 5, ":b :p 1 .")
        event = feed.one()
        assert (event.kind, rows_of(event.data)) == ("insert", ["b"])


def test_ids_still_grow_after_a_replacement(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "q", NOW % s)
    bench.push(s, 1, ":a :p 1 .")
    last = int(bench.events("q")[-1].id or 0)
    put(bench, "q", NOW % s + " #changed", replace="true")
    bench.push(s, 5, ":b :p 1 .")
    with Sse(bench.client, "/queries/q/results", **{"from": "0"}) as feed:
        event = feed.one()
        while event.kind == "reset":
            event = feed.one()
    assert rows_of(event.data) == ["b"]
    assert int(event.id or 0) >= last


def test_two_differing_names_are_400(bench: Bench) -> None:
    problem(bench.client.post("/queries?name=a", json={"name": "b", "query": NOW % "x"}), 400)
    problem(bench.client.put("/queries/a", json={"name": "b", "query": NOW % "x"}), 400)


def test_names_are_checked(bench: Bench) -> None:
    for name in ("-x", "a b", "a" * 129, "x:y"):
        problem(bench.client.post("/queries", json={"name": name, "query": NOW % "x"}), 400)


def test_a_registration_without_a_name(bench: Bench) -> None:
    answer = bench.client.post("/queries", json={"query": NOW % "x"})
    assert answer.status_code in (201, 400)


def test_validate_registers_nothing(bench: Bench) -> None:
    answer = bench.client.post("/queries:validate", json={"name": "v", "query": NOW % "http://e/validated"})
    assert answer.status_code == 200
    found = answer.json()
    assert {"plan", "warnings"} <= set(found)
    problem(bench.client.get("/queries/v"), 404)
    problem(bench.client.get("/streams/validated"), 404)
    text = bench.client.post(
        "/queries:validate", content=NOW % "http://e/v", headers={"Content-Type": "text/plain"}
    )
    assert text.status_code == 200


def test_validate_refuses_as_registering_does(bench: Bench) -> None:
    found = problem(bench.client.post("/queries:validate", json={"name": "v", "query": "SELECT WHERE"}), 400)
    assert {"line", "column", "excerpt"} <= set(found)


def test_a_wrong_body_type_is_415(bench: Bench) -> None:
    answer = bench.client.post("/queries?name=x", content="x", headers={"Content-Type": "application/pdf"})
    problem(answer, 415)


# -- describing --------


def test_the_list(bench: Bench) -> None:
    put(bench, "q", NOW % "http://e/s")
    (found,) = bench.client.get("/queries").json()["queries"]
    assert found["name"] == "q"
    assert found["state"] == "running"
    assert found["dialect"] == "cqels"
    assert {"rates", "last_result"} <= set(found)


def test_a_description(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :label 1 }")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?s :p ?o }} ?s :label ?l }}")
    found = bench.describe(q)
    for member in (
        "name", "query", "profile", "streams", "windows", "static_parts", "sharing_group", "state_size",
        "counters", "waiting_for",
    ):  # fmt: skip
        assert member in found, member
    assert found["waiting_for"]
    bench.push(s, 1, ":a :p 1 .")
    after = bench.describe(q)
    assert not after["waiting_for"]
    assert after["last_result"]
    assert after["state_size"] >= 1


def test_waiting_for_names_the_stream_that_holds_back(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} STREAM <{z}> [NOW] {{ ?s :q ?x }} }}"
    )
    assert s in " ".join(map(str, bench.describe(q)["waiting_for"]))


def test_explain_is_text_or_json_with_live_figures(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    text = bench.client.get(f"/queries/{q}/explain")
    assert text.headers["Content-Type"].startswith("text/plain")
    assert s in text.text
    bench.push(s, 1, ":a :p 1 .")
    live = bench.client.get(f"/queries/{q}/explain", params={"analyze": "true"})
    assert live.headers["Content-Type"].startswith("application/json")
    assert live.json()["name"] == q


def test_explain_analyze_has_figures_per_operator(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o FILTER(?o > 1) }} }}")
    bench.push(s, 1, ":a :p 2 .")
    found = bench.client.get(f"/queries/{q}/explain", params={"analyze": "true"}).json()
    assert found["operators"]


def test_pause_and_resume(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    assert bench.client.patch(f"/queries/{q}", json={"state": "paused"}).status_code == 200
    assert bench.describe(q)["state"] == "paused"
    bench.push(s, 1, ":a :p 1 .")
    assert bench.feed(q) == []
    assert bench.client.patch(f"/queries/{q}", json={"state": "running"}).status_code == 200
    assert bench.describe(q)["state"] == "running"
    bench.push(s, 5, ":b :p 1 .")
    assert bench.feed(q)[-1] == ins(5, "b")
    problem(bench.client.patch(f"/queries/{q}", json={"state": "flying"}), 400)


def test_a_name_never_used_is_404_everywhere(bench: Bench) -> None:
    for path in ("", "/explain", "/results"):
        problem(bench.client.get("/queries/never-used" + path), 404)
    problem(bench.client.delete("/queries/never-used"), 404)
    problem(bench.client.post("/queries/never-used/refresh"), 404)
    problem(bench.client.patch("/queries/never-used", json={"state": "paused"}), 404)


# -- the feed --------


def test_after_delete_the_feed_ends_and_answers_204_until_the_name_is_taken_again(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "gone", NOW % s)
    bench.push(s, 1, ":a :p 1 .")
    with Sse(bench.client, "/queries/gone/results", **{"from": "0"}) as feed:
        feed.one()
        assert bench.client.delete("/queries/gone").status_code == 204
        feed.rest()  # ends by itself
    answer = bench.client.get("/queries/gone/results", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 204
    put(bench, "gone", NOW % s)
    bench.push(s, 5, ":b :p 1 .")
    assert bench.now("gone") == ["b"]


def test_headers_are_sent_at_once_and_the_feed_says_retry(bench: Bench) -> None:
    put(bench, "silent", NOW % "http://e/s")
    begin = time.monotonic()
    with bench.client.stream(
        "GET", "/queries/silent/results", headers={"Accept": "text/event-stream"}
    ) as answer:
        assert time.monotonic() - begin < 3
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        bench.push("http://e/s", 1, ":a :p 1 .")
        assert next(answer.iter_lines()) == "retry: 2000"


def test_without_an_id_the_feed_starts_with_the_next_event(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "q", NOW % s)
    bench.push(s, 1, ":a :p 1 .")
    with Sse(bench.client, "/queries/q/results") as feed:
        bench.push(s, 5, ":b :p 1 .")
        event = feed.one()
    assert (event.id, rows_of(event.data)) == ("2", ["b"])


def test_from_and_last_event_id_are_exclusive(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "q", NOW % s)
    for at, name in ((1, "a"), (3, "b"), (5, "c")):
        bench.push(s, at, f":{name} :p 1 .")
    with Sse(bench.client, "/queries/q/results", **{"from": "0"}) as feed:
        assert [event.id for event in feed.take(3)] == ["1", "2", "3"]
    with Sse(bench.client, "/queries/q/results", **{"from": "1"}) as feed:
        assert [event.id for event in feed.take(2)] == ["2", "3"]
    with Sse(bench.client, "/queries/q/results", headers={"Last-Event-ID": "2"}) as feed:
        event = feed.one()
        assert (event.id, rows_of(event.data)) == ("3", ["c"])


def test_a_client_that_likes_the_answer_better_than_events_gets_the_answer(bench: Bench) -> None:
    q = bench.register("SELECT ?s WHERE { ?s :p ?o }")
    accept = {"Accept": "text/event-stream;q=0.5, text/csv"}
    answer = bench.client.get(f"/queries/{q}/results", headers=accept)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")


def test_a_malformed_id_is_400_for_the_current_answer_too(bench: Bench) -> None:
    q = bench.register("SELECT ?s WHERE { ?s :p ?o }")
    problem(bench.client.get(f"/queries/{q}/results", params={"from": "abc"}), 400)


@pytest.mark.parametrize("value", ["x", "-1", "1.5"])
def test_a_malformed_id_is_400(bench: Bench, value: str) -> None:
    put(bench, "q", NOW % "http://e/s")
    answer = bench.client.get(
        "/queries/q/results", params={"from": value}, headers={"Accept": "text/event-stream"}
    )
    problem(answer, 400)


def test_snapshot_begins_with_the_current_answer(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    with Sse(bench.client, f"/queries/{q}/results", snapshot="true") as feed:
        first = feed.one()
        assert sorted(rows_of(first.data)) == ["a", "b"]
        bench.push(s, 3, ":c :p 1 .")
        second = feed.one()
        assert (second.kind, rows_of(second.data)) == ("insert", ["c"])


def test_two_readers_see_the_same_events(bench: Bench) -> None:
    s = bench.stream()
    put(bench, "q", NOW % s)
    with Sse(bench.client, "/queries/q/results") as one, Sse(bench.client, "/queries/q/results") as two:
        bench.push(s, 1, ":a :p 1 .")
        left, right = one.one(), two.one()
    assert (left.id, left.raw) == (right.id, right.raw)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/sparql-results+json", "application/sparql-results+json"),
        ("*/*", "json"),
        ("text/csv", "text/csv"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/tab-separated-values", "text/tab-separated-values"),
    ],
)
def test_other_accepts_give_the_current_answer(bench: Bench, accept: str, kind: str) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    answer = bench.client.get(f"/queries/{q}/results", headers={"Accept": accept})
    assert answer.status_code == 200
    assert kind in answer.headers["Content-Type"]
    assert "http://e/a" in answer.text


def test_a_graph_format_of_a_select_is_406(bench: Bench) -> None:
    put(bench, "q", NOW % "http://e/s")
    problem(bench.client.get("/queries/q/results", headers={"Accept": "application/pdf"}), 406)


def test_the_current_answer_of_a_construct_is_a_graph(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"CONSTRUCT {{ ?s :was ?o }} WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p :b .")
    answer = bench.client.get(f"/queries/{q}/results", headers={"Accept": "application/n-triples"})
    assert answer.text.strip() == "<http://e/a> <http://e/was> <http://e/b> ."


def test_window_is_there_for_grids_only(bench: Bench) -> None:
    s = bench.stream()
    grid = bench.register(GRID % s)
    now = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.events(grid)[0].data["window"] == {"open": 0, "close": 10}
    assert "window" not in bench.events(now)[0].data
    assert list(bench.events(grid)[0].data)[:2] == ["at", "version"]


def test_an_id_older_than_retention_gets_reset_then_the_current_answer(bench: Bench, live_small: Any) -> None:
    small = Bench(live_small)
    s = small.stream()
    q = small.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    for at in range(1, 31):
        small.push(s, at, f":a{at} :p 1 .")
    with Sse(small.client, f"/queries/{q}/results", **{"from": "1"}) as feed:
        reset, answer = feed.take(2)
    assert reset.kind == "reset"
    assert any(value == 26 for value in reset.data.values()), reset
    assert len(rows_of(answer.data)) == 30


def test_heartbeat_comments(bench: Bench, live_small: Any) -> None:
    small = Bench(live_small)
    assert put(small, "quiet", NOW % small.stream()).status_code == 201
    with Sse(small.client, "/queries/quiet/results") as feed:
        reader = threading.Thread(target=feed.rest, daemon=True)
        reader.start()
        end = time.monotonic() + 8
        while not feed.comments and time.monotonic() < end:
            time.sleep(0.02)
        assert feed.comments
        small.drop("quiet")
        reader.join(timeout=10)
        assert not reader.is_alive()


def test_bad_texts_by_name_501(bench: Bench) -> None:
    # right texts that are not supported name the construct
    answer = bench.try_register("DESCRIBE ?s WHERE { STREAM <x> [NOW] { ?s :p ?o } }")
    assert "DESCRIBE" in problem(answer, 501)["detail"]


def test_answers_of_one_grid_query_via_feed_and_current_agree(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(GRID % s)
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(10, "a")]
    document = bench.client.get(f"/queries/{q}/results").json()
    assert rows_of(document) == ["a"]
    assert SPARQL_HEAD  # the prologue that `register` puts before a text


def test_settings_may_be_patched_and_unknown_ones_are_refused(bench: Bench) -> None:
    put(bench, "q", NOW % "http://e/s")
    problem(bench.client.patch("/queries/q", json={"stat": "paused"}), 400)
    assert bench.client.patch("/queries/q", json={"refresh": "manual"}).status_code in (200, 400)


def test_an_ask_feed_and_answer(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"ASK {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    (event,) = bench.events(q)
    assert (event.kind, event.data["boolean"], event.data["at"]) == ("answer", True, 1)
    assert bench.client.get(f"/queries/{q}/results").json()["boolean"] is True


def test_cross_site_pages_may_not_read_without_cors(bench: Bench) -> None:
    answer = bench.client.get("/queries", headers={"Origin": "http://evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_unknown_parameters_are_told(bench: Bench) -> None:
    problem(bench.client.get("/queries?nam=x"), 400)
