"""INTO GRAPH: a named graph of the store equals the answer of a CONSTRUCT query."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.app.describing.queries import describe, describe_all
from quadrill.continuous.clock import Clock, ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.store.errors import ConflictError, InputError, StoreUnwritableError, UnsupportedError
from quadrill.store.formats import rdf_format
from quadrill.store.quads.quad_store import QuadStore

from ..engines import Bench, E
from ..engines import bench as make_bench
from ..test_recovery import Life

VIEW = "CONSTRUCT { ?x :now ?v } INTO GRAPH :view WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"
ROOMS = "CONSTRUCT { ?x :near ?y } INTO GRAPH :rooms WHERE { ?x :in ?r . ?y :in ?r }"
G = NamedNode(E + "view")


@pytest.fixture
def bench() -> Iterator[Bench]:
    one = Bench()
    one.engine.start()
    yield one
    one.engine.stop()
    one.store.close()


def held(store: QuadStore, graph: str = "view") -> list[str]:
    """The triples of a graph, as last segments."""
    quads = store.reader.quads_for_pattern(graph=NamedNode(E + graph))
    return sorted(" ".join(_last(term) for term in (q.subject, q.predicate, q.object)) for q in quads)


def _last(term: Any) -> str:
    return str(term.value).rpartition("/")[2]


def update(bench: Any, text: str) -> None:
    bench.store.writer.update(f"PREFIX : <{E}> {text}")
    bench.engine.sync()


def test_the_graph_follows_the_windows_of_the_query(bench: Bench) -> None:
    described = bench.register("v", VIEW)
    assert described["into_graph"] == E + "view"
    bench.push(1_000, "a", "b")
    assert held(bench.store) == ["a now x", "b now x"]
    bench.push(12_000, "c")
    assert held(bench.store) == ["c now x"]
    view = describe(bench.engine, "v")["view"]
    assert view == {
        "graph": E + "view",
        "quads": 1,
        "version": bench.store.reader.version,
        "waiting": 0,
        "error": None,
    }


def test_each_change_is_one_commit_with_its_cause_and_nothing_but_the_change(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    before = bench.store.reader.version
    bench.push(2_000, "b")
    (commit,) = bench.store.commits_after(before)
    assert commit.cause == "view v"
    assert [_last(quad.subject) for quad in commit.added] == ["b"] and commit.removed == ()
    before = bench.store.reader.version
    bench.push(3_000, "b")
    assert bench.store.reader.version == before, "what is there already makes no version"


def test_a_triple_stays_while_one_row_yields_it(bench: Bench) -> None:
    update(bench, "INSERT DATA { :a :in 1, 2 . :b :in 1, 2 }")
    bench.register("v", ROOMS)
    assert held(bench.store, "rooms") == ["a near a", "a near b", "b near a", "b near b"]
    update(bench, "DELETE DATA { :a :in 1 }")
    assert held(bench.store, "rooms") == ["a near a", "a near b", "b near a", "b near b"]
    update(bench, "DELETE DATA { :a :in 2 }")
    assert held(bench.store, "rooms") == ["b near b"]


def test_other_queries_and_one_shot_queries_read_the_view(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.register("w", "CONSTRUCT { ?x :twice ?v } INTO GRAPH :second WHERE { GRAPH :view { ?x :now ?v } }")
    bench.register("q", "SELECT ?x FROM :view FROM :second { ?x :now ?v ; :twice ?v }", output="changes")
    bench.push(1_000, "a")
    bench.engine.sync()
    assert held(bench.store, "second") == ["a twice x"]
    bench.push(12_000, "b")
    bench.engine.sync()
    assert held(bench.store, "second") == ["b twice x"]
    assert [(kind, names) for kind, _, names in bench.told("q")] == [
        ("insert", "a"),
        ("delete", "a"),
        ("insert", "b"),
    ]
    with bench.store.reader.query(f"ASK {{ GRAPH <{E}view> {{ ?x ?p ?o }} }}") as result:
        assert result.boolean is True


@pytest.mark.parametrize("output", ["istream", "dstream", "rstream", "changes"])
def test_the_graph_is_the_answer_whatever_the_feed_emits(bench: Bench, output: str) -> None:
    bench.register("v", VIEW, output=output)
    bench.push(1_000, "a")
    bench.push(12_000, "b")
    assert held(bench.store) == ["b now x"]


def test_a_query_that_reports_on_close_writes_at_its_reports(bench: Bench) -> None:
    bench.register(
        "v",
        f"REGISTER RSTREAM <{E}out> AS PREFIX : <{E}> CONSTRUCT {{ ?x :now ?v }} INTO GRAPH :view "
        "FROM NAMED WINDOW <w> ON :s [RANGE PT4S STEP PT2S] WHERE { WINDOW <w> { ?x :seen ?v } }",
    )
    bench.push(1_000, "a")
    assert held(bench.store) == []
    bench.push(2_500, "b")
    assert held(bench.store) == ["a now x"]
    bench.push(4_000, "c")
    assert held(bench.store) == ["a now x", "b now x"]
    bench.push(8_000, "d")
    assert held(bench.store) == ["c now x"]


def test_numbers_that_are_computed_stand_there_in_the_form_of_the_store(bench: Bench) -> None:
    text = (
        "CONSTRUCT { ?x :n ?n } INTO GRAPH :view WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } "
        'BIND(STRDT("007", <http://www.w3.org/2001/XMLSchema#integer>) AS ?n) }'
    )
    bench.register("v", text)
    bench.push(1_000, "a")
    assert held(bench.store) == ["a n 7"]
    bench.push(12_000, "b")
    assert held(bench.store) == ["b n 7"]


LANG_STRING = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>"


@pytest.mark.parametrize(
    "text",
    [
        f'CONSTRUCT {{ ?x :now "v"^^{LANG_STRING} }} INTO GRAPH :view WHERE {{ ?x :in ?r }}',
        f'CONSTRUCT {{ ?x :n ?v }} WHERE {{ STREAM :s [NOW] {{ ?x :in 1 }} BIND("v"^^{LANG_STRING} AS ?v) }}',
        f'CONSTRUCT {{ ?x :n ?v }} INTO GRAPH :view WHERE {{ ?x :i 1 VALUES ?v {{ 1 "v"^^{LANG_STRING} }} }}',
    ],
)
def test_a_literal_without_its_language_tag_is_refused(bench: Bench, text: str) -> None:
    with pytest.raises(InputError, match="has no language tag"):
        bench.register("v", text)
    with pytest.raises(InputError, match="has no language tag"):
        bench.engine.queries.validate(Registration(f"PREFIX : <{E}> {text}"))
    select = text.replace("INTO GRAPH :view ", "").replace(text[: text.index("}") + 1], "SELECT ?x")
    bench.register("s", select)


def test_the_registration_may_name_the_graph(bench: Bench) -> None:
    text = VIEW.replace("INTO GRAPH :view ", "")
    bench.register("v", text, into_graph=E + "view")
    bench.push(1_000, "a")
    assert held(bench.store) == ["a now x"]
    with pytest.raises(InputError, match="in the text and"):
        bench.register("w", VIEW, into_graph=E + "other")


def test_what_a_view_cannot_be_is_refused(bench: Bench) -> None:
    with pytest.raises(InputError, match="needs a CONSTRUCT"):
        bench.register("v", "SELECT ?x { ?x :p ?o }", into_graph=E + "view")
    with pytest.raises(UnsupportedError, match="blank nodes"):
        bench.register("v", "CONSTRUCT { ?x :p [] } INTO GRAPH :view WHERE { ?x :p ?o }")
    with pytest.raises(InputError, match="GRAPH block"):
        bench.register(
            "v", "CONSTRUCT { GRAPH :h { ?x :p ?o } } INTO GRAPH :view WHERE { ?x :p ?o }", dialect="cqels"
        )
    update(bench, "INSERT DATA { GRAPH :view { :a :p 1 } }")
    with pytest.raises(ConflictError) as refused:
        bench.register("v", VIEW)
    assert refused.value.code == "graph-not-empty"
    update(bench, "CLEAR GRAPH :view")
    bench.register("v", VIEW)
    with pytest.raises(ConflictError) as refused:
        bench.register("w", VIEW)
    assert refused.value.code == "graph-owned" and "query v" in refused.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        "GRAPH :view { ?x :p ?o }",
        "GRAPH ?g { ?x :p ?o }",
        "GRAPH :second { ?x :p ?o }",
        "STREAM :made [NOW] { ?x :p ?o }",
    ],
)
def test_cycles_are_refused(bench: Bench, pattern: str) -> None:
    bench.register("w", "CONSTRUCT { ?x :p ?o } INTO GRAPH :second WHERE { GRAPH :view { ?x :p ?o } }")
    bench.register("m", "CONSTRUCT { ?x :p ?o } WHERE { GRAPH :second { ?x :p ?o } }", result_iri=E + "made")
    with pytest.raises(InputError) as refused:
        text = f"CONSTRUCT {{ ?x :p ?o }} INTO GRAPH :view WHERE {{ {pattern} }}"
        bench.register("v", text, dialect="cqels")
    assert refused.value.code == "cycle"
    assert [each["name"] for each in describe_all(bench.engine)] == ["w", "m"]


def test_graph_with_a_variable_is_no_cycle_when_from_named_says_which(bench: Bench) -> None:
    update(bench, "INSERT DATA { GRAPH :g { :a :p 1 } GRAPH :h { :b :p 1 } }")
    bench.register(
        "v", "CONSTRUCT { ?x :p ?o } INTO GRAPH :view FROM NAMED :g WHERE { GRAPH ?g { ?x :p ?o } }"
    )
    assert held(bench.store) == ["a p 1"]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { GRAPH :view { :x :p 1 } }",
        "DELETE WHERE { GRAPH :view { ?x ?p ?o } }",
        "DROP GRAPH :view",
        "CLEAR ALL",
        "INSERT DATA { :fine :p 1 } ; INSERT DATA { GRAPH :view { :x :p 1 } }",
    ],
)
def test_nobody_else_changes_the_graph(bench: Bench, text: str) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    version = bench.store.reader.version
    with pytest.raises(ConflictError) as refused:
        update(bench, text)
    assert refused.value.code == "graph-owned"
    assert bench.store.reader.version == version
    update(bench, "INSERT DATA { GRAPH :free { :x :p 1 } }")
    assert held(bench.store) == ["a now x"]


def test_a_bulk_load_into_the_graph_is_set_right(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    triples = rdf_format("application/n-triples")
    assert triples is not None
    bench.store.writer.bulk_load(f"<{E}x> <{E}now> <{E}y> .".encode(), triples, graph=G)
    bench.engine.sync()
    assert held(bench.store) == ["a now x"]


def test_after_a_drop_the_graph_stays_and_is_everybodys_or_goes_too(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    bench.engine.queries.drop("v")
    assert held(bench.store) == ["a now x"]
    update(bench, "DELETE WHERE { GRAPH :view { ?x ?p ?o } }")
    bench.register("w", VIEW)
    bench.push(2_000, "b")
    assert held(bench.store) == ["b now x"]
    bench.engine.queries.drop("w", with_graph=True)
    assert not bench.store.reader.graph_exists(G)


def test_a_query_that_is_replaced_keeps_its_graph_and_makes_it_its_own(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")

    def replace(text: str) -> None:
        members = {"query": f"PREFIX : <{E}> {text}"}
        bench.engine.queries.register(Registration.from_json(members, name="v"), replace=True)

    replace(VIEW.replace(":now", ":was"))
    assert held(bench.store) == [], "new windows begin empty, and so does the answer"
    bench.push(2_000, "b")
    assert held(bench.store) == ["b was x"]
    replace(VIEW.replace(":view", ":other"))
    update(bench, "CLEAR GRAPH :view")
    bench.push(3_000, "c")
    assert held(bench.store, "other") == ["c now x"] and held(bench.store) == []


def test_while_a_query_is_replaced_its_graph_never_is_empty(bench: Bench) -> None:
    update(bench, "INSERT DATA { :a :in 1 . :b :in 1 }")
    bench.register("v", ROOMS)
    before = bench.store.reader.version
    members = {"query": f"PREFIX : <{E}> {ROOMS.replace('?y :in ?r', '?y :in ?r FILTER(?x != ?y)')}"}
    bench.engine.queries.register(Registration.from_json(members, name="v"), replace=True)
    bench.engine.sync()
    (commit,) = bench.store.commits_after(before)
    assert len(commit.removed) == 2 and commit.added == ()
    assert held(bench.store, "rooms") == ["a near b", "b near a"]


def test_a_registration_that_fails_owns_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def refuse(*_: object) -> None:
            raise UnsupportedError("this today")

        patched.setattr(bench.engine.parts, "make_evaluator", refuse)
        with pytest.raises(UnsupportedError):
            bench.register("v", VIEW)
    update(bench, "INSERT DATA { GRAPH :view { :a :p 1 } }")
    assert held(bench.store) == ["a p 1"]


def test_a_paused_query_leaves_its_graph_as_it_is(bench: Bench) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    bench.engine.queries.patch("v", {"state": "paused"})
    bench.push(12_000, "b")
    assert held(bench.store) == ["a now x"]
    bench.engine.queries.patch("v", {"state": "running"})
    assert held(bench.store) == ["b now x"]


def test_the_engine_does_not_wait_for_a_writer_that_takes_long() -> None:
    bench = Bench()
    bench.engine = Engine(bench.store, None, clock=Clock(), settings=EngineSettings())
    bench.engine.start()
    bench.register("v", VIEW)
    bench.register("q", "SELECT ?x { STREAM :s [RANGE 10s] { ?x :seen ?v } }")
    free, busy = threading.Event(), threading.Event()

    def long() -> None:
        busy.set()
        assert free.wait(20)

    writer = threading.Thread(target=bench.store.committer.exclusively, args=(long,))
    writer.start()
    assert busy.wait(5)
    for at in range(1_000, 1_010):
        bench.push(at, f"x{at}", wait=True)
    assert len(bench.told("q")) == 10, "results come while the view waits"
    assert held(bench.store) == []
    free.set()
    writer.join()
    before = bench.store.reader.version
    bench.engine.sync()
    assert len(held(bench.store)) == 10
    assert bench.store.reader.version <= before + 2, "what waited is made together"
    bench.engine.stop()
    bench.store.close()


def test_an_empty_answer_makes_no_graph(bench: Bench) -> None:
    bench.register("v", VIEW)
    assert bench.store.reader.graph_names() == [] and bench.store.reader.version == 0


def test_a_failed_write_is_told_and_made_up_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.register("v", VIEW)
    bench.push(1_000, "a")
    with monkeypatch.context() as patched:

        def full(**options: Any) -> None:
            raise StoreUnwritableError("the disk is full")

        patched.setattr(bench.store.writer, "apply", full)
        bench.push(2_000, "b")
        assert describe(bench.engine, "v")["view"]["error"] == "the disk is full"
        assert held(bench.store) == ["a now x"]
    bench.push(12_000, "c")
    assert held(bench.store) == ["b now x", "c now x"]
    assert describe(bench.engine, "v")["view"]["error"] is None


@pytest.mark.parametrize("error", [StoreUnwritableError("the disk is full"), ValueError("a fault")])
def test_what_could_not_be_written_is_written_later_by_itself(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with make_bench(threaded=True) as one:
        one.register("v", VIEW)
        one.push(1_000, "a")
        one.engine.sync()
        failed, apply = threading.Event(), one.store.writer.apply

        def fails_once(**options: Any) -> Any:
            if not failed.is_set():
                failed.set()
                raise error
            return apply(**options)

        monkeypatch.setattr(one.store.writer, "apply", fails_once)
        one.push(2_000, "b", wait=True)
        assert failed.wait(5)
        one.engine.sync()
        assert held(one.store) == ["a now x", "b now x"]


# --- crashes ------------------------------------------------------------------------------------------------


QUERIES = {
    "v": VIEW,
    "w": "CONSTRUCT { ?x :near ?n } INTO GRAPH :rooms WHERE { GRAPH :view { ?x :now ?v } ?x :in ?n }",
    "q": "SELECT ?x ?n FROM :rooms WHERE { ?x :near ?n }",
}


def expected(life: Life) -> list[str]:
    """The second view by its definition, over the first one."""
    text = f"SELECT ?x ?n {{ GRAPH <{E}view> {{ ?x <{E}now> ?v }} ?x <{E}in> ?n }}"
    rows = life.store.reader.solutions(text)[1]
    return sorted({f"{_last(x)} near {_last(n)}" for x, n in rows})


SEEDS = [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 25))]


@pytest.mark.parametrize("seed", SEEDS)
def test_views_are_exact_after_crashes_anywhere(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    life = Life(tmp_path / "data", ManualClock(0))
    for name, text in QUERIES.items():
        life.register(name, text, **({"output": "changes"} if name == "q" else {}))
    for step in range(1, 30):
        match chance.randrange(6):
            case 0 | 1 | 2:
                life.push(step * 1_500, chance.choice("abc"))
            case 3:
                word = chance.choice(["INSERT", "DELETE"])
                update(life, f"{word} DATA {{ :{chance.choice('abc')} :in {chance.randrange(3)} }}")
            case 4:
                life.checkpoint()
            case _:
                if chance.random() < 0.5:
                    # What the view wrote last is cut off, as when the process died before its commit.
                    life.engine.parts.views._started = False
                    life.push(step * 1_500 + 1, chance.choice("abc"))
                life = life.crash()
        life.engine.sync()
        window = life.answers()["v"]["quads"].splitlines()
        assert len(held(life.store)) == len(window)
        assert held(life.store, "rooms") == expected(life)
        rows = {row["x"]["value"] + row["n"]["value"] for row in life.answers()["q"]["results"]["bindings"]}
        assert len(rows) == len(held(life.store, "rooms"))
    versions = [commit.version for commit in life.store.commits_after(0)]
    assert versions == list(range(1, life.store.reader.version + 1))
    life.stop()
