"""A recomputed evaluation keeps to its limits: it runs in a child process where it may take long."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Quad

from quadrill.app.describing.queries import describe
from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Registration
from quadrill.continuous.errors import BudgetError
from quadrill.continuous.evaluate import recomputing
from quadrill.continuous.evaluate.in_child import evaluate_in_child
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import LimitError, UnsupportedError
from quadrill.store.logs.process_copy import COPIES
from quadrill.store.sparql.query import QueryFailedError
from tests.continuous.engines import PREFIX, S, bench
from tests.continuous.evaluate.helpers import background, content, evaluator, holding
from tests.continuous.evaluate.test_random_queries import W1, W2, WINDOWS, G, in_graph, patterns, triple_sets
from tests.continuous.test_fair_shares import OTHER, N, latency, lines, threaded
from tests.continuous.test_recovery import Life
from tests.continuous.whole_contents import recomputed
from tests.examples import examples

pytestmark = pytest.mark.skipif(not COPIES, reason="processes are copied on Linux only")

PRODUCT = "{ SELECT (COUNT(*) AS ?n) { ?a :k ?x . ?b :k ?y . ?c :k ?z . ?d :k ?w } }"
HEAVY = {
    "product": f"SELECT ?n ?r WHERE {{ STREAM :s [RANGE 1h] {{ {PRODUCT} }} BIND(RAND() AS ?r) }}",
    "sorted": "SELECT ?a ?b ?c ?d ?r WHERE { STREAM :s [RANGE 1h] "
    "{ ?a :k ?x . ?b :k ?y . ?c :k ?z . ?d :k ?w } BIND(RAND() AS ?r) } ORDER BY ?r LIMIT 3",
    "minus": "SELECT ?a ?r WHERE { STREAM :s [RANGE 1h] { ?a :k ?x . ?b :k ?y . ?c :k ?z"
    " FILTER NOT EXISTS { ?d :k ?w FILTER(?d = ?none) } } BIND(RAND() AS ?r) }",
}
"""Each falls back to recomputing, because of RAND, and would take minutes over 300 elements."""
LIGHT = "SELECT ?a ?r WHERE { STREAM :s [RANGE 1h] { ?a :k ?x . ?b :k ?x } BIND(RAND() < 0 AS ?r) }"


_others = set[int]()
"""Child processes that other tests have started."""


def children() -> list[int]:
    """The child processes of this one that the test has started, zombies included."""
    files = Path("/proc/self/task").glob("*/children")
    found = [int(number) for file in files for number in file.read_text().split()]
    return [number for number in found if number not in _others]


@pytest.fixture(autouse=True)
def others() -> None:
    _others.clear()
    _others.update(children())


def until(holds: Callable[[], bool], seconds: float) -> float:
    """Wait for something; how long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.005)
    return time.monotonic() - began


def begin(life: Life, text: str) -> None:
    """Register a slow query and another one, and let the slow one begin its evaluation."""
    life.engine.queries.register(Registration(name="slow", query=PREFIX + text))
    assert describe(life.engine, "slow")["engine"].startswith("reference")
    life.engine.queries.register(Registration(name="quick", query=PREFIX + OTHER))
    life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
    until(lambda: bool(children()), 10.0)


def _error(life: Life, name: str) -> str:
    return describe(life.engine, name)["error"] or ""


@pytest.mark.always("sorted")
@pytest.mark.parametrize("kind", HEAVY)
def test_an_evaluation_that_takes_minutes_fails_in_time_and_holds_nobody(tmp_path: Path, kind: str) -> None:
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=6_000)) as life:
        begin(life, HEAVY[kind])
        # An engine that waits for the evaluation takes its 6 s; benchmarks.fairness measures the latency.
        assert latency(life, "quick", N + "t", 20) < 4.0
        assert describe(life.engine, "slow")["state"] == "running"
        until(lambda: describe(life.engine, "slow")["state"] == "failed", 20.0)
        found = re.match(r"one evaluation took (\d+) ms .*\(max_time\) is 6 s", _error(life, "slow"))
        assert found is not None and int(found[1]) < 12_000
        assert [each["reason"] for each in life.engine.streams.dead_letters(S)] == ["budget"]
        assert children() == []


