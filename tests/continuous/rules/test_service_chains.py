"""Rule sets that read one another, and sets that are replaced and removed while clients commit."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.continuous.rules.definition import RuleSetDefinition
from quadrill.continuous.rules.rule_set import RuleSet
from quadrill.store.changes.owners import Owner
from quadrill.store.errors import ConflictError, InputError, ReportedError, StoreUnwritableError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.registry import QueryRecord

from ...examples import examples
from .served import BASE, Replayed, Served, check_law, definition, rule
from .test_fixpoint_law import random_rules
from .test_service_law import commit_group

FIRST, SECOND, THIRD = (f"{BASE}{name}" for name in ("into", "second", "third"))
NEGATED = [
    rule("?x :far ?y", "?x :r ?y FILTER NOT EXISTS { ?x :p ?y }"),
    rule("?x :lonely ?x", "?x :p ?y MINUS { ?x :r ?z }"),
]


def random_chain(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Return three random sets, each of which may read the graphs of the sets before it."""
    second = random_rules(rng) if rng.random() < 0.5 else NEGATED
    return {
        "c": definition(*random_rules(rng)),
        "a": definition(*second, into=SECOND, **{"from": ["default", FIRST]}),
        "b": definition(*random_rules(rng), into=THIRD, **{"from": [FIRST, SECOND, f"{BASE}g1"]}),
    }


