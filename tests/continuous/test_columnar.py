"""Static parts by a columnar engine: asked where it wants to be, and the store wherever it cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, explain
from quadrill.app.describing.static_parts import describe_static
from quadrill.continuous.algebra.columnar import EngineChoice, Graphs, StaticEngines
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.rows import Solution
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.engines import bench
from tests.continuous.whole_contents import refresh

TEXT = """PREFIX : <http://x/>
SELECT ?p ?n FROM NAMED <http://x/g> { STREAM :s [NOW] { ?p :at ?l } GRAPH :g { ?p :name ?n } }"""
NEVER_QUICK = StaticLimits(quick_s=-1.0)
ROW = (NamedNode("http://x/name"), NamedNode("http://x/person"))


class Engine:
    """Gives one row, or refuses; notes what it was asked."""

    def __init__(self, *, refuses: bool = False, engine: str = "spark") -> None:
        self.refuses = refuses
        self.engine = engine
        self.asked: list[tuple[Any, ...]] = []

    def choose(self, pattern: Algebra, wish: str | None) -> EngineChoice:
        return EngineChoice(wish or self.engine, "so the test says")

    def rows(
        self,
        store: QuadStore,
        version: int,
        pattern: Algebra,
        columns: Sequence[Var],
        graphs: Graphs,
        base_iri: str | None,
    ) -> list[Solution]:
        self.asked.append((version, [each.name for each in columns], graphs))
        if self.refuses:
            raise UnsupportedError("a test")
        return [ROW]


def rows_of_the_part(engine: Engine, wish: str | None = None) -> tuple[int, EngineChoice | None]:
    """How many rows the static part of the query has, and who was asked for them."""
    store = QuadStore.open(None)
    store.writer.update(
        "INSERT DATA { GRAPH <http://x/g> { <urn:a> <http://x/name> 1 . <urn:b> <http://x/name> 2 } }"
    )
    query = parse(TEXT, dialect="cqels")
    options = EvaluationOptions(name="q", engines=StaticEngines(engine), static_engine=wish)
    evaluator = NativeEvaluator(query, store, options)
    refresh(evaluator)
    (facts,) = describe_static(query, evaluator, None, 0)
    reason = facts["engine_reason"]
    return facts["rows"], None if reason is None else EngineChoice(facts["engine"], reason)


def test_the_engine_is_asked_for_the_rows_at_the_version_and_over_the_graphs_of_the_query() -> None:
    engine = Engine()
    rows, choice = rows_of_the_part(engine)
    assert rows == 1
    assert set(engine.asked[0][1]) == {"n", "p"}
    assert engine.asked[0][0] == 1
    assert engine.asked[0][2] == Graphs((None,), ("<http://x/g>",))
    assert choice is not None and choice.engine == "spark"


def test_where_the_engine_does_not_want_to_the_store_gives_the_rows() -> None:
    engine = Engine(engine="oxigraph")
    assert rows_of_the_part(engine)[0] == 2
    assert engine.asked == []


def test_where_the_engine_refuses_the_store_gives_the_rows_and_the_reason_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows, choice = rows_of_the_part(Engine(refuses=True))
    assert rows == 2
    assert choice == EngineChoice("oxigraph", "spark was not able to: a test is not supported")
    assert "left to the store" in caplog.text


def test_what_the_query_asks_for_is_told_to_the_engine() -> None:
    assert rows_of_the_part(Engine(), "oxigraph")[0] == 2
    assert rows_of_the_part(Engine(engine="oxigraph"), "spark")[0] == 1


def test_a_registration_names_the_engine_of_its_static_parts() -> None:
    made = Registration.from_json({"query": TEXT, "static_engine": "spark"})
    assert made.evaluation.static_engine == "spark"
    assert made.options() == {"static_engine": "spark"}
    assert Registration.from_json({"query": TEXT}).evaluation.static_engine is None
    with pytest.raises(Exception, match="static_engine"):
        Registration.from_json({"query": TEXT, "static_engine": "duck"})


def test_the_graphs_of_a_clause_as_texts() -> None:
    assert Graphs.of(None, None) == Graphs((None,), None)
    assert Graphs.of((DefaultGraph(), NamedNode("urn:g")), ()) == Graphs((None, "<urn:g>"), ())


def test_a_description_tells_who_read_a_static_part_and_why() -> None:
    for engine, who, why in (
        (Engine(), "spark", "so the test says"),
        (Engine(refuses=True), "oxigraph", "spark was not able to: a test is not supported"),
        (Engine(engine="oxigraph"), "oxigraph", "so the test says"),
    ):
        with bench(engines=StaticEngines(engine)) as one:
            one.register("q", TEXT)
            (part,) = describe(one.engine, "q")["static_parts"]
            assert (part["engine"], part["engine_reason"]) == (who, why)
            assert f"read by {who}: {why}" in explain_text(explain(one.engine, "q"))
            assert len(engine.asked) == (0 if engine.engine == "oxigraph" else 1)


