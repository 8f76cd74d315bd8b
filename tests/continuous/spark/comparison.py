"""One shared Spark session, datasets in memory as the compiler reads them, and the store's own answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, QuerySolutions, Store

from quadrill.continuous.algebra.columnar import Graphs
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.text import static_text
from quadrill.continuous.expressions.choices import Functions
from quadrill.continuous.rows import Solution
from quadrill.continuous.spark.compile import Compiler
from quadrill.continuous.spark.worker import terms_of
from quadrill.store.bulk.mirror import PredicateFacts
from quadrill.store.bulk.mirror_quads import given_rows
from quadrill.store.bulk.typed import with_types
from quadrill.store.terms import term_text


class QuadsInMemory:
    """Quads of a Python store; every figure is counted."""

    def __init__(self, spark: Any, quads: Iterable[Quad]) -> None:
        self._spark = spark
        texts = [
            (
                term_text(quad.subject),
                term_text(quad.predicate),
                term_text(quad.object),
                None if quad.graph_name == DefaultGraph() else str(quad.graph_name),
            )
            for quad in quads
        ]
        data = with_types(spark.createDataFrame(texts, "s string, p string, o string, g string"))
        self._data = data.localCheckpoint()
        kinds: dict[str, set[str]] = {}
        for row in self._data.select("p", "kind").distinct().collect():
            kinds.setdefault(row.p[1:-1], set()).add(row.kind)
        self._facts = {
            name: PredicateFacts(
                number,
                sum(1 for _, p, _, _ in texts if p == f"<{name}>"),
                len({s for s, p, _, _ in texts if p == f"<{name}>"}),
                len({o for _, p, o, _ in texts if p == f"<{name}>"}),
                frozenset(found),
            )
            for number, (name, found) in enumerate(sorted(kinds.items()))
        }

    def of(self, predicate: str | None) -> Any:
        """The quads of one predicate, or all."""
        return self._data if predicate is None else self._data.where(self._data.p == f"<{predicate}>")

    def facts(self, predicate: str | None) -> PredicateFacts:
        """Their figures."""
        if predicate is not None:
            return self._facts.get(predicate, PredicateFacts(-1, 0, 0, 0))
        kinds = frozenset().union(*(each.kinds for each in self._facts.values()))
        return PredicateFacts(-1, sum(each.rows for each in self._facts.values()), 5, 5, kinds)

    def rows(self, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
        """Given rows."""
        return given_rows(self._spark, names, texts)


def by_spark(
    quads: QuadsInMemory, pattern: Algebra, columns: Sequence[Var], dataset: Graphs, base_iri: str | None
) -> Counter[Solution]:
    """The rows of a pattern as Spark gives them."""
    data = Compiler(quads, dataset, base_iri).table(pattern, columns)
    if not columns:
        return Counter({(): data.count()})
    named = data.toDF(*(f"c{place}" for place in range(len(columns))))
    found = [tuple(row) for row in named.collect()]
    terms: dict[str | None, Any] = {None: None}
    terms.update(terms_of({text for row in found for text in row if text is not None}))
    return Counter(tuple(terms[text] for text in row) for row in found)


def by_store(
    store: Store,
    pattern: Algebra,
    columns: Sequence[Var],
    base_iri: str | None = None,
    default: Sequence[NamedNode | DefaultGraph] | None = None,
    named: Sequence[NamedNode | BlankNode] | None = None,
) -> Counter[Solution]:
    """The rows as the store gives them, with the choices of docs/semantics.md fixed."""
    functions = Functions("q", {})
    answer = store.query(
        static_text(pattern, columns, functions, base_iri),
        default_graph=default,
        named_graphs=named,
        custom_functions=functions.functions,
        custom_aggregate_functions=functions.aggregates,
    )
    assert isinstance(answer, QuerySolutions)
    return Counter(tuple(row[place] for place in range(len(columns))) for row in answer)
