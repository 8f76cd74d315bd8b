"""Rows of answers as values by variable, the same for every engine; whether two lots are equal."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

# Variables with the values of their terms, in the order of their names.
Row = tuple[tuple[str, str], ...]


def of_json(document: str | bytes) -> list[Row]:
    """The rows of a SPARQL result in JSON."""
    bindings = json.loads(document)["results"]["bindings"]
    return [tuple(sorted((name, term["value"]) for name, term in row.items())) for row in bindings]


def of_object(line: str) -> Row:
    """A row that is an object of values by variable."""
    return tuple(sorted(json.loads(line).items()))


_DEBUG = re.compile(r'Variable \{ name: "([^"]+)" \}: (?:NamedNode|Literal)\((.*?)\)(?=, Variable|\}$)')
_VALUE = re.compile(r'(?:iri|value|lexical|String|Typed).*?"((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"')


def of_debug(line: str) -> Row:
    """A row as Rust shows it when it is asked for its parts."""
    cells = []
    for name, term in _DEBUG.findall(line):
        found = _VALUE.search(term)
        assert found is not None, line
        cells.append((name, found[1] if found[1] is not None else found[2]))
    return tuple(sorted(cells))


def verdict(expected: Iterable[Row], found: Iterable[Row]) -> str:
    """``equal``, or how the rows differ as multisets."""
    right, told = Counter(expected), Counter(found)
    if right == told:
        return "equal"
    missing, more = (right - told).total(), (told - right).total()
    return f"wrong: {missing:,} of {right.total():,} rows missing, {more:,} that should not be"
