"""CPU time and memory of registered shapes: commits with and without a guard, first reports, restarts.

``python -m benchmarks.shapes`` prints one line for each row of the table in docs/performance.md that is not
marked as a run alone. Times are CPU seconds of this process, best of several rounds; both sides of a ratio
are measured alternately in one run.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import process_time

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Triple, parse, serialize

from quadrill.app.upkeep.freed_memory import return_freed
from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.lifecycle.shape_service import ShapeService
from quadrill.continuous.shapes.definition import read_parameters, shapes_text
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

EXAMPLE = "http://example.org/"
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
NODES = 20_000
SHAPES = 20
OTHERS = 1_000_000
FEWER = 2_000
LARGE = 100_000
ROUNDS = 5
COMMITS = 300
PREFIXES = f"""
PREFIX : <{EXAMPLE}>
PREFIX sh: <http://www.w3.org/ns/shacl#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
"""
COMMON = """
:Named a sh:NodeShape ; sh:targetClass :Person ;
    sh:property [ sh:path :name ; sh:minCount 1 ; sh:maxCount 1 ; sh:datatype xsd:string ] .
:Aged a sh:NodeShape ; sh:targetClass :Person ;
    sh:property [ sh:path :age ; sh:maxCount 1 ; sh:datatype xsd:integer ; sh:minInclusive 0 ] .
:Knowing a sh:NodeShape ; sh:targetSubjectsOf :knows ;
    sh:property [ sh:path :knows ; sh:class :Person ; sh:nodeKind sh:IRI ] .
:Lettered a sh:NodeShape ; sh:targetClass :Person ;
    sh:property [ sh:path :mail ; sh:pattern "^[^@]+@[^@]+$" ; sh:maxCount 3 ] .
"""


def name(text: str) -> NamedNode:
    """Return an IRI of the benchmark."""
    return NamedNode(EXAMPLE + text)


def shapes_graph() -> list[Triple]:
    """Return four shapes of persons, and 16 of other classes and properties."""
    others = "".join(
        f":Other{each} a sh:NodeShape ; sh:targetClass :Class{each} ;"
        f" sh:property [ sh:path :property{each} ; sh:minCount 1 ; sh:class :Person ] .\n"
        for each in range(SHAPES - 4)
    )
    return [quad.triple for quad in parse(PREFIXES + COMMON + others, RdfFormat.TURTLE)]


def person(number: int) -> list[Triple]:
    """Return the five triples of a person."""
    node = name(f"person{number}")
    return [
        Triple(node, TYPE, name("Person")),
        Triple(node, name("name"), Literal(f"Person {number}")),
        Triple(node, name("age"), Literal(number % 90)),
        Triple(node, name("mail"), Literal(f"person{number}@example.org")),
        Triple(node, name("knows"), name(f"person{number // 2}")),
    ]


def insertion(number: int) -> str:
    """Return an update that inserts a person."""
    triples = " . ".join(f"{each.subject} {each.predicate} {each.object}" for each in person(number))
    return f"INSERT DATA {{ {triples} }}"


def reading(number: int) -> str:
    """Return an update that inserts a triple which no shape can see."""
    return f"INSERT DATA {{ <{EXAMPLE}sensor{number}> <{EXAMPLE}reads> {number} }}"


def people(count: int) -> list[Triple]:
    """Return the triples of persons, all of whom conform to the shapes."""
    return [triple for number in range(count) for triple in person(number)]


class Side:
    """A store on disk, with or without shapes."""

    def __init__(self, triples: list[Triple], shapes: list[Triple] | None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = QuadStore.open(Path(self.folder.name, "data"))
        self.store.writer.bulk_extend([Quad(*each) for each in triples])
        self.registry = Registry.open("sqlite://")
        self.shapes = self.service()
        self.first = 0.0
        if shapes is not None:
            self.put(shapes)

    def service(self) -> ShapeService:
        """Return the service of the store's shapes, not started."""
        shapes = ShapeService(self.store, self.registry, base_iri=EXAMPLE, clock_ms=lambda: 0)
        RuleService(
            self.store, None, base_iri=EXAMPLE, clock_ms=lambda: 0, shapes=shapes.consequences
        ).start()
        return shapes

    def put(self, shapes: list[Triple]) -> None:
        """Register shapes that refuse violations; ``first`` has the CPU seconds."""
        start = process_time()
        self.shapes.put("benchmark", read_parameters({"mode": "reject"}, shapes_text(shapes)))
        self.first = process_time() - start

    def restart(self) -> float:
        """Return the CPU seconds of a start of the shapes."""
        start = process_time()
        self.service().start()
        return process_time() - start

    def seconds(self, text: str) -> float:
        """Return the CPU seconds of one update."""
        start = process_time()
        self.store.writer.update(text)
        return process_time() - start

    def commits(self, text: Callable[[int], str], first: int) -> float:
        """Return the mean CPU seconds of 300 updates; ``text`` returns an update, given its number."""
        return sum(self.seconds(text(first + number)) for number in range(COMMITS)) / COMMITS


