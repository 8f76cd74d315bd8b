"""A naive model of a store with shapes: each step validates everything again.

The model holds the quads that clients wrote, the definitions of the shapes, and the triples that one rule
set infers. It says of each write whether it is refused, and how many violations it adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse

from quadrill.continuous.rules.rule import parse_rules
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.data_graph import DataGraph
from quadrill.continuous.shapes.definition import ShapesDefinition
from quadrill.continuous.shapes.kept_results import KeptResults
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.continuous.shapes.report_graph import report_quads
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.validation import validate
from quadrill.continuous.shapes.vocabulary import VIOLATION

from ..rules.oracle import naive_fixpoint
from .running import facts_of

INFERRED = NamedNode("http://example.org/inferred")
RULE = """PREFIX : <http://example.org/>
CONSTRUCT { ?x a :B . ?y :q ?x } WHERE { ?x :p ?y . FILTER(isIRI(?y)) }"""


class RefusedError(Exception):
    """A write is refused; the arguments are the codes of the errors, the first of which is reported."""


@dataclass(frozen=True)
class State:
    """One version of the store.

    Attributes:
        written: the quads that clients wrote.
        shapes: the definitions by name, in an order in which each reads reports of earlier ones only.
        failed: the names of the shapes that are over their budget.
        rules: True if the rule set is registered.
        results: the results of each of the shapes that have not failed.
        derived: inferred quads, and the quads of the reports.
        violations: number of violations that the last write has added to shapes with mode warn.
    """

    written: frozenset[Quad] = frozenset()
    shapes: Mapping[str, ShapesDefinition] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    rules: bool = False
    results: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)
    derived: frozenset[Quad] = frozenset()
    violations: int = 0

    @property
    def quads(self) -> frozenset[Quad]:
        """All quads."""
        return self.written | self.derived

    def after(self, **changes: object) -> State:
        """Return the state after a write that changes attributes.

        Raises:
            RefusedError: shapes with mode reject refuse the write.
        """
        new = replace(self, **changes)  # type: ignore[arg-type]
        if new.written == self.written and new.shapes == self.shapes and new.rules == self.rules:
            return replace(new, violations=0)
        derived = new._inferred()
        holding = {each.graph for each in new.shapes.values()}
        owned = new._owned()
        failed, violations, refusals = set(new.failed), 0, set[str]()
        results: dict[str, tuple[Result, ...]] = {}
        for name, definition in new.shapes.items():
            if name in failed:
                continue
            without = owned | holding
            found = tuple(complete(definition, _data(definition, new.written | derived, without)))
            if len(found) > definition.max_results:
                if definition.mode == "reject":
                    refusals.add("shapes-budget")
                failed.add(name)
                continue
            if new.shapes[name] is self.shapes.get(name):
                # What changes because graphs join or leave the data is not added by the write.
                before = complete(definition, _data(definition, self.quads, without | self._owned()))
                added = sum((_violations(found) - _violations(before)).values())
                if added and definition.mode == "reject":
                    refusals.add("shacl-violation")
                violations += added if definition.mode == "warn" else 0
            results[name] = found
            if definition.into is not None:
                kept = KeptResults()
                kept.apply({(0, NamedNode("urn:all")): found})
                derived |= report_quads(kept, definition.into)
        if refusals:
            raise RefusedError(*sorted(refusals))
        return replace(
            new, failed=frozenset(failed), results=results, derived=frozenset(derived), violations=violations
        )

    def _owned(self) -> set[object]:
        return {*([INFERRED] if self.rules else []), *(each.into for each in self.shapes.values())}

    def _inferred(self) -> set[Quad]:
        if not self.rules:
            return set()
        owned = {each.into for each in self.shapes.values()}
        read = [quad for quad in self.written if quad.graph_name not in owned]
        triples = naive_fixpoint(parse_rules([RULE], base_iri="http://example.org/"), read)
        return {Quad(*triple, INFERRED) for triple in triples}

    def updated(self, text: str) -> frozenset[Quad]:
        """Return the quads that clients wrote after an update, which reads and changes those only."""
        store = Store()
        store.extend(self.written)
        store.update(text)
        return frozenset(store)


def _data(definition: ShapesDefinition, quads: Iterable[Quad], without: set[object]) -> list[Quad]:
    """Return the quads that shapes check; ``without`` are graphs that are no data unless they are named."""
    named = definition.data
    if named is not None:
        return [quad for quad in quads if quad.graph_name in named]
    return [quad for quad in quads if quad.graph_name not in without]


def complete(definition: ShapesDefinition, data: Iterable[Quad]) -> list[Result]:
    """Return all results of a data graph; the validation reads sets of triples, and knows no store."""
    terms = RuleTerms("http://example.org/")
    shapes = read_shapes(parse(definition.text, RdfFormat.N_TRIPLES), terms)
    triples = {quad.triple for quad in data}
    return validate(shapes, DataGraph(facts_of(triples, terms), terms))


def _violations(results: Iterable[Result]) -> Counter[Result]:
    return Counter(each for each in results if each.severity == VIOLATION)


def with_messages(results: Iterable[Result]) -> Counter[tuple[Result, object]]:
    """Return results with their messages, as a multiset."""
    return Counter((each, each.messages) for each in results)
