"""Short forms for the tests of the reference evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.evaluate.recomputing import RecomputedAnswer, ReferenceEvaluator
from quadrill.continuous.language import parse as parse_query
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import recomputed

PREFIXES = (
    "PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
    "PREFIX rspu: <http://w3id.org/rsp/rspu#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "
)
TURTLE = PREFIXES.replace("PREFIX", "\nPREFIX")


def iri(name: str) -> NamedNode:
    return NamedNode(f"http://x/{name}")


def trig(text: str) -> list[Quad]:
    """Quads from TriG; every name is in the tests' prefix."""
    return list(parse((TURTLE + "\n" + text).encode(), format=RdfFormat.TRIG))


def content(text: str, time: int = 0) -> dict[Quad, int]:
    """A window's content, all at one event time."""
    return dict.fromkeys(trig(text), time)


@cache
def _shared_store() -> QuadStore:
    return QuadStore.open(None)


@contextmanager
def holding(quads: Iterable[Quad]) -> Iterator[QuadStore]:
    """A store that holds exactly these quads; one store serves all tests, opening and closing takes long."""
    store = _shared_store()
    store.writer.replace_dataset(())
    store.writer.apply(add=quads)
    yield store


@contextmanager
def background(text: str = "") -> Iterator[QuadStore]:
    """A store in memory that holds exactly the TriG text."""
    with holding(trig(text)) as store:
        yield store


def evaluator(text: str, store: QuadStore, **options: object) -> tuple[ReferenceEvaluator, ContinuousQuery]:
    query = parse_query(PREFIXES + text)
    return ReferenceEvaluator(query, store, EvaluationOptions(**options)), query  # type: ignore[arg-type]


def answer(text: str, *contents: str, data: str = "", at: int = 0, **options: object) -> RecomputedAnswer:
    """The answer over the windows' contents in the order of their declarations."""
    with background(data) as store:
        engine, query = evaluator(text, store, **options)
        windows = {
            declaration.name: content(each) for declaration, each in zip(query.windows, contents, strict=True)
        }
        return recomputed(engine, at, windows)


def table(found: RecomputedAnswer) -> Counter[str]:
    """The rows as words: local names of IRIs, values of literals, a dash for unbound."""
    return Counter(" ".join(map(word, row)) for row in found.rows)


def lines(found: RecomputedAnswer) -> list[str]:
    """The rows as words, in order."""
    return [" ".join(map(word, row)) for row in found.rows]


def word(term: object) -> str:
    if term is None:
        return "-"
    if isinstance(term, NamedNode):
        return term.value.removeprefix("http://x/")
    return getattr(term, "value", str(term))


def rows(*expected: str) -> Counter[str]:
    return Counter(expected)
