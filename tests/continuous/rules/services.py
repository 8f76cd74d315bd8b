"""Stores with rule sets for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, Quad, Triple

from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.rules.rule import Rule, parse_rules
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

from .oracle import naive_fixpoint

PREFIX = "PREFIX : <http://e/> "
INTO = NamedNode("http://e/into")


@contextmanager
def opened(
    folder: Path | None, registry: Registry, options: StoreOptions | None = None
) -> Iterator[tuple[QuadStore, RuleService]]:
    """Open a store, and start the rule sets of its registry."""
    options = options or StoreOptions(durable=False)
    with QuadStore.open(folder, options) as store:
        rules = RuleService(store, registry, base_iri="http://e/", clock_ms=options.clock_ms)
        rules.start()
        yield store, rules


def put(rules: RuleService, *texts: str, name: str = "r", into: NamedNode = INTO, **members: Any) -> None:
    """Put a rule set; ``texts`` are CONSTRUCT texts without the declaration of the prefix ``:``."""
    rules.put(name, {"rules": [PREFIX + text for text in texts], "into": into.value, **members}).run()


def inferred(store: QuadStore, into: NamedNode = INTO) -> set[Triple]:
    """Return the triples of a rule set."""
    return {quad.triple for quad in store.reader.quads_for_pattern(graph=into)}


def asserted(store: QuadStore) -> list[Quad]:
    """Return the quads outside of derived graphs."""
    return [quad for quad in store.reader.quads_for_pattern() if quad.graph_name not in store.queue.owned]


def expected(store: QuadStore, *texts: str) -> set[Triple]:
    """Return what the rules derive from the asserted quads of a store."""
    rules: Sequence[Rule] = parse_rules([PREFIX + text for text in texts], base_iri="http://e/")
    return naive_fixpoint(rules, asserted(store))