def test_a_part_that_is_read_anew_is_asked_for_again_at_the_version_of_its_turn() -> None:
    engine = Engine()
    with bench(engines=StaticEngines(engine), static_limits=NEVER_QUICK) as one:
        one.register("q", TEXT)
        # A bulk load has only counts, so the rows are read whole.
        graph = NamedNode("http://x/g")
        one.store.writer.bulk_extend(
            [Quad(NamedNode("urn:a"), NamedNode("http://x/name"), Literal("1"), graph)]
        )
        one.push(1000, "a")
        (part,) = describe(one.engine, "q")["static_parts"]
        assert (part["version"], part["rows"]) == (1, 1)
        assert [asked[0] for asked in engine.asked] == [0, 1]


def test_while_a_part_is_read_anew_the_old_rows_serve_under_their_version() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Engine):
        def rows(self, store: QuadStore, version: int, *given: Any) -> list[Solution]:
            if version:
                begun.set()
                assert go_on.wait(30)
            return super().rows(store, version, *given)

    graph = NamedNode("http://x/g")
    with bench(engines=StaticEngines(Slow()), threaded=True, static_limits=NEVER_QUICK) as one:
        one.register("q", TEXT)
        one.store.writer.bulk_extend(
            [Quad(NamedNode("urn:a"), NamedNode("http://x/name"), Literal("1"), graph)]
        )
        assert begun.wait(30)
        (part,) = describe(one.engine, "q")["static_parts"]
        assert (part["version"], part["behind_since"], part["engine"]) == (0, 1, "spark")
        assert "old rows in use while all rows are read since version 1" in explain_text(
            explain(one.engine, "q")
        )
        go_on.set()
        until = time.monotonic() + 30
        while (part := describe(one.engine, "q")["static_parts"][0])["version"] != 1:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert part["behind_since"] is None


LABELS = "SELECT ?x ?l { ?x <http://x/label> ?l }"
COUNTS = "SELECT ?x (COUNT(*) AS ?n) { ?x <http://x/kind> ?k } GROUP BY ?x"
WINDOW = "STREAM <urn:s> [RANGE 1h] { ?a ?b ?c }"


@pytest.mark.parametrize(
    "texts",
    [
        [f"SELECT * WHERE {{ {{ {LABELS} }} OPTIONAL {{ {COUNTS} }} {WINDOW} }}"],
        [f"SELECT * WHERE {{ {{ {LABELS} }} {WINDOW} }}", f"SELECT ?l WHERE {{ {{ {LABELS} }} {WINDOW} }}"],
    ],
    ids=["two parts of one query", "one part of two queries"],
)
def test_queries_begin_although_large_commits_come_all_the_time(texts: list[str]) -> None:
    class Reading(Engine):
        """Takes longer than it takes until the next large commit."""

        def rows(
            self, store: QuadStore, version: int, pattern: Algebra, columns: Sequence[Var], *given: Any
        ) -> list[Solution]:
            time.sleep(0.1)
            return [tuple(NamedNode(f"urn:{version}") for _ in columns)]

    ended = threading.Event()

    def write(store: QuadStore) -> None:
        number = 0
        while not ended.wait(0.005):
            number += 1
            names = [NamedNode(f"urn:{number}-{each}") for each in range(10)]
            store.writer.apply(
                add=[Quad(x, NamedNode(f"http://x/{p}"), x) for x in names for p in ("label", "kind")]
            )

    with bench(
        engines=StaticEngines(Reading()), threaded=True, static_limits=StaticLimits(keys=3, quick_s=0)
    ) as one:
        writer = threading.Thread(target=write, args=(one.store,))
        writer.start()
        threading.Timer(20, ended.set).start()
        try:
            for number, text in enumerate(texts):
                one.register(f"q{number}", text, output="changes")
            while any(describe(one.engine, f"q{each}")["state"] != "running" for each in range(len(texts))):
                time.sleep(0.01)
            assert not ended.is_set(), "none waits for the writer to end"
        finally:
            ended.set()
            writer.join()
        one.engine.parts.statics.wait_for_reloads(10)


@pytest.mark.parametrize("first", [None, "spark", "oxigraph"])
@pytest.mark.parametrize("tables", ["table", "lookup"])
@pytest.mark.parametrize("templates", [True, False])
def test_a_query_that_names_an_engine_has_tables_of_its_own(
    first: str | None, tables: str, templates: bool
) -> None:
    engine = Engine()
    wishes = dict.fromkeys([first, "oxigraph", "spark", None])
    with bench(engines=StaticEngines(engine), templates=templates) as one:
        one.store.writer.update(
            "INSERT DATA { GRAPH <http://x/g> { <urn:a> <http://x/name> 1 . <urn:b> <http://x/name> 2 } }"
        )
        for wish in wishes:
            one.register(f"q{wish}", TEXT, static_engine=wish, static_tables=tables)
        one.engine.streams.push(
            PushCall("http://x/s", "text/turtle", at=1),
            b"<urn:a> <http://x/at> <urn:l> . <urn:b> <http://x/at> <urn:l> .",
        )
        for wish in wishes if tables == "table" else ():
            (part,) = describe(one.engine, f"q{wish}")["static_parts"]
            assert part["engine"] == (wish or "spark")
            assert part["rows"] == (2 if wish == "oxigraph" else 1)
        assert [bool(one.engine.queries.feed(f"q{wish}").history.last_id) for wish in wishes] == [
            tables == "lookup" or wish == "oxigraph" for wish in wishes
        ]