def compared(with_shapes: Side, without: Side, text: Callable[[int], str]) -> str:
    """Return the best mean CPU times with and without shapes, measured alternately, and their ratio."""
    best = [1e9, 1e9]
    for number in range(ROUNDS):
        for place, side in enumerate((with_shapes, without)):
            best[place] = min(best[place], side.commits(text, NODES + number * COMMITS))
    return f"{best[0] * 1e6:.0f} µs / without shapes {best[1] * 1e6:.0f} µs: {best[0] / best[1]:.2f}"


def resident_mb() -> float:
    """Return the resident memory of this process in MB, without freed memory."""
    gc.collect()
    return_freed(0)
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def pyshacl_seconds(triples: list[Triple], shapes: list[Triple]) -> float:
    """Return the CPU seconds of a validation by pySHACL, without the time to parse."""
    import pyshacl  # type: ignore[import-untyped,import-not-found,unused-ignore]
    import rdflib

    data, graph = (
        rdflib.Graph().parse(data=serialize(each, format=RdfFormat.TURTLE), format="turtle")
        for each in (triples, shapes)
    )
    start = process_time()
    conforms, _, _ = pyshacl.validate(data, shacl_graph=graph)
    assert conforms
    return process_time() - start


def rows() -> Iterator[str]:
    """Measure and yield one line for each row."""
    shapes, triples = shapes_graph(), people(NODES)
    Side(people(10), shapes)  # loads every module
    before = resident_mb()
    without, guarded = Side(triples, None), Side(triples, None)
    for side in (without, guarded):  # the database caches what it reads, with shapes or without them
        for triple in triples[:5]:
            side.store.reader.quads_for_pattern(predicate=triple.predicate)
    one_store = (resident_mb() - before) / 2
    before = resident_mb()
    guarded.put(shapes)
    memory = resident_mb() - before
    yield f"small store: memory of the shapes {memory:.0f} MB, of one store {one_store:.0f} MB"
    yield f"small store: first report of {NODES:,} focus nodes: {guarded.first:.2f} s"
    yield f"small store: one node: {compared(guarded, without, insertion)}"
    yield f"small store: a commit that no shape can see: {compared(guarded, without, reading)}"
    del without, guarded
    others = [Triple(name(f"x{each}"), name("other"), name(f"y{each % 997}")) for each in range(OTHERS)]
    before = resident_mb()
    without, guarded = Side(triples + others, None), Side(triples + others, None)
    one_store = (resident_mb() - before) / 2
    before = resident_mb()
    guarded.put(shapes)
    first = guarded.first
    yield f"guard, {SHAPES} shapes, {NODES:,} focus nodes, one node: {compared(guarded, without, insertion)}"
    yield f"a commit that no shape can see, {OTHERS:,} other triples: {compared(guarded, without, reading)}"
    yield f"first report of {NODES:,} focus nodes: {first:.2f} s"
    yield f"memory of the shapes {resident_mb() - before:.0f} MB, of one store {one_store:.0f} MB"
    if find_spec("pyshacl") is not None:
        some = people(FEWER)
        other, ours = pyshacl_seconds(some, shapes), Side(some, shapes).first
        times = f"{ours:.3f} s / pySHACL {other:.2f} s: {ours / other:.3f}"
        yield f"first report of {FEWER:,} focus nodes: {times}"
    large = Side(people(LARGE), shapes)
    yield f"start with {LARGE:,} focus nodes: {large.restart():.2f} s"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
