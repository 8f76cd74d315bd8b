"""Texts that may call a function of an extension are found however they write its IRI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyoxigraph import NamedNode

from quadrill.app.evaluation.named import may_call_costly, may_call_function
from quadrill.continuous.algebra import scalar_functions

IRI = NamedNode("http://example.org/math#double")


@pytest.fixture(autouse=True)
def function() -> Iterator[None]:
    scalar_functions.register(IRI, lambda value: value, costly=True)
    yield
    scalar_functions.unregister(IRI)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (<http://example.org/math#double>(?x) AS ?y) {}",
        "PREFIX m: <http://example.org/math#> SELECT (m:double (?x) AS ?y) {}",
        "PREFIX m: <http://example.org/math#dou> SELECT * { FILTER m:ble(?x) }",
        "PREFIX m: <http://example.org/math#double> SELECT * { FILTER m:(?x) }",
        "PREFIX m: <http://example.org/math#> SELECT * { FILTER m:double # (\n (?x) }",
        "PREFIX m: <http://example.org/math#> SELECT * { FILTER m:do\\u0075ble(?x) }",
        "PREFIX m: <http://example.org/math#> SELECT * { FILTER(?x<m:double(1)&&?y>2) }",
        "BASE <http://example.org/> SELECT * { FILTER <math#double>(?x) }",
    ],
)
def test_a_call_is_found(text: str) -> None:
    assert may_call_function(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s <http://example.org/math#double> ?o }",
        "PREFIX m: <http://example.org/math#> SELECT * { ?s m:double ?o FILTER (?o > 1) }",
        "SELECT (COUNT(?x) AS ?n) { ?s ?p ?x }",
    ],
)
def test_a_text_without_a_call_is_left_alone(text: str) -> None:
    assert not may_call_function(text) and not may_call_costly(text)


def test_a_function_is_registered_once_and_under_an_iri_of_its_own() -> None:
    with pytest.raises(ValueError, match="registered already"):
        scalar_functions.register(IRI, lambda value: value)
    with pytest.raises(ValueError, match="reserved"):
        scalar_functions.register(NamedNode("urn:quadrill:mine"), lambda value: value)
