"""Validation of documents for tests: what the program does, in one call."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad, RdfFormat, parse

from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.data_graph import DataGraph
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.validation import facts_of, validate

PREFIXES = """
PREFIX : <http://example.org/>
PREFIX sh: <http://www.w3.org/ns/shacl#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
"""


def turtle(text: str) -> list[Quad]:
    """Parse Turtle; ``:`` is http://example.org/, the other usual prefixes are declared."""
    return list(parse(PREFIXES + text, RdfFormat.TURTLE))


def results_of(shapes: Iterable[Quad], data: Iterable[Quad], *, in_store_form: bool = False) -> list[Result]:
    """Validate a data graph."""
    terms = RuleTerms(in_store_form=in_store_form)
    read = read_shapes(shapes, terms)
    return validate(read, DataGraph(facts_of(data, terms), terms))
