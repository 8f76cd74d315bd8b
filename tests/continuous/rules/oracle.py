"""The naive fixpoint of a rule set over one version of a dataset, computed by Oxigraph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyoxigraph import DefaultGraph, Quad, QueryTriples, Store, Triple

from quadrill.continuous.rules.rule import Rule
from quadrill.continuous.rules.strata import strata


def naive_fixpoint(rules: Sequence[Rule], quads: Iterable[Quad]) -> set[Triple]:
    """Return the triples that the rules derive from the union of all graphs of ``quads``."""
    store = Store()
    for quad in quads:
        store.add(quad)
        store.add(Quad(quad.subject, quad.predicate, quad.object, DefaultGraph()))
    derived: set[Triple] = set()
    for stratum in strata(rules):
        new = True
        while new:
            found: set[Triple] = set()
            for number in stratum:
                result = store.query(rules[number].text)
                assert isinstance(result, QueryTriples)
                found.update(result)
            new = bool(found - derived)
            derived |= found
            store.extend(Quad(*triple) for triple in found)
    return derived
