"""How long parsing, translation and planning take, per query and for the first query of a process.

Planning is what a registration does after parsing: rewritings, the split into static parts, the operators.

Run: python -m benchmarks.parse_queries. The figures to watch are the ratios to pyoxigraph's own parser on the
window-free query of the same run, and the first parse, which pays for the grammar.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyoxigraph import Store

from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

DATA = Path(__file__).parents[1] / "tests" / "data"
PLAIN = """
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX : <http://example.org/>
SELECT ?a ?name (COUNT(?b) AS ?n) (AVG(?age) AS ?mean)
WHERE {
  ?a foaf:knows/foaf:knows ?b ; foaf:name ?name .
  ?b foaf:age ?age ; :livesIn ?city .
  ?city :in ?country ; :population ?people .
  OPTIONAL { ?b :worksFor ?company . ?company :in ?country FILTER(?people > 1000) }
  FILTER(?age >= 18 && (LANG(?name) = "en" || LANG(?name) = ""))
  FILTER NOT EXISTS { ?a :blocks ?b }
  { ?b a :Person } UNION { ?b a foaf:Agent }
  BIND(STRLEN(?name) AS ?length)
  VALUES ?country { :France :Germany :Vietnam }
}
GROUP BY ?a ?name
HAVING (COUNT(?b) > 2)
ORDER BY DESC(?n)
LIMIT 20
"""


def median_ms(action: Callable[[], object], times: int = 200) -> float:
    """The median of some runs, in milliseconds."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent)


def main() -> None:
    """Print one line per figure."""
    start = time.perf_counter()
    parse(PLAIN, dialect="sparql")
    print(f"first parse of a process, grammar included: {(time.perf_counter() - start) * 1000:8.1f} ms")
    store = Store()
    ours, theirs = median_ms(lambda: parse(PLAIN, dialect="sparql")), median_ms(lambda: store.query(PLAIN))
    print(f"{len(PLAIN.splitlines())}-line SPARQL, text to algebra:             {ours:8.2f} ms")
    print(f"the same, pyoxigraph parse and plan:        {theirs:8.2f} ms   (ratio {ours / theirs:.1f})")
    for name in (
        "paper-queries/iswc2011-Q5.cqels",
        "paper-queries/debs2015-Q2-official.cqels",
        "rspql-queries/listing2.rspql",
    ):
        text = (DATA / name).read_text(encoding="utf-8")
        spent = median_ms(lambda text=text: parse(text, parameters={"Name": "x"}))  # type: ignore[misc]
        query = parse(text, parameters={"Name": "x"})
        with NativeTrial() as trial:
            planned = median_ms(lambda query=query, trial=trial: trial.plan(query), 20)  # type: ignore[misc]
        print(f"{Path(name).name:42s}  {spent:8.2f} ms, to a plan {planned:8.2f} ms more")
    wrong = PLAIN.replace("FILTER(?age", "FILTER ?age").replace("GROUP BY ?a ?name", "GROUP BY ?a ?name ?")
    print(f"a text with faults, told in words:          {median_ms(lambda: refused(wrong), 20):8.2f} ms")


class NativeTrial:
    """An empty store on which queries are planned."""

    def __enter__(self) -> NativeTrial:
        self._store = QuadStore.open(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def plan(self, query: ContinuousQuery) -> None:
        """Plan a query as a registration does: natively, or by the reference where an operator is missing."""
        try:
            NativeEvaluator(query, self._store, EvaluationOptions())
        except UnsupportedError:
            ReferenceEvaluator(query, self._store, EvaluationOptions())


def refused(text: str) -> None:
    """Parse a wrong text."""
    with suppress(QueryTextError):
        parse(text, dialect="sparql")


if __name__ == "__main__":
    main()
