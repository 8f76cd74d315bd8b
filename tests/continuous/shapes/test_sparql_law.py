"""SPARQL-based constraints against Oxigraph: ``$this`` as a constant of the text gives the same solutions."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given, settings
from pyoxigraph import NamedNode, QuerySolutions, Store

from tests.continuous.shapes.random_graphs import triples
from tests.continuous.shapes.running import PREFIXES, results_of, turtle
from tests.continuous.shapes.sparql_texts import constraint_of, texts


def solutions(store: Store, text: str, focus: NamedNode) -> Counter[str | None]:
    """Return the values of ?value that Oxigraph finds for one focus node."""
    text = re.sub(r"SELECT (DISTINCT )?\$this( \w|(?= WHERE))", r"SELECT \1 (1 AS ?one)\2", text)
    text = text.replace("SELECT $this", "SELECT").replace("SELECT DISTINCT $this", "SELECT DISTINCT")
    text = re.sub(r"GROUP BY \$this(?! \?)", "GROUP BY (1 AS ?two)", text).replace("BY $this ?v", "BY ?v")
    found = store.query(PREFIXES + text.replace("$this", str(focus)))
    assert isinstance(found, QuerySolutions)
    names = {each.value for each in found.variables}
    return Counter(
        None if "value" not in names or each["value"] is None else str(each["value"]) for each in found
    )


# At a constant that is no node of the graph, SPARQL (18.4) finds a path of length zero; Oxigraph does not.
NODES = " ".join(f":n{number} :other :n{number} ." for number in range(5))


@settings(max_examples=400, deadline=None)
@given(texts(), triples())
def test_results_are_the_solutions_of_the_query(text: str, data: list[str]) -> None:
    quads = turtle("\n".join([*data, NODES]))
    store = Store()
    store.extend(quads)
    results = results_of(turtle(constraint_of(text)), list(store), in_store_form=True)
    for number in range(5):
        focus = NamedNode(f"http://example.org/n{number}")
        found = Counter(str(each.value) for each in results if each.focus == focus)
        expected = solutions(store, text, focus)
        # A solution without ?value has the focus node as its value.
        expected[str(focus)] += expected.pop(None, 0)
        assert found == +expected, focus
