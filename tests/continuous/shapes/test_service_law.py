"""The law of registered shapes: at every version, results and reports are those of a complete validation.

Random writes change random graphs, alone and in groups; `naive_model` validates everything again after each
of them, and predicts refusals and the number of added violations.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, parse

from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.definition import ShapesDefinition, read_parameters, shapes_text
from quadrill.continuous.shapes.errors import ShapesInvalidError
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.store.changes.commit import Commit
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ConflictError, ReportedError
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.terms import in_store_form

from ...examples import ALL, examples
from .naive_model import INFERRED, RULE, RefusedError, State, with_messages
from .random_graphs import graphs, triples
from .running import PREFIXES, turtle
from .sparql_texts import constraint_of, texts
from .test_service import Served, served

EX = "http://example.org/"
GRAPHS = [DefaultGraph(), NamedNode(f"{EX}g1"), NamedNode(f"{EX}g2")]
HOLDING = NamedNode(f"{EX}g2")
NAMES = ["s0", "s1", "s2"]
UPDATES = [
    "DELETE WHERE { ?x :p ?y }",
    "DELETE { ?x :p ?y } INSERT { ?y :q ?x } WHERE { ?x :p ?y FILTER(isIRI(?y)) }",
    "DELETE { GRAPH :g1 { ?x ?p ?y } } INSERT { GRAPH :g2 { ?x ?p ?y } } WHERE { GRAPH :g1 { ?x ?p ?y } }",
    "DELETE { ?a rdfs:subClassOf ?b } INSERT { ?b rdfs:subClassOf ?a } WHERE { ?a rdfs:subClassOf ?b }",
    "INSERT DATA { :A rdfs:subClassOf :B . GRAPH :g1 { :B rdfs:subClassOf :C } }",
    "DELETE DATA { :A rdfs:subClassOf :B . :B rdfs:subClassOf :C } ; INSERT DATA { :n0 a :A . :n1 a :B }",
    "INSERT DATA { :A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :n0 a :A . :n1 a :A . :n2 a :B }",
    "DELETE { ?x a ?c } INSERT { ?x a :A } WHERE { ?x a ?c }",
    "CLEAR DEFAULT",
    "DROP SILENT GRAPH :g1",
    "COPY DEFAULT TO :g1",
    "CLEAR SILENT GRAPH :g1 ; INSERT { GRAPH :g1 { ?x ?p ?y } } WHERE { GRAPH :g2 { ?x ?p ?y } } ; "
    "DROP SILENT GRAPH :g2",
    "ADD DEFAULT TO :g2",
]
FAILING = [
    "INSERT DATA { :n0 :p :n1 } ; CREATE GRAPH :g9 ; CREATE GRAPH :g9",
    "DELETE WHERE { ?x :q ?y } ; INSERT DATA { GRAPH :report0 { :n0 :p :n1 } }",
]
"""Updates that fail; the second one only if the graph has an owner."""


@st.composite
def shapes_graphs(draw: st.DrawFn) -> str:
    """A shapes graph that can be read, as N-Triples."""
    text = draw(graphs()).shapes
    for number in range(draw(st.integers(0, 2))):
        constraint = draw(texts())
        text += constraint_of(constraint).replace(":S ", f":Q{number} ").replace(":Query", f":Query{number}")
        text += "\n"
    found = shapes_text(quad.triple for quad in turtle(text))
    try:
        read_shapes(parse(found, RdfFormat.N_TRIPLES), RuleTerms())
    except ShapesInvalidError:
        return draw(st.just(""))
    return found


@st.composite
def definitions(draw: st.DrawFn, number: int) -> ShapesDefinition:
    """The definition of the shapes with a number; they may read the reports of shapes with lower numbers."""
    members: dict[str, Any] = {"mode": draw(st.sampled_from(["watch", "warn", "warn", "reject"]))}
    if draw(st.booleans()):
        members["into"] = f"{EX}report{number}"
    if draw(st.booleans()):
        names = ["default", f"{EX}g1", f"{EX}g2", INFERRED.value]
        names += [f"{EX}report{each}" for each in range(number)] * 2
        members["data"] = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    if draw(st.integers(0, 5)) == 0:
        members["max_results"] = draw(st.integers(0, 12))
    text = draw(shapes_graphs())
    if number and draw(st.booleans()):
        text += _OF_REPORTS
    graph = HOLDING if draw(st.integers(0, 3)) == 0 else None
    return read_parameters(members, text, graph)


_OF_REPORTS = shapes_text(
    quad.triple
    for quad in turtle(
        ":Reports sh:targetClass sh:ValidationReport ; "
        "sh:property [ sh:path sh:conforms ; sh:hasValue true ] ; "
        "sh:property [ sh:path (sh:result sh:focusNode) ; sh:maxCount 1 ] ."
    )
)


@st.composite
def quads(draw: st.DrawFn, most: int) -> list[Quad]:
    """A few quads of the graphs of the test; some have blank nodes."""
    found = []
    for quad in turtle("\n".join(draw(triples())[-most:] if draw(st.booleans()) else draw(triples())[:most])):
        subject = BlankNode("n4") if quad.subject == NamedNode(f"{EX}n4") else quad.subject
        value = BlankNode("n3") if quad.object == NamedNode(f"{EX}n3") else quad.object
        found.append(Quad(subject, quad.predicate, value, draw(st.sampled_from(GRAPHS))))
    return list(in_store_form(found))


class Compared:
    """A store and its model; each step is made in both."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self.state = State()

    def _expect(self, **changes: object) -> tuple[str, ...]:
        """Change the model; return the codes of the errors of which one refuses the change."""
        try:
            self.state = self.state.after(**changes)
        except RefusedError as error:
            return error.args
        return ()

    def group(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        """Commit some writes in one group; some of them fail."""
        store = self.server.store
        expected: list[tuple[tuple[str, ...], int]] = []
        finish: list[Callable[[], Commit]] = []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(["quads"] * 4 + ["update"] * 4 + ["failing"]))
            if kind == "failing":
                text = draw(st.sampled_from(FAILING))
                owned = any(quad.graph_name == NamedNode(f"{EX}report0") for quad in self.state.derived)
                if text == FAILING[1] and not owned:
                    continue
                finish.append(store.writer.enqueue_update(PREFIXES + text))
                expected.append((("update-failed", "graph-owned"), 0))
                continue
            before = self.state
            if kind == "update":
                text = PREFIXES + draw(st.sampled_from(UPDATES))
                finish.append(store.writer.enqueue_update(text))
                written = before.updated(text)
            else:
                present = sorted(before.written, key=str)
                removed = draw(st.lists(st.sampled_from(present), max_size=4)) if present else []
                added = draw(quads(draw(st.sampled_from([0, 1, 2, 6]))))
                request = WriteRequest(_making(removed, added), "test")
                store.queue.enqueue(request)
                finish.append(lambda request=request: store.queue.finish(request))  # type: ignore[misc]
                written = frozenset((before.written - set(removed)) | set(added))
            refused = self._expect(written=written)
            expected.append((refused, 0 if refused else self.state.violations))
        for call, (codes, violations) in zip(finish, expected, strict=True):
            try:
                commit = call()
            except ReportedError as error:
                assert error.code in codes, error
            else:
                assert not codes, codes
                assert commit.violations == violations
        self.check()

    def put(self, name: str, definition: ShapesDefinition) -> None:
        """Register shapes."""
        if self.state.shapes.get(name) == definition and name not in self.state.failed:
            return
        before = self.state
        shapes = dict(sorted({**before.shapes, name: definition}.items()))
        refused = self._expect(shapes=shapes, failed=before.failed - {name})
        self._make(lambda: self.server.shapes.put(name, definition), refused, before)

    def delete(self, name: str) -> None:
        """Remove shapes."""
        before = self.state
        shapes = {other: each for other, each in before.shapes.items() if other != name}
        refused = self._expect(shapes=shapes, failed=before.failed - {name})
        self._make(lambda: self.server.shapes.delete(name), refused, before)

    def rules(self, on: bool) -> None:
        """Register or remove the rule set."""
        before = self.state
        refused = self._expect(rules=on)
        rules = self.server.rules
        members = {"rules": [RULE], "into": INFERRED.value}
        work = (lambda: rules.put("rules", members).run()) if on else lambda: rules.delete("rules")
        self._make(work, refused, before)

    def _make(self, work: Callable[[], object], refused: tuple[str, ...], before: State) -> None:
        try:
            work()
        except ConflictError as error:
            if error.code == "in-use":
                self.state = before
            else:
                assert error.code in refused, (refused, error)
        except ReportedError as error:
            assert error.code in refused, (refused, error)
        else:
            assert not refused
        self.check()

    def check(self) -> None:
        """Compare the store with the model."""
        shapes, state = self.server.shapes, self.state
        with self.server.store.reader.snapshot_read() as snapshot:
            found = set(snapshot.quads_for_pattern())
        assert set(shapes.consequences.sets) == set(state.shapes)
        for name in state.shapes:
            described = shapes.reports.describe(name)
            assert (described["state"] == "failed") == (name in state.failed), name
            if name not in state.failed:
                kept = shapes.reports.report(name, 1 << 30)
                assert with_messages(kept.results) == with_messages(state.results[name]), name
                assert kept.count == len(state.results[name])
        missing, more = state.quads - found, found - state.quads
        assert not missing and not more, (missing, more)


