"""Runs a scenario again and again, kills it at another step each time, and checks the shapes after a restart.

A step is a point of `StoreOptions.reached`, or the time before or after a write of a record of the registry.
Each attempt runs in a copy of this process, which itself opens no store. The arguments are the folder, the
scenario, and the distance between two steps at which the scenario is killed. The process prints the number
of steps. A test starts this module as a process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.changes.owners import derived_graphs
from quadrill.store.errors import ReportedError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.registry.tables import ShapesRecords
from tests.continuous.rules.crash_child import attempt

from .naive_model import complete, with_messages
from .test_feeds import stored
from .test_service import Served

NAMED = ":S sh:targetClass :P ; sh:property [ sh:path :name ; sh:minCount 1 ] ."
SHORT = ":S sh:targetClass :P ; sh:property [ sh:path :name ; sh:maxLength 1 ] ."
OF_REPORTS = ":R sh:targetObjectsOf sh:focusNode ; sh:property [ sh:path [ sh:inversePath sh:focusNode ] ;"
OF_REPORTS += " sh:maxCount 1 ] . :T sh:targetClass sh:ValidationReport ; sh:path sh:result ; sh:maxCount 1 ."
FIRST, SECOND, THIRD = "http://e/first", "http://e/second", "http://e/third"
DATA = "INSERT DATA { :a a :P . :b a :P ; :name 'bob' . GRAPH :g { :c a :P ; :name 'carl', 'c' } }"


def commits(server: Served) -> None:
    server.put("one", into=FIRST)
    server.put("two", OF_REPORTS, into=SECOND, data=[FIRST])
    server.put("three", SHORT, mode="reject")
    waiting = [
        server.store.writer.enqueue_update(f"PREFIX : <http://e/> {text}")
        for text in ("INSERT DATA { :k a :P }", "INSERT DATA { :k :name 'kk' }", "CLEAR GRAPH :g", DATA)
    ]
    for finish in waiting:
        with suppress(ReportedError):
            finish()
    server.update("DELETE DATA { :k a :P } ; INSERT DATA { :m a :P ; :name 'm' }")
    server.store.committer.checkpoint()


def replaced(server: Served) -> None:
    server.update(DATA)
    server.put("one", into=FIRST)
    server.put("two", OF_REPORTS, into=SECOND, data=[FIRST], mode="reject")
    with suppress(ReportedError):  # the report of these shapes would violate the others
        server.put("one", SHORT, into=FIRST)
    server.shapes.delete("two")
    server.put("one", NAMED, into=THIRD)
    server.put("two", NAMED, into=SECOND, max_results=1)
    with suppress(ReportedError):
        server.put("one", NAMED, into=FIRST, max_results=0, mode="reject")
    server.put("one", NAMED, into=FIRST, max_results=0)


def removed(server: Served) -> None:
    server.update(DATA)
    server.put("one", into=FIRST)
    server.put("two", OF_REPORTS, into=SECOND, data=[FIRST])
    server.put("three", SHORT, into=THIRD, max_results=3)
    server.update("INSERT DATA { :x a :P ; :name 'xx', 'yy', 'zz' }")
    server.shapes.delete("two")
    server.shapes.delete("one")
    server.shapes.delete("three")


def steps(killed_at: int) -> StoreOptions:
    """Kill this process at a step; return the options of its store."""
    count = 0

    def step(_: str) -> None:
        nonlocal count
        if count == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            step("before a record")
            result = work(*arguments)
            step("after a record")
            return result

        return call

    ShapesRecords.put = around(ShapesRecords.put)  # type: ignore[method-assign]
    ShapesRecords.remove = around(ShapesRecords.remove)  # type: ignore[method-assign]
    return StoreOptions(durable=False, reached=step)


def check_all(server: Served) -> None:
    """Compare results and reports with complete validations, and owners of graphs with definitions."""
    store, graphs = server.store, set()
    for name, shapes in server.shapes.consequences.sets.items():
        record = server.shapes.reports.describe(name)
        into = shapes.definition.into
        graphs |= {into} - {None}
        if shapes.error is not None:
            assert record["state"] == "failed"
            assert into is None or not store.reader.size_of_graph(into.value)
            continue
        inputs = server.shapes.consequences.inputs(shapes, store.queue.owned)
        quads = [quad for quad in store.reader.quads_for_pattern() if quad.graph_name in inputs]
        found = server.shapes.reports.report(name, 1_000).results
        assert with_messages(found) == with_messages(complete(shapes.definition, quads)), name
        if into is not None:
            server.check_report(name)
    assert set(derived_graphs(store.queue.owned)) == graphs
    for each in (FIRST, SECOND, THIRD):
        assert NamedNode(each) in graphs or not store.reader.size_of_graph(each), each


def check(folder: Path) -> None:
    """Open the folder, check the shapes, and make further commits."""
    with stored(folder, StoreOptions(durable=False)) as server:
        check_all(server)
        with suppress(ReportedError):
            server.update("INSERT DATA { :last a :P }")
        check_all(server)
        for name in list(server.shapes.consequences.sets):
            with suppress(ReportedError):  # other shapes read its report
                server.shapes.delete(name)
        check_all(server)
        server.put("one", into=FIRST)
        check_all(server)


def main(folder: Path, scenario: str, stride: int) -> None:
    work = globals()[scenario]

    def run(data: Path, killed_at: int) -> None:
        data.mkdir(exist_ok=True)
        with stored(data, steps(killed_at)) as server:
            work(server)

    def restart(data: Path, killed_at: int) -> None:
        with stored(data, steps(killed_at)):
            pass

    number = 0
    while attempt(folder, number, partial(run, folder / "data", number), restart, check):
        number += stride
    print(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
