"""Rule sets over a real store, and the check that each graph has the naive fixpoint of its rule set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.rules.definition import RuleSetDefinition, read_definition
from quadrill.continuous.rules.rule import Rule, parse_rules
from quadrill.store.changes.commit import GraphName
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

from .oracle import naive_fixpoint

BASE = "http://e/"
PREFIX = "PREFIX : <http://e/> "
INTO = f"{BASE}into"


def rule(head: str, body: str) -> str:
    """Return the text of a rule, given its head and body."""
    return f"{PREFIX}CONSTRUCT {{ {head} }} WHERE {{ {body} }}"


def definition(*rules: str | Rule, into: str = INTO, **members: Any) -> dict[str, Any]:
    """Return the members of a PUT of a rule set."""
    texts = [each if isinstance(each, str) else each.text for each in rules]
    return {"rules": texts, "into": into, **members}


class Served:
    """A store with a registry and rule sets; all in memory if there is no folder."""

    def __init__(self, folder: Path | None = None, options: StoreOptions | None = None) -> None:
        self.store = QuadStore.open(
            None if folder is None else folder / "data", options or StoreOptions(durable=False)
        )
        self.registry = Registry.open(
            "sqlite://" if folder is None else f"sqlite:///{folder / 'registry.sqlite'}"
        )
        self.rules = RuleService(self.store, self.registry, base_iri=BASE, clock_ms=lambda: 0)
        self.rules.start()

    def put(self, name: str, members: Mapping[str, Any]) -> None:
        self.rules.put(name, members).run()

    def update(self, text: str) -> int:
        return self.store.writer.update(PREFIX + text).version

    def inferred(self, into: str = INTO) -> set[str]:
        """Return the triples of a graph as texts with short names."""
        quads = self.store.reader.quads_for_pattern(graph=NamedNode(into))
        return {str(quad.triple).replace(f"<{BASE}", ":").replace(">", "") for quad in quads}

    def definitions(self) -> dict[str, RuleSetDefinition]:
        """Return the definitions of the sets whose state is ``ready``, by name."""
        found = {}
        for described in self.rules.describe_all():
            if described["state"] == "ready":
                record = self.registry.rule_sets.get(described["name"])
                assert record is not None
                found[record.name] = read_definition(record.definition)
        return found

    def check(self, *, empty: Iterable[str] = ()) -> None:
        """Check that each graph has the fixpoint of its set; the graphs of sets in ``empty`` are empty."""
        with self.store.reader.snapshot_read() as snapshot:
            quads = snapshot.quads_for_pattern()
        check_law(quads, self.definitions(), set(self.store.queue.owned), f"version {snapshot.version}")
        assert self.store.reader.quad_count == len(quads)
        for name in empty:
            assert self.rules.describe(name)["inferred"] == 0
            graph = self.rules.graph_of(name)
            assert not self.store.reader.quads_for_pattern(graph=graph)

    def close(self) -> None:
        self.store.close()
        self.registry.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def input_of(quads: Iterable[Quad], definition: RuleSetDefinition, owned: set[GraphName]) -> list[Quad]:
    """Return the quads of a set's input graphs."""
    sources = definition.sources
    if sources is not None:
        return [quad for quad in quads if quad.graph_name in sources]
    return [quad for quad in quads if quad.graph_name not in owned]


def check_law(
    quads: Iterable[Quad], definitions: Mapping[str, RuleSetDefinition], owned: set[GraphName], where: str
) -> None:
    """Check that the graph of each set has the fixpoint of its input graphs."""
    quads = list(quads)
    for name, each in definitions.items():
        rules = parse_rules(each.rules, base_iri=BASE)
        found = {quad.triple for quad in quads if quad.graph_name == each.into}
        expected = naive_fixpoint(rules, input_of(quads, each, owned | {each.into}))
        assert found == expected, (
            where,
            name,
            "\n".join(each.rules),
            "missing",
            sorted(map(str, expected - found)),
            "too many",
            sorted(map(str, found - expected)),
        )


class Replayed:
    """The dataset of each version, rebuilt from the change log."""

    def __init__(self, store: QuadStore) -> None:
        self.quads: set[Quad] = set()
        self.names: set[NamedNode | BlankNode] = set()
        self._store = store

    def versions(self) -> Iterable[int]:
        """Yield each version; the attribute ``quads`` then has the dataset of the version."""
        for commit in self._store.commits_after(0):
            assert not set(commit.added) & self.quads
            assert set(commit.removed) <= self.quads
            self.quads -= set(commit.removed)
            self.quads |= set(commit.added)
            self.names -= set(commit.dropped)
            self.names |= set(commit.created)
            yield commit.version

    def check_graphs(self) -> None:
        """Check that the store lists the graphs of the last version."""
        assert set(self._store.reader.graph_names()) == self.names
        assert set(self._store.reader.quads_for_pattern()) == self.quads
        assert all(
            isinstance(quad.graph_name, DefaultGraph) or quad.graph_name in self.names for quad in self.quads
        )