@pytest.mark.parametrize("seed", range(examples(150)))
def test_chains_of_sets_hold_the_fixpoint_at_every_version(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with Served(tmp_path, StoreOptions(durable=False)) as served:
        commit_group(served, rng)
        served.update("DROP SILENT GRAPH :into")
        chain = random_chain(rng)
        order = list(chain)
        rng.shuffle(order)
        for name in order:
            served.put(name, chain[name])
            served.check()
        begin = served.store.reader.version
        for _ in range(3):
            commit_group(served, rng)
            served.check()
        replayed = Replayed(served.store)
        for version in replayed.versions():
            if version >= begin:
                owned = set(served.store.queue.owned)
                check_law(replayed.quads, served.definitions(), owned, f"version {version}")
        # Replaced and removed sets.
        served.put("a", definition(*random_rules(rng), into=SECOND, **{"from": [FIRST]}))
        served.check()
        commit_group(served, rng)
        served.check()
        moved = definition(*random_rules(rng), into=f"{BASE}other")
        with pytest.raises(ConflictError, match="in use by the rule set [ab], the rule set [ab]"):
            served.put("c", moved)
        served.rules.delete("b")
        served.check()
        served.rules.delete("a")
        served.put("c", moved)
        served.check()
        commit_group(served, rng)
        served.check()
        served.rules.delete("c")
        served.check()
        assert not served.store.reader.quads_for_pattern(graph=NamedNode(f"{BASE}other"))
        commit_group(served, rng)
        served.check()


def test_a_set_that_moves_to_another_graph_leaves_nothing_behind(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("one", definition(rule("?y :r ?x", "?x :p ?y"), rule("?x :s ?y", "?x :r ?y")))
        served.update("INSERT DATA { :a :p :b }")
        for into in (SECOND, FIRST):
            served.put("one", definition(rule("?y :r ?x", "?x :p ?y"), into=into))
            assert served.inferred(into) == {":b :r :a"}
            assert [name.value for name in served.store.reader.graph_names()] == [into]
        # The set reads its own former graph, whose triples no rule set derives any longer.
        moved = definition(rule("?x :t ?y", "?x :r ?y"), into=SECOND, **{"from": ["default", FIRST]})
        served.put("one", moved)
        assert served.inferred(SECOND) == set()
        served.check()
        # The former graph has no owner any longer.
        served.update("INSERT DATA { GRAPH :into { :c :r :d } }")
        assert served.inferred(SECOND) == {":c :t :d"}


def test_sets_under_way_count_for_cycles_and_for_use(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        text = rule("?y :r ?x", "?x :p ?y")
        served.put("one", definition(text))
        second = served.rules.put("two", definition(text, into=SECOND, **{"from": [FIRST, THIRD]}))
        with pytest.raises(InputError, match="would read one another"):
            served.rules.put("three", definition(text, into=THIRD, **{"from": [SECOND]}))
        with pytest.raises(ConflictError) as error:
            served.rules.delete("one")
        assert error.value.code == "in-use"
        assert error.value.details["used_by"] == ["the rule set two"]
        for work in (
            lambda: served.rules.put("two", definition(text, into=THIRD)),
            lambda: served.rules.delete("two"),
        ):
            with pytest.raises(ConflictError) as error:
                work()
            assert error.value.code == "in-progress"
        second.run()
        served.put("two", definition(text, into=SECOND, **{"from": ["default"]}))
        served.rules.delete("one")


def test_owners_of_graphs_change_the_default_input(tmp_path: Path) -> None:
    view, graph = Owner("view", "seen"), NamedNode(f"{BASE}view")
    with Served(tmp_path) as served:
        queue = served.store.queue
        queue.own(graph, view)
        text = rule("?y :r ?x", "?x :p ?y")
        served.put("one", definition(text))
        served.put("two", definition(rule("?x :named ?g", "GRAPH ?g { ?x :p ?y }"), into=SECOND))
        quad = Quad(NamedNode(f"{BASE}a"), NamedNode(f"{BASE}p"), NamedNode(f"{BASE}b"), graph)
        served.store.writer.apply(add=[quad], owner=view)
        assert served.inferred() == served.inferred(SECOND) == set()
        queue.disown(graph, view)
        _eventually(lambda: served.inferred() == {":b :r :a"})
        _eventually(lambda: served.inferred(SECOND) == {":a :named :view"})
        served.check()
        queue.own(graph, view)
        _eventually(lambda: served.inferred() == served.inferred(SECOND) == set())
        served.check()


def test_a_graph_that_loses_its_owner_suspends_a_set_over_its_budget_and_blocks_no_commit(
    tmp_path: Path,
) -> None:
    view, graph = Owner("view", "seen"), NamedNode(f"{BASE}view")
    with Served(tmp_path) as served:
        served.store.queue.own(graph, view)
        served.put("one", definition(rule("?y :r ?x", "?x :p ?y"), max_inferred=2))
        quads = [
            Quad(NamedNode(f"{BASE}a{number}"), NamedNode(f"{BASE}p"), NamedNode(f"{BASE}b"), graph)
            for number in range(3)
        ]
        served.store.writer.apply(add=quads, owner=view)
        served.update("INSERT DATA { :c :p :d }")
        served.store.queue.disown(graph, view)
        _eventually(lambda: served.rules.describe("one")["state"] == "suspended")
        assert "max_inferred" in served.rules.describe("one")["error"]
        served.update("INSERT DATA { :e :p :f }")
        served.check(empty=["one"])
    with Served(tmp_path) as served:
        assert served.rules.describe("one")["state"] == "suspended"
        served.put("one", definition(rule("?y :r ?x", "?x :p ?y")))
        served.check()


def test_owners_that_change_before_a_failed_commit_count_at_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, graph = Owner("view", "seen"), NamedNode(f"{BASE}view")
    with Served(tmp_path) as served:
        queue = served.store.queue
        served.put("one", definition(rule("?y :r ?x", "?x :p ?y")))
        queue.own(graph, view)
        quad = Quad(NamedNode(f"{BASE}a"), NamedNode(f"{BASE}p"), NamedNode(f"{BASE}b"), graph)
        served.store.writer.apply(add=[quad], owner=view)
        monkeypatch.setattr(queue, "owners_changed", lambda _: None)
        queue.disown(graph, view)
        with pytest.raises(ReportedError):
            served.update("INSERT DATA { :c :p :d } ; CREATE GRAPH :view")
        with monkeypatch.context() as patch:
            patch.setattr(served.store.log, "append", _refuse)
            with pytest.raises(ReportedError):
                served.update("INSERT DATA { :c :p :d }")
        assert served.inferred() == set()
        served.update("INSERT DATA { :e :p :f }")
        assert served.inferred() == {":b :r :a", ":f :r :e"}


def test_a_view_that_was_dropped_before_a_crash_is_input_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, graph = Owner("view", "seen"), NamedNode(f"{BASE}view")
    quad = Quad(NamedNode(f"{BASE}a"), NamedNode(f"{BASE}p"), NamedNode(f"{BASE}b"), graph)
    record = QueryRecord("seen", "none", options={"into_graph": graph.value})
    with Served(tmp_path) as served:
        served.registry.queries.add(record)
        served.store.queue.own(graph, view)
        served.put("one", definition(rule("?y :r ?x", "?x :p ?y")))
        served.put("two", definition(rule("?x :seen ?y", "?x :r ?y"), into=SECOND, **{"from": [FIRST]}))
        served.store.writer.apply(add=[quad], owner=view)
    with Served(tmp_path) as served:  # nothing to do
        assert served.store.reader.version == 3
        assert served.inferred() == set()
        monkeypatch.setattr(served.store.queue, "owners_changed", lambda _: None)
        served.registry.queries.remove("seen")
        served.store.queue.disown(graph, view)
    for _ in range(2):
        with Served(tmp_path) as served:
            assert served.store.reader.version == 4
            assert served.inferred() == {":b :r :a"}
            assert served.inferred(SECOND) == {":b :seen :a"}
            served.check()


def _refuse(*_: object) -> None:
    raise StoreUnwritableError("no space")


def _eventually(holds: Any) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_no_reader_sees_a_version_without_its_consequences(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads commit, replace and remove sets, and read; each version that was read is checked later."""
    rng = random.Random(seed)
    stop = threading.Event()
    errors: list[BaseException] = []
    programs = [random_rules(rng) for _ in range(4)]
    # The log of definitions: each version of the registry's sets by the commits that changed them.
    seen: dict[int, tuple[Quad, ...]] = {}
    sets: dict[int, dict[str, RuleSetDefinition]] = {}

    with Served(tmp_path, StoreOptions(durable=False)) as served:
        store, rules = served.store, served.rules
        at_work = rules._consequences
        use = at_work._use

        def noted(used: dict[str, RuleSet]) -> None:  # called under the writer lock when the sets change
            use(used)
            sets[store.committer.version] = {each.name: each.definition for each in at_work.ordered}

        monkeypatch.setattr(at_work, "_use", noted)
        commit_group(served, rng)
        served.update("DROP SILENT GRAPH :into")
        begin = store.reader.version

        def guarded(work: Any) -> threading.Thread:
            def run() -> None:
                try:
                    while not stop.is_set():
                        work()
                except BaseException as error:
                    errors.append(error)
                    stop.set()

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        def read() -> None:
            with store.reader.snapshot_read() as snapshot:
                version = snapshot.version
                quads = tuple(snapshot.quads_for_pattern())
            assert seen.setdefault(version, quads) is quads or set(seen[version]) == set(quads)
            time.sleep(0.005)

        def write(own: random.Random) -> None:
            commit_group(served, own)
            time.sleep(0.005)

        def replace(own: random.Random) -> None:
            name = own.choice(("one", "two"))
            try:
                if own.random() < 0.25:
                    rules.delete(name)
                    return
                into = own.choice((FIRST, SECOND)) if name == "one" else THIRD
                sources = own.choice((None, ["default", f"{BASE}g1"], ["default", FIRST]))
                if name == "one" and sources and FIRST in sources:
                    sources = None
                members = definition(*own.choice(programs), into=into)
                served.put(name, members | ({} if sources is None else {"from": sources}))
            except ReportedError as error:
                codes = ("unknown-rules", "in-use", "in-progress", "graph-not-empty", "cycle")
                assert error.code in codes, error
            time.sleep(0.01)

        threads = [
            guarded(read),
            guarded(read),
            guarded(partial(write, random.Random(seed * 7 + 1))),
            guarded(partial(write, random.Random(seed * 7 + 2))),
            guarded(partial(replace, random.Random(seed * 7 + 3))),
            guarded(partial(replace, random.Random(seed * 7 + 4))),
        ]
        time.sleep(2)
        stop.set()
        for thread in threads:
            thread.join(30)
        if errors:
            raise errors[0]
        assert len(seen) > 5
        assert len(sets) > 3
        served.check()
        replayed = Replayed(store)
        now: dict[str, RuleSetDefinition] = {}
        for version in replayed.versions():
            now = sets.get(version, now)
            if version in seen:
                assert set(seen[version]) == replayed.quads
            if version > begin:
                # A graph that no set owns any longer may be written by clients, and is then input.
                owned = {each.into for each in now.values()}
                check_law(replayed.quads, now, set(owned), f"version {version}")
        replayed.check_graphs()
