"""Section 6: static parts, when they are refreshed and what they say of themselves."""

from __future__ import annotations

from .bench import Bench, ans, dele, eventually, ins, rows_of

JOIN = "SELECT ?s ?l WHERE { STREAM <%s> [RANGE 1h] { ?s :p ?o } ?s :label ?l }"


def test_a_description_tells_rows_version_age_last_refresh_and_cause(bench: Bench) -> None:
    s = bench.stream()
    version = bench.update("INSERT DATA { :a :label 1 . :b :label 2 }")
    q = bench.register(JOIN % s)
    (part,) = bench.describe(q)["static_parts"]
    assert part["rows"] == 2
    assert part["version"] == version
    assert {"last_refresh", "cause"} <= set(part)
    assert any("age" in name for name in part)


def test_a_trigger_refreshes_by_each_commit_that_can_match(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(JOIN % s, output="changes")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.update("INSERT DATA { :a :label 1 . :b :label 1 }")
    bench.update("DELETE DATA { :a :label 1 }")
    bench.update("DROP ALL")
    bench.settle()
    assert bench.feed(q) == [ins(1, "a 1", "b 1"), dele(1, "a 1"), dele(1, "b 1")]


def test_writes_by_the_graph_store_protocol_are_commits_too(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?l WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} GRAPH :labels {{ ?s :label ?l }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 .")
    turtle = {"Content-Type": "text/turtle"}
    body = "<http://e/a> <http://e/label> %d ."
    where = {"graph": "http://e/labels"}
    assert bench.client.put("/store", params=where, content=body % 1, headers=turtle).status_code == 201
    assert bench.client.put("/store", params=where, content=body % 2, headers=turtle).status_code in (
        200,
        204,
    )
    assert bench.client.post("/store", params=where, content=body % 3, headers=turtle).status_code in (
        200,
        204,
    )
    assert bench.client.delete("/store", params=where).status_code in (200, 204)
    bench.settle()
    assert bench.feed(q) == [
        ins(1, "a 1"),
        dele(1, "a 1"),
        ins(1, "a 2"),
        ins(1, "a 3"),
        dele(1, "a 2", "a 3"),
    ]


def test_manual_parts_change_at_post_refresh_only(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(JOIN % s, refresh="manual")
    bench.push(s, 1, ":a :p 1 .")
    bench.update("INSERT DATA { :a :label 1 }")
    bench.settle()
    assert bench.feed(q) == []
    answer = bench.client.post(f"/queries/{q}/refresh")
    assert answer.status_code in (200, 202, 204)
    bench.settle()
    eventually(lambda: bench.now(q) == ["a 1"])
    assert bench.feed(q, 1) == [ins(1, "a 1")]


def test_a_trigger_part_can_be_refreshed_by_hand(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :label 1 }")
    q = bench.register(JOIN % s)
    bench.push(s, 1, ":a :p 1 .")
    assert bench.client.post(f"/queries/{q}/refresh").status_code in (200, 202, 204)
    bench.settle()
    assert bench.feed(q) == [ins(1, "a 1")]


def test_a_timer_refreshes_by_itself(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(JOIN % s, refresh={"every": "1s"})
    bench.push(s, 1, ":a :p 1 .")
    bench.update("INSERT DATA { :a :label 1 }")
    eventually(lambda: bench.now(q) == ["a 1"])


def test_static_parts_are_split_by_shared_variables(bench: Bench) -> None:
    # never a cross product: two parts of 30 rows each, not one of 900
    s = bench.stream()
    bench.update(
        "INSERT DATA { " + " ".join(f":a{i} :label {i} . :b{i} :name {i} ." for i in range(30)) + " }"
    )
    q = bench.register(f"SELECT * WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?t }} ?s :label ?l . ?t :name ?n }}")
    parts = bench.describe(q)["static_parts"]
    assert sorted(part["rows"] for part in parts) == [30, 30]
    bench.push(s, 1, ":a3 :p :b4 .")
    assert len(bench.now(q)) == 1


def test_all_parts_of_one_query_advance_together(bench: Bench) -> None:
    # one commit that touches two parts gives one transaction, at one version
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?l ?n WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?t }} ?s :label ?l . ?t :name ?n }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p :b .")
    bench.update("INSERT DATA { :a :label 1 . :b :name 1 }")
    version = bench.update(
        "DELETE DATA { :a :label 1 . :b :name 1 } ; INSERT DATA { :a :label 2 . :b :name 2 }"
    )
    bench.settle()
    found = bench.events(q)
    assert [(event.kind, rows_of(event.data)) for event in found] == [
        ("insert", ["a 1 1"]),
        ("delete", ["a 1 1"]),
        ("insert", ["a 2 2"]),
    ]
    assert found[-1].data["version"] == version


def test_a_large_change_swaps_as_one_transaction(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} ?o :label ?l }}"
    )
    bench.push(s, 1, ":a :p :x .")
    bench.update("INSERT DATA { " + " ".join(f":x :label {i} ." for i in range(3000)) + " }")
    bench.settle()
    eventually(lambda: bench.now(q) == ["3000"])
    assert bench.feed(q) == [ins(1, "0"), ins(1, "3000")]