@pytest.mark.parametrize("how", ["paused", "dropped", "stopped"])
def test_a_query_that_is_paused_or_dropped_leaves_no_child(tmp_path: Path, how: str) -> None:
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=60_000)) as life:
        begin(life, HEAVY["product"])
        time.sleep(0.3)
        began = time.monotonic()
        if how == "paused":
            life.engine.queries.patch("slow", {"state": "paused"})
        elif how == "dropped":
            life.engine.queries.drop("slow")
        else:
            life.stop()
        assert time.monotonic() - began < 6.0
        until(lambda: children() == [], 6.0)
        spent = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - spent < 0.2
        if how != "stopped":
            assert latency(life, "quick", N + "t", 3) < 6.0


def test_what_waits_for_a_child_uses_little_cpu(tmp_path: Path) -> None:
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=60_000)) as life:
        begin(life, HEAVY["product"])
        spent = time.process_time()
        time.sleep(1.0)
        assert time.process_time() - spent < 0.3
        assert describe(life.engine, "slow")["state"] == "running"


def test_the_cpu_time_of_a_child_counts_for_the_minute(tmp_path: Path) -> None:
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=60_000, minute_ms=500)) as life:
        begin(life, HEAVY["product"])
        until(lambda: describe(life.engine, "slow")["state"] == "failed", 20.0)
        assert "max_cpu_per_minute" in describe(life.engine, "slow")["error"]
        assert children() == []


def test_a_failure_is_repeated_without_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000), idle_timeout_ms=0, limits=QueryLimits(rows=0, ms=300))
    life.engine.queries.register(Registration(name="slow", query=PREFIX + HEAVY["product"]))
    life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
    before = describe(life.engine, "slow")
    assert before["state"] == "failed" and "(max_time)" in before["error"]
    told = life.told()
    evaluated: list[float] = []

    def noted(*given: Any) -> Any:
        evaluated.append(time.monotonic())
        return evaluate_in_child(*given)

    monkeypatch.setattr(recomputing, "evaluate_in_child", noted)
    life = life.crash()
    after = describe(life.engine, "slow")
    assert (after["state"], after["error"]) == ("failed", before["error"])
    assert life.told() == told and evaluated == []
    life.stop()


SERVER = """
    import sys, time
    from pathlib import Path
    from quadrill.continuous.engine import Registration
    from quadrill.continuous.rows import QueryLimits
    from tests.continuous.test_fair_shares import threaded, lines
    from tests.continuous.test_recomputing_limits import HEAVY, PREFIX, S, begin, children

    with threaded(Path(sys.argv[1]), limits=QueryLimits(rows=0, ms=0)) as life:
        begin(life, HEAVY["product"])
        print(*children(), flush=True)
        time.sleep(60)
"""


