"""Shapes without ``data`` check all graphs but derived ones and those with shapes, also after a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from quadrill.continuous.shapes.definition import read_parameters, shapes_text
from quadrill.continuous.shapes.errors import ShapesFailedError
from quadrill.continuous.shapes.kept_results import KeptResults
from quadrill.continuous.shapes.shape_set import ShapeSet
from quadrill.continuous.shapes.violations import ViolationError
from quadrill.store.changes.owners import Owner

from .test_service import PREFIXES, REPORT, Served, served

EMPTY = ":S sh:targetSubjectsOf :p ; sh:property [ sh:path :p ; sh:maxCount 0 ] ."
OF_REPORTS = ":R sh:targetClass sh:ValidationReport ; sh:property [ sh:path :none ; sh:minCount 1 ] ."
HOLDING = NamedNode("http://e/holding")


def put_graph(server: Served, name: str, shapes: str, **parameters: object) -> None:
    """Register shapes that were read from a graph."""
    triples = (quad.triple for quad in parse(PREFIXES + shapes, format=RdfFormat.TURTLE))
    server.shapes.put(name, read_parameters(parameters, shapes_text(triples), HOLDING))


def test_reports_are_no_data_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.put("first", OF_REPORTS)
        server.put("second", EMPTY, into=REPORT)
        server.update("INSERT DATA { :a :p 1 }")
        assert (server.count("first"), server.count("second")) == (0, 1)
    with served(tmp_path) as server:
        assert (server.count("first"), server.count("second")) == (0, 1)


def test_graphs_of_views_are_no_data_after_a_restart(tmp_path: Path) -> None:
    from quadrill.store.registry import QueryRecord

    with served(tmp_path) as server:
        server.put("s", EMPTY)
        server.update("INSERT DATA { GRAPH :view { :a :p 1 } }")
        assert server.count("s") == 1
        record = QueryRecord("q", "", "cqels", options={"into_graph": "http://e/view"})
        server.shapes._records.registry.queries.put(record)  # type: ignore[union-attr]
        server.store.queue.own(NamedNode("http://e/view"), Owner("view", "q"))
    with served(tmp_path) as server:
        assert server.count("s") == 0


def test_results_follow_when_a_graph_begins_or_ceases_to_hold_shapes(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.update("INSERT DATA { GRAPH :holding { :a :p 1 } }")
        server.put("all", EMPTY, mode="reject")
        assert server.count("all") == 1
        put_graph(server, "held", EMPTY, mode="reject")
        assert (server.count("all"), server.count("held")) == (0, 0)
        server.put("held", EMPTY, mode="reject")  # the graph joins the data; nothing refuses that
        assert (server.count("all"), server.count("held")) == (1, 1)
        put_graph(server, "held", EMPTY)
    with served(tmp_path) as server:
        assert (server.count("all"), server.count("held")) == (0, 0)
        server.shapes.delete("held")
        assert server.count("all") == 1
        server.update("INSERT DATA { :b :q 1 }")


def test_a_result_stays_in_the_graph_until_no_focus_node_gives_it(tmp_path: Path) -> None:
    nested = (
        ":S sh:targetClass :P ; sh:property [ sh:path :k ; sh:property [ sh:path :n ; sh:minCount 1 ] ] ."
    )
    with served(tmp_path) as server:
        server.put("s", nested, into=REPORT, data=["default"])
        server.update("INSERT DATA { :a a :P ; :k :x . :b a :P ; :k :x . :x a :P }")
        assert server.count("s") == 2
        server.check_report("s")
        server.update("DELETE DATA { :a :k :x }")
        assert server.count("s") == 1
        server.check_report("s")
    with served(tmp_path) as server:
        server.update("INSERT DATA { :a :k :x . :c a :P ; :k :x } ; DELETE DATA { :b :k :x }")
        server.update("DELETE DATA { :a :k :x }")
        assert server.count("s") == 1
        server.check_report("s")
        server.update("DELETE DATA { :c :k :x }")
        assert server.count("s") == 0
        server.check_report("s")


def test_a_put_follows_graphs_that_lose_their_owner_while_it_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, graph = Owner("view", "q"), NamedNode("http://e/view")
    with served() as server:
        server.store.queue.own(graph, view)
        added = [Quad(NamedNode("http://e/a"), NamedNode("http://e/p"), NamedNode("http://e/b"), graph)]
        server.store.writer.apply(add=added, owner=view)
        server.put("other", EMPTY)
        complete = ShapeSet.complete_snapshot

        def losing(shapes: ShapeSet, *arguments: Any) -> KeptResults:
            monkeypatch.setattr(ShapeSet, "complete_snapshot", complete)
            found = complete(shapes, *arguments)
            server.store.queue.disown(graph, view)
            server.update("INSERT DATA { :c :q :d }")
            return found

        monkeypatch.setattr(ShapeSet, "complete_snapshot", losing)
        server.put("late", EMPTY)
        assert (server.count("other"), server.count("late")) == (1, 1)


def test_a_put_with_a_new_report_graph_does_not_validate_other_shapes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served() as server:
        server.update("INSERT DATA { :a :p 1 }")
        server.put("one", EMPTY)
        monkeypatch.setattr(ShapeSet, "complete", None)
        server.put("two", EMPTY, into=REPORT)
        server.update("INSERT DATA { :b :p 1 }")
        assert (server.count("one"), server.count("two")) == (2, 2)


def test_failed_shapes_have_no_report_and_a_bulk_load_has_the_version_of_its_commit() -> None:
    with served() as server:
        server.put("s", EMPTY, max_results=1)
        quads = [
            Quad(NamedNode(f"http://e/n{number}"), NamedNode("http://e/p"), NamedNode("http://e/b"))
            for number in range(2)
        ]
        server.store.writer.bulk_extend(quads[:1])
        event = server.shapes.reports.feed("s").history.events[-1]
        assert '"version": 1' in event.data.replace('"version":1', '"version": 1')
        server.store.writer.bulk_extend(quads[1:])
        with pytest.raises(ShapesFailedError):
            server.shapes.reports.report("s", 10)


def test_shapes_that_move_their_report_do_not_see_the_former_one() -> None:
    reads_report = ":S sh:targetSubjectsOf sh:resultSeverity ; sh:nodeKind sh:Literal ."
    with served() as server:
        server.update("INSERT DATA { :a :p 1 }")
        server.put("s", EMPTY, into=REPORT)
        assert server.count("s") == 1
        server.put("s", reads_report, into="http://e/moved", data=[REPORT])
        assert server.count("s") == 0
        server.update("INSERT DATA { :b :p 1 }")
        assert server.count("s") == 0


def test_violations_of_triples_that_are_inferred_because_a_graph_lost_its_owner_block_no_commit() -> None:
    view, graph = Owner("view", "q"), NamedNode("http://e/view")
    text = "PREFIX : <http://e/> CONSTRUCT { ?x a :P } WHERE { ?x :in ?y }"
    with served() as server:
        server.store.queue.own(graph, view)
        added = [Quad(NamedNode("http://e/a"), NamedNode("http://e/in"), NamedNode("http://e/b"), graph)]
        server.store.writer.apply(add=added, owner=view)
        server.rules.put("r", {"rules": [text], "into": "http://e/inferred"}).run()
        for name, parameters in (("s", {}), ("t", {"max_results": 0})):
            server.put(name, mode="reject", data=["http://e/inferred"], **parameters)
        server.store.queue.disown(graph, view)
        until = time.monotonic() + 30
        while server.count("s") == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert server.count("s") == 1
        assert server.shapes.reports.describe("t")["state"] == "failed"
        server.update("INSERT DATA { :c :q :d }")
        with pytest.raises(ViolationError):
            server.update("INSERT DATA { :new :in :b }")
