"""Registered shapes over a store: refusals, warnings, reports in graphs, and restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.lifecycle.shape_feeds import ShapeFeeds
from quadrill.continuous.lifecycle.shape_service import ShapeService
from quadrill.continuous.shapes.definition import read_parameters, shapes_text
from quadrill.continuous.shapes.errors import ValidationStoppedError
from quadrill.continuous.shapes.report_graph import report_quads
from quadrill.continuous.shapes.snapshot import Snapshot
from quadrill.continuous.shapes.violations import ViolationError
from quadrill.store.errors import ConflictError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

PREFIXES = "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix : <http://e/> . "
NAMED = ":S sh:targetClass :P ; sh:property [ sh:path :name ; sh:minCount 1 ] ."
REPORT = "http://e/report"


class Served:
    """A store with shapes and rule sets."""

    def __init__(self, store: QuadStore, registry: Registry, feeds: ShapeFeeds | None = None) -> None:
        self.store = store
        self.shapes = ShapeService(store, registry, base_iri="http://e/", clock_ms=lambda: 0, feeds=feeds)
        consequences = self.shapes.consequences
        self.rules = RuleService(
            store, registry, base_iri="http://e/", clock_ms=lambda: 0, shapes=consequences
        )
        self.rules.start()
        self.shapes.start()

    def put(self, name: str, shapes: str = NAMED, **parameters: object) -> None:
        triples = (quad.triple for quad in parse(PREFIXES + shapes, format=RdfFormat.TURTLE))
        self.shapes.put(name, read_parameters(parameters, shapes_text(triples)))

    def update(self, text: str) -> int:
        """Make an update; return the number of violations that its answer has."""
        return self.store.writer.update("PREFIX : <http://e/> " + text).violations

    def count(self, name: str) -> int:
        return self.shapes.reports.report(name, 0).count

    def check_report(self, name: str) -> None:
        """Check that the graph of the report has what a complete validation finds."""
        shapes = self.shapes.reports.get(name)
        into = shapes.definition.into
        assert into is not None
        with self.store.reader.snapshot_read() as snapshot:
            inputs = self.shapes.consequences.inputs(shapes, self.store.queue.owned)
            quads = [quad for quad in snapshot.quads_for_pattern() if quad.graph_name in inputs]
        complete = shapes.complete_snapshot(Snapshot(quads=[quads]), shapes.budget(timed=False))
        assert set(self.store.reader.quads_for_pattern(graph=into)) == report_quads(complete, into)


@contextmanager
def served(
    folder: Path | None = None, reached: Callable[[str], None] = lambda step: None
) -> Iterator[Served]:
    options = StoreOptions(durable=False, reached=reached)
    url = "sqlite://" if folder is None else f"sqlite:///{folder / 'registry.sqlite'}"
    with (
        QuadStore.open(None if folder is None else folder / "data", options) as store,
        Registry.open(url) as registry,
    ):
        yield Served(store, registry)


def test_reject_refuses_what_adds_a_violation_and_nothing_else() -> None:
    with served() as server:
        server.update("INSERT DATA { :old a :P }")
        server.put("s", mode="reject")
        assert server.count("s") == 1  # standing results do not block the PUT
        with pytest.raises(ViolationError) as refused:
            server.update("INSERT DATA { :a a :P . :b a :P ; :name 'b' }")
        assert refused.value.details["results"] == 1
        assert "<http://e/a>" in refused.value.details["report"]
        assert server.store.reader.quad_count == 1
        server.update("INSERT DATA { :b a :P ; :name 'b' }")
        with pytest.raises(ViolationError):
            server.update("DELETE DATA { :b :name 'b' }")
        server.update("INSERT DATA { :old :age 1 }")  # a standing violation does not block it
        server.update("DELETE DATA { :b a :P ; :name 'b' }")


def test_warn_counts_added_violations_and_watch_does_not() -> None:
    with served() as server:
        server.put("s", mode="warn")
        assert server.update("INSERT DATA { :a a :P . :b a :P }") == 2
        assert server.update("INSERT DATA { :a :name 'a' }") == 0
        server.put("s", mode="watch")
        assert server.update("INSERT DATA { :c a :P }") == 0
        assert server.count("s") == 2


def test_the_graph_of_the_report_follows_every_commit_and_restart(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.put("s", into=REPORT)
        for update in ("INSERT DATA { :a a :P . :b a :P ; :name 'b' }", "DELETE DATA { :b :name 'b' }"):
            server.update(update)
            server.check_report("s")
        assert server.count("s") == 2
        with pytest.raises(ConflictError, match="alone changes it"):
            server.update(f"INSERT DATA {{ GRAPH <{REPORT}> {{ :a :b :c }} }}")
    with served(tmp_path) as server:
        assert server.count("s") == 2
        server.update("DELETE WHERE { ?x a :P }")
        server.check_report("s")
        server.shapes.delete("s")
        assert not server.store.reader.graph_exists(NamedNode(REPORT))


def test_inferred_triples_are_checked_where_data_names_their_graph() -> None:
    with served() as server:
        server.rules.put(
            "r",
            {
                "into": "http://e/inferred",
                "rules": ["PREFIX : <http://e/> CONSTRUCT { ?x a :P } WHERE { ?x :in ?y }"],
            },
        ).run()
        server.put("s", mode="reject", data=["default", "http://e/inferred"])
        with pytest.raises(ViolationError):
            server.update("INSERT DATA { :a :in :b }")
        assert server.store.reader.quad_count == 0
        server.update("INSERT DATA { :a :in :b ; :name 'a' }")
        assert server.count("s") == 0
        with pytest.raises(ConflictError, match="in use by the shapes s"):
            server.rules.delete("r")


def test_a_budget_refuses_the_commit_or_fails_the_shapes(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.put("s", mode="reject", max_results=0)
        server.put("w", into=REPORT, max_results=1)
        with pytest.raises(ValidationStoppedError):
            server.update("INSERT DATA { :a a :P }")
        server.shapes.delete("s")
        server.update("INSERT DATA { :a a :P . :b a :P }")
        assert server.shapes.reports.describe("w")["state"] == "failed"
        assert not server.store.reader.quads_for_pattern(graph=NamedNode(REPORT))
    with served(tmp_path) as server:
        assert server.shapes.reports.describe("w")["state"] == "failed"
        server.put("w", into=REPORT, max_results=10)
        server.check_report("w")
        with pytest.raises(ValidationStoppedError):
            server.put("r", mode="reject", max_results=1)
        assert [each["name"] for each in server.shapes.reports.describe_all()] == ["w"]


def test_a_triple_that_makes_the_focus_node_a_node_of_the_graph_changes_paths_of_length_zero() -> None:
    query = "PREFIX : <http://e/> SELECT $this ?value WHERE { ?value :p?/:q? $this }"
    with served() as server:
        server.put("s", f':S sh:targetNode :n ; sh:sparql [ sh:select """{query}""" ] .', mode="warn")
        assert server.count("s") == 0
        assert server.update("INSERT DATA { :n :other 1 }") == 1
        server.update("DELETE DATA { :n :other 1 }")
        assert server.count("s") == 0


def test_a_refusal_says_how_many_violations_its_report_has() -> None:
    with served() as server:
        server.put("s", mode="reject")
        for count, listed in ((1_000, "all violations"), (1_001, "the first 1,000 violations")):
            with pytest.raises(ViolationError) as refused:
                server.update(f"INSERT DATA {{ {' . '.join(f':n{each} a :P' for each in range(count))} }}")
            assert refused.value.details["results"] == count
            assert refused.value.details["report"].count("sh:focusNode") == min(count, 1_000)
            assert listed in str(refused.value.hint)


@pytest.mark.parametrize("step", ["bulk-staged", "after-bulk", "before-log", "after-log", "after-apply"])
def test_readers_get_results_of_their_version_while_a_write_is_applied(step: str) -> None:
    waits, goes_on = threading.Event(), threading.Event()

    def reached(name: str) -> None:
        if name == step and armed:
            waits.set()
            assert goes_on.wait(30)

    armed = False
    with served(reached=reached) as server:
        server.update("INSERT DATA { :a a :P }")
        server.put("s")
        before = server.store.reader.version
        armed = True
        person = parse(PREFIXES + ":b a :P .", format=RdfFormat.TURTLE)
        quads = [Quad(*quad.triple) for quad in person]
        loading = "bulk" in step
        write = (
            server.store.writer.bulk_extend
            if loading
            else lambda quads: server.update("INSERT DATA { :b a :P }")
        )
        writer = threading.Thread(target=write, args=(quads,))
        writer.start()
        assert waits.wait(30)
        found: list[tuple[int, int]] = []

        def read() -> None:
            report = server.shapes.reports.report("s", 10)
            assert server.shapes.reports.describe("s")["results"] >= report.count
            found.append((report.version, report.count))

        reader = threading.Thread(target=read)
        reader.start()
        visible = step == "after-apply"
        reader.join(0.2 if visible else 30)
        assert found == ([] if visible else [(before, 1)])
        goes_on.set()
        for thread in (writer, reader):
            thread.join(30)
        assert found[0] == ((before + 1, 2) if visible else (before, 1))
        report = server.shapes.reports.report("s", 10)
        assert (report.version, report.count) == (before + 1, 2)
