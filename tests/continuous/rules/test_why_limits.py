"""The search for derivations of a quad: its version, its time limit, and commits that go on meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.continuous.lifecycle import rule_why
from quadrill.continuous.rules.rule_set import RuleSet
from quadrill.store.errors import LimitError, StoreError

from .served import BASE, INTO, PREFIX, Served, definition, rule

BAD = Quad(NamedNode(f"{BASE}a"), NamedNode(f"{BASE}q"), NamedNode(f"{BASE}b"), NamedNode(INTO))


def served() -> Served:
    server = Served()
    server.rules.put("r", definition(rule("?x :q ?y", "?x :p ?y"))).run()
    server.store.writer.update(f"{PREFIX} INSERT DATA {{ :a :p :b }}")
    return server


def test_commits_during_a_search_begin_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = served()
    store, search, calls = server.store, RuleSet.why, 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        found = search(*arguments)
        if calls < 4:  # the fourth search delays commits, so that it reads one version
            store.writer.update(f"{PREFIX} INSERT DATA {{ :c{calls} :p :b }}")
        else:
            with pytest.raises(StoreError):
                store.writer.update(f"{PREFIX} INSERT DATA {{ :late :p :b }}")
        return found

    monkeypatch.setattr(RuleSet, "why", interrupted)
    before = store.reader.version
    found = server.rules.why(BAD)
    assert (calls, found["version"]) == (4, before + 3)
    assert [each["set"] for each in found["derivations"]] == ["r"]


@pytest.mark.parametrize("name", ["_MOST_MS", "_MOST_DELAY_MS"])
def test_a_search_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    server = served()
    monkeypatch.setattr(rule_why, name, -1)
    if name == "_MOST_DELAY_MS":
        monkeypatch.setattr(type(server.store.reader), "read_at_once", lambda *arguments: None)
    with pytest.raises(LimitError) as refused:
        server.rules.why(BAD)
    assert refused.value.code == "query-timeout"