def _making(removed: list[Quad], added: list[Quad]) -> Callable[[PendingChanges], None]:
    def derive(pending: PendingChanges) -> None:
        for quad in removed:
            pending.remove(quad)
        for quad in added:
            pending.add(quad)

    return derive


@pytest.mark.timeout(3_600 if ALL else 900)
@settings(
    max_examples=examples(300),
    deadline=None,
    phases=[Phase.generate],  # an example takes a second, so that Hypothesis cannot make it smaller
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_at_every_version_results_are_those_of_a_complete_validation(data: st.DataObject) -> None:
    draw = data.draw
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder)) as server:
            compared = Compared(server)
            compared.group(draw)
            for _ in range(draw(st.integers(3, 8))):
                step = draw(st.sampled_from(["group"] * 6 + ["put"] * 3 + ["delete", "rules"]))
                if step == "group":
                    compared.group(draw)
                elif step == "put" or not compared.state.shapes:
                    number = draw(st.integers(0, len(NAMES) - 1))
                    compared.put(NAMES[number], draw(definitions(number)))
                elif step == "rules":
                    compared.rules(not compared.state.rules)
                else:
                    compared.delete(draw(st.sampled_from(sorted(compared.state.shapes))))
            state = compared.state
        with served(Path(folder)) as server:
            compared.server = server
            assert compared.state is state
            compared.check()
