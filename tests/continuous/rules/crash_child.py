"""Runs a scenario again and again, kills it at another step each time, and checks the data after a restart.

A step is a point of `StoreOptions.reached`, or the time before or after a write of a record of the registry.
Each attempt runs in a copy of this process, which itself opens no store. The arguments are the folder, the
scenario, and the distance between two steps at which the scenario is killed. The process prints the number
of steps. A test starts this module as a process.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, Quad

from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.store.changes.commit import graph_key
from quadrill.store.changes.owners import Owner
from quadrill.store.quads.options import StoreOptions
from quadrill.store.registry import QueryRecord
from tests.continuous.rules.served import BASE, INTO, PREFIX, Served, definition, rule

SECOND, THIRD = f"{BASE}second", f"{BASE}third"
BACK, CHAIN = rule("?y :r ?x", "?x :p ?y"), rule("?x :r ?z", "?x :p ?y . ?y :p ?z")
PAIRS = rule("?x :r ?y", "?x :p ?a . ?y :p ?b")
DATA = "INSERT DATA { :a :p :b . :b :p :c . GRAPH :g { :c :p :d } }"
READER = definition(rule("?x :seen ?y", "?x :r ?y"), into=THIRD, **{"from": ["default", INTO]})


def commits(served: Served) -> None:
    served.put("one", definition(BACK, CHAIN))
    served.put("two", READER)
    served.update(DATA)
    served.update("DELETE DATA { :b :p :c } ; INSERT DATA { GRAPH :g { :b :p :e } }")
    waiting = [
        served.store.writer.enqueue_update(f"{PREFIX}{text}")
        for text in ("INSERT DATA { :k :p :a }", "DROP GRAPH :g", "CLEAR GRAPH :into", "CLEAR DEFAULT")
    ]
    for finish in waiting:
        with suppress(Exception):
            finish()
    served.store.committer.checkpoint()


def replaced(served: Served) -> None:
    served.update(DATA)
    served.put("one", definition(BACK))
    served.put("two", READER)
    served.put("one", definition(CHAIN))
    served.rules.delete("two")
    served.put("one", definition(CHAIN, into=SECOND))
    with suppress(RuleBudgetError):
        served.put("one", definition(PAIRS, max_inferred=1))
    served.put("one", definition(BACK, into=INTO))


def removed(served: Served) -> None:
    served.update(DATA)
    served.put("one", definition(BACK))
    served.put("two", READER)
    served.rules.delete("two")
    served.rules.delete("one")


def suspended(served: Served) -> None:
    members = definition(PAIRS, max_inferred=4, on_budget="suspend")
    served.put("two", READER)
    served.put("one", members)
    served.update(DATA)
    served.update("CLEAR DEFAULT")
    served.put("one", members)
    served.update("CLEAR ALL")
    with suppress(RuleBudgetError):
        served.put("one", definition(PAIRS, max_inferred=4))
    with suppress(RuleBudgetError):
        served.update(DATA)
    served.update("INSERT DATA { :a :p :b . :b :p :c }")
    served.rules.delete("two")
    with suppress(RuleBudgetError):
        served.put("one", definition(PAIRS, max_inferred=1, into=SECOND))
    served.put("one", definition(PAIRS, max_inferred=1, into=SECOND, on_budget="suspend"))


def views(served: Served) -> None:
    graph, owner, queue = NamedNode(f"{BASE}view"), Owner("view", "seen"), served.store.queue
    served.update(DATA)
    served.put("one", definition(BACK))
    served.put("two", definition(rule("?x :in ?g", "GRAPH ?g { ?x :p ?y }"), into=SECOND))
    for number in range(2):
        served.registry.queries.add(QueryRecord("seen", "none", options={"into_graph": graph.value}))
        queue.own(graph, owner)
        added = Quad(NamedNode(f"{BASE}v{number}"), NamedNode(f"{BASE}p"), NamedNode(f"{BASE}w"), graph)
        served.store.writer.apply(add=[added], owner=owner)
        served.registry.queries.remove("seen")
        before = served.store.reader.version
        queue.disown(graph, owner)
        while served.store.reader.version == before:  # until a background commit
            time.sleep(0.001)
        served.update("DROP GRAPH :view" if number else "CLEAR GRAPH :view")


def steps(killed_at: int) -> tuple[StoreOptions, list[int]]:
    """Kill this process at a step; return the options of its store, and the number of steps so far."""
    count = [0]

    def step(_: str) -> None:
        if count[0] == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    from quadrill.store.registry.tables import ReflectedOwnerRecords, RuleSetRecords

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            step("before a record")
            result = work(*arguments)
            step("after a record")
            return result

        return call

    RuleSetRecords.put = around(RuleSetRecords.put)  # type: ignore[method-assign]
    RuleSetRecords.remove = around(RuleSetRecords.remove)  # type: ignore[method-assign]
    ReflectedOwnerRecords.put = around(ReflectedOwnerRecords.put)  # type: ignore[method-assign]
    ReflectedOwnerRecords.remove = around(ReflectedOwnerRecords.remove)  # type: ignore[method-assign]
    return StoreOptions(durable=False, reached=step), count


def in_copy(work: Callable[[], None]) -> int:
    """Run ``work`` in a copy of this process; return 0, or the negative number of the killing signal."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status


def check(folder: Path) -> None:
    """Open the folder, compare the graphs of its rule sets with the oracle, and make further commits."""
    with Served(folder) as served:
        served.check()
        names = {described["name"]: described for described in served.rules.describe_all()}
        graphs = {served.rules.graph_of(name).value for name in names}
        views = {record.options["into_graph"] for record in served.registry.queries.all()}
        assert {graph_key(graph) for graph in served.store.queue.owned} == graphs | (
            views if graphs else set()
        )
        for record in served.registry.rule_sets.all():
            assert record.state in ("ready", "suspended"), record
            assert record.following is None
            served.check(empty=[record.name] if record.state == "suspended" else [])
        for graph in {INTO, SECOND, THIRD} - graphs:
            assert not served.store.reader.size_of_graph(graph), graph
        with suppress(RuleBudgetError):
            served.update("INSERT DATA { :last :p :last }")
        served.check()
        served.put("one", definition(CHAIN))
        served.put("two", READER)
        served.check()


def main(folder: Path, scenario: str, stride: int) -> None:
    work = globals()[scenario]

    def run(data: Path, killed_at: int) -> None:
        options, _ = steps(killed_at)
        data.mkdir(exist_ok=True)
        served = Served(data, options)
        work(served)
        served.close()

    def restart(data: Path, killed_at: int) -> None:
        options, _ = steps(killed_at)
        Served(data, options).close()

    number = 0
    while attempt(folder, number, partial(run, folder / "data", number), restart):
        number += stride
    print(number)


def attempt(
    folder: Path,
    number: int,
    run: Callable[[], None],
    restart: Callable[[Path, int], None],
    check: Callable[[Path], None] = check,
) -> bool:
    """Kill the scenario at one step and check the folder; return False if the scenario ended before."""
    data, again = folder / "data", folder / "again"
    killed = in_copy(run)
    if number % 10 == 0:  # the restart is killed, too
        for step in range(2):
            shutil.copytree(data, again)
            in_copy(partial(restart, again, step))
            assert not in_copy(partial(check, again)), (number, step)
            shutil.rmtree(again)
    assert not in_copy(partial(check, data)), number
    shutil.rmtree(data)
    return bool(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
