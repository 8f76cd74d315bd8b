"""The W3C SHACL test suite: validation reports of Core and SPARQL constraints.

A case gives two graphs and the expected report. Reports agree if their results agree as multisets, without
messages, and without the source constraint where the expected report does not name it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse

from quadrill.continuous.shapes.paths_in_rdf import path_text, read_path
from quadrill.continuous.shapes.reading.graph import ShapesGraph
from quadrill.continuous.shapes.result import Result
from quadrill.store.errors import ReportedError
from quadrill.store.terms import Term, store_form
from tests.continuous.shapes.running import results_of
from tests.w3c.expectations import expected_failures

DATA = Path(__file__).parent / "data" / "shacl"
BASE = "https://w3c.github.io/data-shapes/data-shapes-test-suite/tests/"
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
SHT = "http://www.w3.org/ns/shacl-test#"
SH = "http://www.w3.org/ns/shacl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
FAILURE = NamedNode(SHT + "Failure")


@dataclass(frozen=True)
class ShaclCase:
    """One test: the file that declares it, and its node there."""

    key: str
    file: Path
    node: Term


@cache
def quads(file: Path) -> list[Quad]:
    """The triples of a file; equal labels in two files are different blank nodes."""
    base = BASE + file.relative_to(DATA).as_posix()
    return list(parse(path=str(file), format=RdfFormat.TURTLE, base_iri=base, rename_blank_nodes=True))


def read_cases(file: Path) -> Iterator[ShaclCase]:
    graph = ShapesGraph(quads(file))
    for included in graph.objects_of(NamedNode(MF + "include")):
        assert isinstance(included, NamedNode)
        yield from read_cases(DATA / included.value.removeprefix(BASE))
    for head in graph.objects_of(NamedNode(MF + "entries")):
        for node in graph.members(head, NamedNode(MF + "entries"), head):
            assert isinstance(node, NamedNode)
            yield ShaclCase(f"shacl/{node.value.removeprefix(BASE)}", file, node)


CASES = list(read_cases(DATA / "manifest.ttl"))


def params() -> list[object]:
    failures = expected_failures()
    return [
        pytest.param(
            case,
            id=case.key,
            marks=[pytest.mark.xfail(strict=True, reason=failures[case.key])] if case.key in failures else [],
        )
        for case in CASES
    ]


def test_suite_is_whole() -> None:
    assert len({case.key for case in CASES}) == len(CASES) == 121


@pytest.mark.parametrize("case", params())
def test_report_is_the_expected_one(case: ShaclCase) -> None:
    check(case, in_store_form=False)


CHANGED = "shacl/core/property/datatype-ill-formed"
"""The case with an xsd:integer that is no xsd:byte; the store keeps an xsd:byte as such an xsd:integer."""


@pytest.mark.parametrize("case", [each for each in CASES if each.key != CHANGED], ids=lambda case: case.key)
def test_report_is_the_same_for_terms_as_the_store_keeps_them(case: ShaclCase) -> None:
    check(case, in_store_form=True)


def check(case: ShaclCase, *, in_store_form: bool) -> None:
    graph = ShapesGraph(quads(case.file))

    def one(node: Term, predicate: str) -> Term:
        (value,) = graph.objects(node, NamedNode(predicate))
        return value

    action, expected = one(case.node, MF + "action"), one(case.node, MF + "result")
    shapes, data = (one(action, SHT + name) for name in ("shapesGraph", "dataGraph"))
    assert isinstance(shapes, NamedNode) and isinstance(data, NamedNode)
    inputs = [quads(DATA / each.value.removeprefix(BASE)) for each in (shapes, data)]
    if expected == FAILURE:
        with pytest.raises(ReportedError):
            results_of(*inputs, in_store_form=in_store_form)
        return
    results = results_of(*inputs, in_store_form=in_store_form)
    assert one(expected, SH + "conforms") == Literal(not results)
    nodes = graph.objects(expected, NamedNode(SH + "result"))
    compared = any(graph.objects(node, NamedNode(SH + "sourceConstraint")) for node in nodes)
    wanted = Counter(_read(graph, each, stored=in_store_form) for each in nodes)
    assert Counter(_shown(each, compared) for each in results) == wanted


Shown = tuple[str | None, ...]


def _shown(result: Result, compared: bool) -> Shown:
    return (
        str(result.focus),
        None if result.path is None else path_text(result.path),
        None if result.value is None else str(result.value),
        str(result.shape),
        str(result.component),
        str(result.constraint) if compared and result.constraint is not None else None,
        str(result.severity),
    )


def _read(graph: ShapesGraph, node: Term, *, stored: bool) -> Shown:
    def value(name: str) -> str | None:
        values = graph.objects(node, NamedNode(SH + name))
        if stored and values and isinstance(values[0], Literal):
            return str(store_form(values[0]))
        return str(values[0]) if values else None

    paths = graph.objects(node, NamedNode(SH + "resultPath"))
    return (
        value("focusNode"),
        path_text(read_path(graph, node, paths[0])) if paths else None,
        value("value"),
        value("sourceShape"),
        value("sourceConstraintComponent"),
        value("sourceConstraint"),
        value("resultSeverity"),
    )
