"""The graph that holds the report of shapes: its quads, and how changes of results change them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from quadrill.store.changes.pending import PendingChanges
from quadrill.store.terms import in_store_form, term_text

from ..algebra.nodes import Term
from .kept_results import KeptResults, ResultChange
from .paths_in_rdf import Statement, path_text
from .report import result_triples
from .result import Result
from .vocabulary import BOOLEAN, TYPE, sh

_NAME_DIGITS = 40


def result_name(result: Result, into: NamedNode) -> NamedNode:
    """Return the IRI of a result in the report ``into``; equal results get equal IRIs."""
    parts = (
        term_text(result.focus),
        "" if result.path is None else path_text(result.path),
        "" if result.value is None else term_text(result.value),
        term_text(result.shape),
        result.component.value,
        "" if result.constraint is None else term_text(result.constraint),
        result.severity.value,
    )
    return NamedNode(f"{into.value}#result-{sha256(chr(0).join(parts).encode()).hexdigest()[:_NAME_DIGITS]}")


def write_changes(
    pending: PendingChanges,
    into: NamedNode,
    kept: KeptResults,
    after: KeptResults,
    change: ResultChange,
    shapes: int,
) -> None:
    """Change the graph of a report from the results ``kept`` to the results ``after`` a change.

    ``shapes`` is the number of shapes with targets.
    """
    # Several focus nodes of targets can give equal results, because the results of a nested property shape
    # have the value as focus node. Their quads stay until the last of these results is gone.
    focuses = {result.focus for key in change for each in (kept, after) for result in each.of(key)}
    keys = {(number, focus) for focus in focuses for number in range(shapes)} | set(change)
    for focus in focuses:
        keys |= after.keys_nested(focus)
    old, new = (
        _quads((result for key in keys for result in each.of(key)), into, conforms=not each.count)
        for each in (kept, after)
    )
    for quad in old - new:
        pending.remove(quad)
    for quad in new - old:
        pending.add(quad)


def report_quads(kept: KeptResults, into: NamedNode) -> set[Quad]:
    """Return the quads of the report that consists of the results ``kept``."""
    return _quads(kept.results(), into, conforms=not kept.count)


def _quads(results: Iterable[Result], into: NamedNode, *, conforms: bool) -> set[Quad]:
    """Return the quads of the report ``into`` about some results, and its value of sh:conforms."""
    truth = Literal("true" if conforms else "false", datatype=BOOLEAN)
    found: list[Statement] = [(into, TYPE, sh("ValidationReport")), (into, sh("conforms"), truth)]
    for result in {(each, each.messages): each for each in results}.values():
        name = result_name(result, into)
        found.append((into, sh("result"), name))
        found += _with_named_paths(list(result_triples(result, name)), name)
    return set(in_store_form(Quad(*triple, into) for triple in found))


def _with_named_paths(triples: list[Statement], name: NamedNode) -> list[Statement]:
    """Return the triples of a result, with IRIs in place of the blank nodes that describe its path.

    Equal results therefore have equal quads, whether a report was computed as a whole or updated.
    """
    described = dict.fromkeys(s for s, _, _ in triples if isinstance(s, BlankNode))
    names: dict[Term, NamedNode] = {
        node: NamedNode(f"{name.value}/path/{number}") for number, node in enumerate(described)
    }
    if not names:
        return triples
    return [(names.get(s, s), p, names.get(o, o)) for s, p, o in triples]
