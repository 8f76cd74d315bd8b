"""Budgets of rule sets, and logs that cannot be written: each commit is applied whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.continuous.lifecycle import rule_service
from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.store.errors import ReportedError, StoreUnwritableError

from .served import BASE, INTO, PREFIX, Served, definition, rule

SECOND = f"{BASE}second"
BACK = rule("?y :r ?x", "?x :p ?y")
PAIRS = rule("?x :r ?y", "?x :p ?a . ?y :p ?b")
"""Infers the square of the number of subjects."""


def insert(count: int, name: str = "n") -> str:
    """Return an update that inserts one triple for each of ``count`` subjects."""
    return "INSERT DATA {" + " . ".join(f":{name}{number} :p :o" for number in range(count)) + "}"


def fail_to_log(patch: pytest.MonkeyPatch, served: Served) -> None:
    """Make each later commit fail, because its record cannot be written to the log."""

    def append(*_: object) -> None:
        raise StoreUnwritableError("no space")

    patch.setattr(served.store.log, "append", append)


def state(served: Served, name: str = "one") -> tuple[str, str | None]:
    """Return the state of a set, which must be the same in the registry and in the service."""
    record = served.registry.rule_sets.get(name)
    assert record is not None
    described = served.rules.describe(name)
    assert (record.state, record.error) == (described["state"], described["error"])
    assert record.following is None
    return record.state, record.error


def reopened(served: Served, folder: Path) -> Served:
    served.close()
    return Served(folder)


def test_a_commit_over_max_inferred_is_refused_and_others_of_its_group_are_not(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("one", definition(PAIRS, max_inferred=4))
        enqueue = served.store.writer.enqueue_update
        first = enqueue(PREFIX + insert(1))
        second = enqueue(PREFIX + insert(3, "m"))
        third = enqueue(PREFIX + insert(1, "k"))
        version = first().version
        with pytest.raises(RuleBudgetError) as error:
            second()
        assert error.value.code == "rule-budget"
        assert third().version == version + 1
        assert len(served.inferred()) == 4
        assert not served.store.reader.quads_for_pattern(NamedNode(f"{BASE}m0"))
        served.check()
        assert state(served) == ("ready", None)


def test_inferred_triples_of_a_whole_group_count(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("one", definition(BACK, max_inferred=3))
        waiting = [
            served.store.writer.enqueue_update(f"{PREFIX} INSERT DATA {{ :a{n} :p :b }}") for n in "12345"
        ]
        refused = 0
        for finish in waiting:
            try:
                finish()
            except RuleBudgetError:
                refused += 1
        assert refused == 2
        assert len(served.inferred()) == 3
        served.check()


def test_a_commit_over_max_time_is_refused(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("one", definition(PAIRS, max_time="20ms"))
        with pytest.raises(RuleBudgetError, match="max_time"):
            served.update(insert(400))
        assert served.store.reader.quad_count == 0
        served.update(insert(2))
        served.check()


@pytest.mark.parametrize("budget", [{"max_inferred": 20}, {"max_time": "20ms"}])
def test_a_suspended_set_is_empty_in_the_version_of_the_commit_and_after_a_restart(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    members = definition(PAIRS, on_budget="suspend", **budget)
    reader = definition(rule("?x :seen ?y", "?x :r ?y"), into=SECOND, **{"from": [INTO]})
    served = Served(tmp_path)
    served.put("one", members)
    served.put("two", reader)
    served.update(insert(3))
    assert len(served.inferred(SECOND)) == 9
    before = served.store.reader.version
    served.update(insert(400, "m"))
    (commit,) = served.store.commits_after(before)
    assert len(commit.removed) == 18
    assert state(served)[0] == "suspended"
    served.check(empty=["one", "two"])
    served.update("DELETE WHERE { :n0 ?p ?o }")
    served.check(empty=["one", "two"])
    served = reopened(served, tmp_path)
    assert state(served)[0] == "suspended"
    assert served.rules.describe("one")["error"]
    served.update("DELETE WHERE { ?x :p ?o } ;" + insert(2))
    served.check(empty=["one", "two"])
    put = served.rules.put("one", members)
    assert (put.created, put.changed) == (False, True)
    put.run()
    assert state(served) == ("ready", None)
    assert len(served.inferred(SECOND)) == 4
    served.check()
    served.close()


def test_a_put_over_max_inferred(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.update(insert(5))
        version = served.store.reader.version
        with pytest.raises(RuleBudgetError):
            served.put("one", definition(PAIRS, max_inferred=24))
        assert served.rules.names() == served.registry.rule_sets.all() == []
        assert served.store.queue.owned == {}
        assert served.store.reader.version == version
        served.put("one", definition(PAIRS, max_inferred=24, on_budget="suspend"))
        assert state(served)[0] == "suspended"
        served.check(empty=["one"])
        # A refused PUT leaves the set as it was: suspended, or ready with its rules.
        with pytest.raises(RuleBudgetError):
            served.put("one", definition(PAIRS, max_inferred=3, into=SECOND))
        assert state(served)[0] == "suspended"
        served.put("one", definition(BACK))
        with pytest.raises(RuleBudgetError):
            served.put("one", definition(PAIRS, max_inferred=3, into=SECOND))
        assert state(served) == ("ready", None)
        served.update(insert(1, "m"))
        served.check()
        assert list(served.store.queue.owned) == [NamedNode(INTO)]


def test_a_request_that_another_set_refuses_suspends_nothing(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("one", definition(PAIRS, max_inferred=4, on_budget="suspend"))
        served.put("two", definition(BACK, max_inferred=4, into=SECOND))
        served.update(insert(1))
        with pytest.raises(RuleBudgetError, match="rule set two"):
            served.update(insert(8, "m"))
        assert state(served) == ("ready", None)
        served.update(insert(1, "k"))
        assert len(served.inferred()) == 4
        served.check()


def test_a_suspension_whose_commit_cannot_be_logged_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tmp_path)
    served.put("one", definition(PAIRS, max_inferred=4, on_budget="suspend"))
    served.update(insert(1))
    with monkeypatch.context() as patch:
        fail_to_log(patch, served)
        waiting = [served.store.writer.enqueue_update(PREFIX + insert(n, f"m{n}")) for n in (3, 1)]
        for finish in waiting:
            with pytest.raises(StoreUnwritableError):
                finish()
    assert state(served) == ("ready", None)
    served.update(insert(1, "k"))
    assert len(served.inferred()) == 4
    served.check()
    served = reopened(served, tmp_path)
    assert state(served) == ("ready", None)
    served.check()
    served.close()


@pytest.mark.parametrize("old", [None, INTO, SECOND])
def test_a_put_whose_commit_cannot_be_logged_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str | None
) -> None:
    served = Served(tmp_path)
    if old is not None:
        served.put("one", definition(BACK, into=old))
    served.update(insert(3))
    owned = dict(served.store.queue.owned)
    for name in ("append", "put"):
        with monkeypatch.context() as patch:
            if name == "append":
                fail_to_log(patch, served)
            else:
                patch.setattr(served.registry.rule_sets, "put", _fail)
            with pytest.raises(ReportedError):
                served.put("one", definition(PAIRS))
        assert dict(served.store.queue.owned) == owned
        assert served.rules.names() == ([] if old is None else ["one"])
        served.update(insert(1, name))
        served.check()
    served = reopened(served, tmp_path)
    served.check()
    served.put("one", definition(PAIRS))
    served.check()
    assert len(served.inferred()) == 25
    served.close()


def _fail(*_: object) -> None:
    raise StoreUnwritableError("no space")


def test_a_delete_whose_commit_cannot_be_logged_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tmp_path)
    served.put("one", definition(PAIRS))
    served.update(insert(3))
    with monkeypatch.context() as patch:
        fail_to_log(patch, served)
        with pytest.raises(StoreUnwritableError):
            served.rules.delete("one")
    assert state(served) == ("ready", None)
    served = reopened(served, tmp_path)
    assert len(served.inferred()) == 9
    served.update(insert(1, "m"))
    served.check()
    served.rules.delete("one")
    assert served.store.reader.graph_names() == []
    assert served.store.queue.owned == {}
    served.close()


def test_commits_that_are_logged_and_not_applied_keep_sets_and_graphs_consistent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PUT, a suspension and a DELETE whose commit is applied before the next write."""
    from quadrill.store.quads import committer

    served = Served(tmp_path)
    served.update(insert(1))

    def unapplied(work: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(committer, "apply_change", _full)
            with pytest.raises(committer.ApplyError):
                work()

    unapplied(lambda: served.put("one", definition(PAIRS, max_inferred=4, on_budget="suspend")))
    assert state(served)[0] == "ready"
    served.update(insert(1, "m"))
    assert len(served.inferred()) == 4
    served.check()
    unapplied(lambda: served.update(insert(1, "k")))
    assert state(served)[0] == "suspended"
    served.update(insert(1, "l"))
    served.check(empty=["one"])
    served.put("one", definition(BACK))
    unapplied(lambda: served.rules.delete("one"))
    assert served.rules.names() == served.registry.rule_sets.all() == []
    served.update(insert(1, "j"))
    assert served.store.reader.graph_names() == []
    assert served.store.queue.owned == {}
    served = reopened(served, tmp_path)
    assert served.rules.names() == []
    served.close()


def _full(*_: object) -> None:
    raise OSError("no space")


def test_a_set_that_an_older_version_cannot_load_keeps_its_graph_until_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tmp_path)
    served.put("one", definition(BACK))
    served.update(insert(3))
    with monkeypatch.context() as patch:
        patch.setattr(rule_service, "_parsed", _refuse)
        served = reopened(served, tmp_path)
    assert served.rules.describe("one")["state"] == "failed"
    with pytest.raises(ReportedError, match="rule set one"):
        served.update("CLEAR GRAPH :into")
    served.rules.delete("one")
    assert served.rules.names() == []
    assert served.store.reader.graph_names() == []
    served.put("one", definition(BACK))
    assert served.rules.describe("one")["state"] == "ready"
    served.close()


def _refuse(*_: object) -> None:
    raise ReportedError("not known to this version")
