"""The rule that chooses Spark for static parts with large scans and joins, and the store for all others."""

from __future__ import annotations

from collections.abc import Mapping

from quadrill.store.bulk.mirror import PredicateFacts

from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.columnar import EngineChoice
from ..algebra.extension_calls import is_extension_aggregate
from ..algebra.nodes import (
    Algebra,
    Bgp,
    Distinct,
    FunctionCall,
    Group,
    OrderBy,
    Path,
    Project,
    Service,
    Slice,
    TriplePattern,
    TripleTerm,
    Var,
)

NO_MIRROR = "there is no mirror"
_XSD = "http://www.w3.org/2001/XMLSchema#"
SCAN_ROWS = 10_000_000
"""Number of scanned triples above which Spark is chosen for a part without self-joins.

Measurements showed the store faster than Spark up to 3.3 million scanned triples; by extrapolation, it is
faster up to about 9 million (docs/bulk.md).
"""
JOIN_ROWS = 1_000_000
"""Number of triples above which Spark is chosen for a predicate that is joined with itself.

Spark's start-up time pays off between 0.5 and 1.8 million triples (docs/bulk.md).
"""


def choose(
    pattern: Algebra, predicates: Mapping[str, PredicateFacts] | None, wish: str | None = None
) -> EngineChoice:
    """Choose the engine, Spark or the store, for a static part.

    Args:
        pattern: the pattern of the part.
        predicates: the mirror's triple counts by predicate; None without a mirror.
        wish: the engine that the query asks for, ``oxigraph`` or ``spark``; overrides the rule if possible.
    """
    if wish == "oxigraph":
        return EngineChoice("oxigraph", "the query asks for it")
    if predicates is None:
        return EngineChoice("oxigraph", NO_MIRROR)
    if any(isinstance(node, Service) for node in all_nodes(pattern)):
        return EngineChoice("oxigraph", "it has a SERVICE")
    if wish == "spark":
        return EngineChoice("spark", "the query asks for it")
    patterns = [each for node in all_nodes(pattern) if isinstance(node, Bgp) for each in node.patterns]
    if any(isinstance(node, Path) for node in all_nodes(pattern)):
        return EngineChoice("oxigraph", "it has a property path")
    if any(not isinstance(each, Var) for triple in patterns for each in (triple.subject, triple.object)):
        return EngineChoice("oxigraph", "a constant subject or object makes it selective")
    rows = [_rows(each, predicates) for each in patterns]
    names = [each.predicate for each in patterns]
    largest = max(
        (_rows(each, predicates) for each in patterns if names.count(each.predicate) > 1), default=0
    )
    if largest > JOIN_ROWS:
        return EngineChoice("spark", f"joins a predicate of {largest:,} triples with itself")
    if sum(rows) > SCAN_ROWS:
        return EngineChoice("spark", f"scans {sum(rows):,} triples")
    return EngineChoice("oxigraph", f"scans {sum(rows):,} triples only")


def refused(pattern: Algebra) -> str | None:
    """Return the construct for which Spark is certain to refuse a pattern; None if none was found."""
    root = pattern
    while isinstance(root, (Distinct, Project)):
        root = root.input
    if isinstance(root, (OrderBy, Slice)):
        return "the order of a part's rows"
    for node in all_nodes(pattern):
        if isinstance(node, Service):
            return type(node).__name__.upper()
        if isinstance(node, Bgp) and any(
            isinstance(term, TripleTerm) for each in node.patterns for term in (each.subject, each.object)
        ):
            return "a triple term with variables"
        if isinstance(node, Group):
            for _, aggregate in node.aggregates:
                if is_extension_aggregate(aggregate.name):
                    return f"the aggregate {aggregate.name}"
        for expr in expressions(node):
            for each in sub_expressions(expr):
                if isinstance(each, FunctionCall) and not each.iri.value.startswith(_XSD):
                    return f"the function {each.iri}"
    return None


def _rows(pattern: TriplePattern, predicates: Mapping[str, PredicateFacts]) -> int:
    if isinstance(pattern.predicate, Var):
        return sum(facts.rows for facts in predicates.values())
    facts = predicates.get(pattern.predicate.value)
    return 0 if facts is None else facts.rows
