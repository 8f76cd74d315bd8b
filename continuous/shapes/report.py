"""Validation reports: as triples of the SHACL vocabulary, as rows, and as the text that pySHACL prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.terms import Solution, Term

from .paths_in_rdf import Statement, path_text, write_path
from .result import Result
from .text_terms import ReportTerms
from .vocabulary import BOOLEAN, TYPE, VIOLATION, sh

COLUMNS = ("focusNode", "path", "value", "constraint", "shape", "severity", "message")
"""The columns of results as rows; ``constraint`` is the component, ``path`` a SPARQL path text."""


def report_triples(results: Iterable[Result], *, more: bool = False) -> Iterator[Statement]:
    """Yield the triples of an sh:ValidationReport (SHACL section 3.6).

    Args:
        results: the results; sh:conforms is true if there are none.
        more: True if there are results that the report leaves out, so that sh:conforms is false.
    """
    node = BlankNode()
    conforms = not more
    yield node, TYPE, sh("ValidationReport")
    for result in results:
        conforms = False
        named = BlankNode()
        yield node, sh("result"), named
        yield from result_triples(result, named)
    yield node, sh("conforms"), Literal("true" if conforms else "false", datatype=BOOLEAN)


def result_triples(result: Result, node: NamedNode | BlankNode) -> Iterator[Statement]:
    """Yield the triples of one sh:ValidationResult; ``node`` represents the result in the report."""
    yield node, TYPE, sh("ValidationResult")
    yield node, sh("focusNode"), result.focus
    description: list[Statement] = []
    if result.path is not None:
        path, description = write_path(result.path)
        yield node, sh("resultPath"), path
    if result.value is not None:
        yield node, sh("value"), result.value
    yield node, sh("sourceShape"), result.shape
    yield node, sh("sourceConstraintComponent"), result.component
    if result.constraint is not None:
        yield node, sh("sourceConstraint"), result.constraint
    yield node, sh("resultSeverity"), result.severity
    for message in result.messages:
        yield node, sh("resultMessage"), message
    yield from description


def result_row(result: Result) -> Solution:
    """Return a result as a row of `COLUMNS`: terms, or None for a missing path, value or message."""
    return (
        result.focus,
        None if result.path is None else Literal(path_text(result.path)),
        result.value,
        result.component,
        result.shape,
        result.severity,
        result.messages[0] if result.messages else None,
    )


def report_text(
    results: Sequence[Result],
    shapes: Iterable[tuple[Term, NamedNode, Term]] = (),
    prefixes: Mapping[str, str] | None = None,
) -> str:
    """Return a report as text, with the lines that pySHACL prints.

    Args:
        results: the results.
        shapes: the triples of the shapes graph; blank nodes of shapes are shown with their properties.
        prefixes: prefixes that abbreviate IRIs.
    """
    texts = ReportTerms(shapes, prefixes or {})
    head = f"Validation Report\nConforms: {not results}\n"
    if results:
        head += f"Results ({len(results)}):\n"
    return head + "".join(sorted(_result_text(result, texts) for result in results))


def _result_text(result: Result, texts: ReportTerms) -> str:
    kind = "Constraint Violation" if result.severity == VIOLATION else "Validation Result"
    name = result.component.value.replace("#", "/").rpartition("/")[2]
    lines = [
        f"{kind} in {name} ({result.component.value}):",
        f"\tSeverity: {texts.text(result.severity)}",
        f"\tSource Shape: {texts.text(result.shape)}",
        f"\tFocus Node: {texts.text(result.focus)}",
    ]
    if result.value is not None:
        lines.append(f"\tValue Node: {texts.text(result.value)}")
    if result.path is not None:
        node, triples = write_path(result.path)
        lines.append(f"\tResult Path: {texts.with_triples(triples).text(node)}")
    if result.constraint is not None:
        lines.append(f"\tSource Constraint: {texts.text(result.constraint)}")
    lines += [f"\tMessage: {message.value}" for message in result.messages]
    return "".join(f"{line}\n" for line in lines)