def test_static_parts_in_optional_minus_and_not_exists_follow_commits(bench: Bench) -> None:
    s = bench.stream()
    window = f"STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }}"
    optional = bench.register(
        f"SELECT ?s ?l WHERE {{ {window} OPTIONAL {{ ?s :label ?l }} }}", output="changes"
    )
    minus = bench.register(f"SELECT ?s WHERE {{ {window} MINUS {{ ?s :label ?l }} }}", output="changes")
    absent = bench.register(
        f"SELECT ?s WHERE {{ {window} FILTER NOT EXISTS {{ ?s :label ?l }} }}", output="changes"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.update("INSERT DATA { :a :label 1 }")
    bench.update("DELETE DATA { :a :label 1 }")
    bench.settle()
    assert bench.feed(optional) == [
        ins(1, "a -"),
        dele(1, "a -"),
        ins(1, "a 1"),
        dele(1, "a 1"),
        ins(1, "a -"),
    ]
    assert bench.feed(minus) == bench.feed(absent) == [ins(1, "a"), dele(1, "a"), ins(1, "a")]


def test_every_answer_carries_the_version_that_it_reflects(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?l FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} "
        f"?s :label ?l }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    one = bench.update("INSERT DATA { :a :label 1 }")
    bench.push(s, 11, ":a :p 1 .")
    two = bench.update("DELETE DATA { :a :label 1 }")
    bench.push(s, 21, ":a :p 1 .")
    assert bench.feed(q) == [ans(10, "a 1"), ans(20)]
    assert [event.data["version"] for event in bench.events(q)] == [one, two]


def test_a_pattern_that_uses_now_is_never_static(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :until 3000000 . :b :until 1 }")
    q = bench.register(
        f"SELECT ?x WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} "
        "{ ?x :until ?u FILTER(YEAR(NOW()) > 1990 && ?u > 5) } }"
    )
    bench.push(s, 1, ":e :p 1 .")
    assert bench.feed(q) == []
    bench.push(s, "2024-06-01T10:00:00Z", ":e :p 1 .")
    assert [rows for _, _, rows in bench.feed(q)] == [["a"]]


def test_every_version_is_a_transaction_of_its_own(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(JOIN % s, output="changes")
    bench.push(s, 1, ":a :p 1 .")
    for _ in range(20):
        bench.update("INSERT DATA { :a :label 1 }", settle=False)
        bench.update("DELETE DATA { :a :label 1 }", settle=False)
    bench.settle()
    assert bench.feed(q) == [ins(1, "a 1"), dele(1, "a 1")] * 20