def test_a_killed_server_leaves_no_child(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(tmp_path / "d")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        child = int(server.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        server.kill()
        server.wait()
        # Whoever adopts it may take its time to read how it ended.
        until(lambda: _state(child) in ("", "Z", "X"), 3.0)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


# --- the same answers ------------------------------------------------------------------------------


def both(
    monkeypatch: pytest.MonkeyPatch, evaluate: Callable[[QueryLimits], list[Any] | bool | None]
) -> list[tuple[Any, int]]:
    """What an evaluation gives in this process and in a child, with the number of children."""
    found = []
    for most in (sys.maxsize, -1):
        made: list[Any] = []

        def noted(*given: Any, made: list[Any] = made) -> Any:
            made.append(given)
            return evaluate_in_child(*given)

        with monkeypatch.context() as patch:
            patch.setattr(ReferenceEvaluator, "most_in_process", most)
            patch.setattr(recomputing, "evaluate_in_child", noted)
            found.append((evaluate(QueryLimits(ms=60_000)), len(made)))
    return found


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    node=patterns,
    named=triple_sets,
    first=triple_sets,
    second=triple_sets,
    ask=st.booleans(),
)
def test_random_queries_have_the_same_answer_in_a_child(
    node: Algebra, named: set[Quad], first: set[Quad], second: set[Quad], ask: bool
) -> None:
    columns = () if ask else tuple(Var(name) for name in sorted(in_scope(node)))
    root = n.Project(node, columns)
    query = ContinuousQuery("", "sparql", "ask" if ask else "select", root, columns, windows=WINDOWS)
    windows = {W1: dict.fromkeys(first, 0), W2: dict.fromkeys(second, 0)}
    whole: list[bool] = []

    def evaluate(limits: QueryLimits) -> Any:
        with holding(in_graph(named, G)) as store:
            made = ReferenceEvaluator(query, store, EvaluationOptions(limits=limits))
            answer = recomputed(made, 0, windows)
            whole.append(made.is_whole)
            made.close()
            return answer.boolean if ask else list(answer.rows)

    with pytest.MonkeyPatch.context() as patch:
        (here, none), (there, some) = both(patch, evaluate)
    assert here == there if isinstance(here, bool) else sorted(map(str, here)) == sorted(map(str, there))
    # A query that is one static part is not evaluated over windows.
    assert none == 0 and (some or all(whole))


TEXTS = {
    "order": "SELECT ?x ?v WHERE { STREAM :s [NOW] { ?x :v ?v } } ORDER BY DESC(?v)",
    "optional": "SELECT ?x ?l WHERE { STREAM :s [NOW] { ?x :v ?v OPTIONAL { ?x :label ?l } } }",
    "no columns": "SELECT * WHERE { STREAM :s [NOW] { :a :v 1 } }",
    "random": "SELECT ?x ?r (UUID() AS ?u) WHERE { STREAM :s [NOW] { ?x :v ?v } BIND(RAND() AS ?r) }",
    "now": "SELECT (NOW() AS ?t) (BNODE() AS ?b) WHERE { STREAM :s [NOW] { ?x :v ?v } }",
    "set functions": "SELECT (MEDIAN(?v) AS ?m) (GROUP_CONCAT(?v) AS ?c) (STDDEV(?v) AS ?s) "
    "WHERE { STREAM :s [NOW] { ?x :v ?v } }",
    "uncertainty": 'SELECT (rspu:add("N(20, 4)"^^rspu:distribution, ?v) AS ?d) '
    "WHERE { STREAM :s [NOW] { ?x :v ?v } }",
    "triple terms": "SELECT (TRIPLE(?x, :v, ?v) AS ?t) WHERE { STREAM :s [NOW] { ?x :v ?v } }",
    "timestamp": "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> SELECT ?x (f:timestamp(?v) AS ?t) "
    "FROM STREAM <http://x/s> [RANGE 9s STEP 9s] WHERE { ?x :v ?v }",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_functions_and_aggregates_of_ours_work_in_a_child(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = content(':a :v 1 . :b :v 2 ; :label "b"@en .', 5) | content(":c :v 2.5 .", 7)

    def evaluate(limits: QueryLimits) -> Any:
        with background() as store:
            engine, query = evaluator(TEXTS[kind], store, limits=limits, name="q")
            return list(recomputed(engine, 9_000, {each.name: times for each in query.windows}).rows)

    (here, none), (there, some) = both(monkeypatch, evaluate)
    assert here == there and here and (none, some) == (0, 2)


def test_many_rows_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT ?x ?y ?v WHERE { STREAM :s [NOW] { ?x :v ?v . ?y :v ?w } }"
    values = content("".join(f':a{number} :v "{"x" * 2_000}{number}" . ' for number in range(200)))

    def evaluate(limits: QueryLimits) -> Any:
        with background() as store:
            engine, query = evaluator(text, store, limits=limits)
            return list(recomputed(engine, 0, {query.windows[0].name: values}).rows)

    (here, _), (there, _) = both(monkeypatch, evaluate)
    assert len(here) == 40_000 and sorted(map(str, here)) == sorted(map(str, there))


# --- errors ----------------------------------------------------------------------------------------


def run(given: Callable[[], Any], limits: QueryLimits | None = None) -> Any:
    return evaluate_in_child(given, lambda: None, 0, Budget(limits or QueryLimits(ms=5_000)), "here")


def test_an_error_is_the_same_as_in_this_process() -> None:
    def raises(error: Exception) -> Callable[[], Any]:
        def work() -> Any:
            raise error

        return work

    for error in (
        UnsupportedError("this", "and why", hint="write that"),
        QueryFailedError("it failed"),
        BudgetError("too much", limit=7),
        LimitError("too long", limit=9),
    ):
        with pytest.raises(type(error)) as found:
            run(raises(error))
        raised: Any = found.value
        assert (raised.message, raised.code, raised.details, raised.hint) == (
            error.message,
            error.code,
            error.details,
            error.hint,
        )
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)
    unknown = type("LocalError", (Exception,), {})
    with pytest.raises(RuntimeError, match="LocalError: what"):
        run(raises(unknown("what")))


def test_a_text_that_is_too_long_fails_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT (CONCAT(?v, ?v) AS ?w) WHERE { STREAM :s [NOW] { ?x :v ?v } }"

    def evaluate(limits: QueryLimits) -> Any:
        with background() as store, pytest.raises(BudgetError) as found:
            engine, query = evaluator(text, store, limits=QueryLimits(ms=limits.ms, text=5_000))
            recomputed(engine, 0, {query.windows[0].name: content(f':a :v "{"x" * 3_000}" .')})
        return found.value.message

    (here, _), (there, some) = both(monkeypatch, evaluate)
    assert here == there and "max_text_length" in here and some


def test_a_limit_of_rows_fails_alike_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for most in (sys.maxsize, -1):
        monkeypatch.setattr(ReferenceEvaluator, "most_in_process", most)
        with bench(limits=QueryLimits(rows=1_000, ms=60_000)) as b:
            b.register("q", LIGHT)
            b.engine.streams.push(PushCall(S, "text/turtle", at=1), lines(30))
            assert describe(b.engine, "q")["state"] == "running"
            b.engine.streams.push(PushCall(S, "text/turtle", at=2), lines(60))
            errors.append(describe(b.engine, "q")["error"])
    assert errors[0] == errors[1]
    assert "one evaluation makes 1001 rows or more, its limit (max_rows) is 1000" in errors[0]


def test_a_child_that_is_killed_or_has_no_memory_fails_the_query() -> None:
    def killed() -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(BudgetError, match=r"SIGKILL.*worker_memory_bytes") as found:
        run(killed)
    assert not found.value.again
    with pytest.raises(BudgetError, match="worker_memory_bytes, 50000000 bytes"):
        run(lambda: bool(bytearray(200_000_000)), QueryLimits(ms=60_000, process=50_000_000))
    assert children() == []


def test_a_child_ends_by_itself_when_nobody_looks() -> None:
    began = time.monotonic()
    with pytest.raises(BudgetError, match=r"max_time\) is 200 ms"):
        run(lambda: time.sleep(60), QueryLimits(ms=200))
    assert time.monotonic() - began < 6.0
    assert children() == []


def test_where_no_process_can_be_made_it_is_evaluated_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    monkeypatch.setattr(ReferenceEvaluator, "most_in_process", -1)
    with background() as store:
        engine, query = evaluator(TEXTS["order"], store, limits=QueryLimits(ms=1_000))
        answer = recomputed(engine, 0, {query.windows[0].name: content(":a :v 1 . :b :v 2 .")})
    assert [str(row[0]) for row in answer.rows] == ["<http://x/b>", "<http://x/a>"]


def test_queries_with_children_emit_the_same_however_the_time_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for most, slice_ms in ((sys.maxsize, 50), (-1, 50), (-1, 0)):
        monkeypatch.setattr(ReferenceEvaluator, "most_in_process", most)
        with bench(slice_ms=slice_ms) as b:
            b.register("light", LIGHT)
            b.register("join", f"{LIGHT[:-1]} GRAPH :g {{ ?a :label ?l }} }}")
            for number in range(6):
                b.store.writer.update(
                    PREFIX + f"INSERT DATA {{ GRAPH :g {{ :a{number} :label {number % 3} }} }}"
                )
                b.engine.streams.push(PushCall(S, "text/turtle", at=1_000 + number), lines(3, first=number))
            b.engine.sync()
            found.append(
                [
                    [(e.id, e.kind, e.data) for e in b.engine.queries.feed(q).subscribe(0).take()]
                    for q in ("light", "join")
                ]
            )
    assert found[0] == found[1] == found[2]
    assert all(found[0])
