"""CPU time and memory of rule sets: commits with and without rules, deletions, first materialisations.

``python -m benchmarks.rules`` prints one line for each row of the table in docs/performance.md. Times are CPU
seconds of this process: medians of commits, the best round of pushes and last edges, else one run. Both sides
of a ratio are measured alternately in one run.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time

from pyoxigraph import NamedNode, Quad

from quadrill.app.upkeep.freed_memory import return_freed
from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.store.quads.quad_store import QuadStore

from .reasoning import graph, materialised, reasonable_seconds
from .rule_windows import window_seconds

EXAMPLE = "http://example.org/"
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
SUBCLASS = NamedNode("http://www.w3.org/2000/01/rdf-schema#subClassOf")
NEXT = NamedNode(EXAMPLE + "next")
TRANSITIVE = f"PREFIX : <{EXAMPLE}> CONSTRUCT {{ ?x :next ?z }} WHERE {{ ?x :next ?y . ?y :next ?z }}"
LINEAR = [
    f"PREFIX : <{EXAMPLE}> CONSTRUCT {{ ?x :reaches ?y }} WHERE {{ ?x :next ?y }}",
    f"PREFIX : <{EXAMPLE}> CONSTRUCT {{ ?x :reaches ?z }} WHERE {{ ?x :next ?y . ?y :reaches ?z }}",
]
UNRELATED = f"PREFIX : <{EXAMPLE}> CONSTRUCT {{ ?x :uncle ?z }} WHERE {{ ?x :parent ?y . ?y :brother ?z }}"
INSTANCES = 20_000
DEPTH = 5
COMMITS = 1_500


def name(text: str) -> NamedNode:
    """Return an IRI of the benchmark."""
    return NamedNode(EXAMPLE + text)


class Side:
    """A store on disk with the quads of one row of the table, and at most one rule set."""

    def __init__(self, quads: list[Quad], **definition: object) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = QuadStore.open(Path(self.folder.name, "data"))
        self.store.writer.bulk_extend(quads)
        self.rules = RuleService(self.store, None, base_iri=EXAMPLE, clock_ms=lambda: 0)
        self.materialised = 0.0
        if definition:
            members = {"into": EXAMPLE + "inferred", "max_time": "600s", **definition}
            start = process_time()
            self.rules.put("benchmark", members).run()
            self.materialised = process_time() - start

    @property
    def inferred(self) -> int:
        """The number of inferred quads."""
        return self.store.reader.graph_counts().get(name("inferred"), 0)

    def seconds(self, text: str) -> float:
        """Return the CPU seconds of one update."""
        start = process_time()
        self.store.writer.update(text)
        return process_time() - start


def classes() -> list[Quad]:
    """Return a chain of classes, and instances of the lowest one."""
    chain = [Quad(name(f"c{each}"), SUBCLASS, name(f"c{each + 1}")) for each in range(DEPTH)]
    return chain + [Quad(name(f"i{each}"), TYPE, name("c0")) for each in range(INSTANCES)]


def chain(length: int, others: int) -> list[Quad]:
    """Return a chain of ``length`` edges, and ``others`` quads that no rule matches."""
    links = [Quad(name(f"n{each}"), NEXT, name(f"n{each + 1}")) for each in range(length)]
    return links + [Quad(name(f"x{each}"), name("other"), name(f"y{each % 997}")) for each in range(others)]


def compared(*commits: Callable[[int], float]) -> list[float]:
    """Return the median CPU seconds of each kind of commit, which gets a number; the kinds commit in turn."""
    seconds: list[list[float]] = [[] for _ in commits]
    for number in range(COMMITS):
        for found, commit in zip(seconds, commits, strict=True):
            found.append(commit(number))
    return list(map(median, seconds))


def edge(side: Side, number: int, rounds: int) -> tuple[float, float, int]:
    """Return the CPU seconds to delete and to insert an edge, and the number of inferred quads it affects."""
    data = f"{{ <{EXAMPLE}n{number}> <{EXAMPLE}next> <{EXAMPLE}n{number + 1}> }}"
    deleted = inserted = 1e9
    before, changed = side.inferred, 0
    for _ in range(rounds):
        deleted = min(deleted, side.seconds(f"DELETE DATA {data}"))
        changed = before - side.inferred
        inserted = min(inserted, side.seconds(f"INSERT DATA {data}"))
    assert side.inferred == before
    return deleted, inserted, changed


def resident_mb() -> float:
    """Return the resident memory of this process in MB, after the upkeep of a server that is at rest."""
    gc.collect()
    return_freed(0)
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def rows() -> Iterator[str]:
    """Measure and yield one line for each row."""
    plain, rdfs = Side(classes()), Side(classes(), include=["rdfs"])
    unrelated = Side(classes(), rules=[UNRELATED])

    def instance(number: int) -> str:
        return f"INSERT DATA {{ <{EXAMPLE}new{number}> a <{EXAMPLE}c0> }}"

    def equal_quads(number: int) -> str:
        node = f"<{EXAMPLE}same{number}>"
        kinds = ", ".join(f"<{EXAMPLE}c{each}>" for each in range(1, DEPTH + 1))
        return f"INSERT DATA {{ {node} a <{EXAMPLE}c0> GRAPH <{EXAMPLE}kinds> {{ {node} a {kinds} }} }}"

    def reading(number: int) -> str:
        return f"INSERT DATA {{ <{EXAMPLE}sensor> <{EXAMPLE}reads> {number} }}"

    one, with_rules, same_quads = compared(
        lambda number: plain.seconds(instance(number)),
        lambda number: rdfs.seconds(instance(number)),
        lambda number: plain.seconds(equal_quads(number)),
    )
    yield f"RDFS, one instance / without rules: {with_rules / one:.2f}"
    yield f"the quads of such a commit without rules / one of them: {same_quads / one:.2f}"
    one, with_rules, unmatched = compared(
        lambda number: plain.seconds(reading(number)),
        lambda number: rdfs.seconds(reading(number)),
        lambda number: unrelated.seconds(reading(number)),
    )
    yield f"RDFS, a quad without consequences / without rules: {with_rules / one:.2f}"
    yield f"a quad that fits no rule / without rules: {unmatched / one:.2f}"
    removal = rdfs.seconds(f"DELETE DATA {{ <{EXAMPLE}c0> <{SUBCLASS.value}> <{EXAMPLE}c1> }}")
    yield (
        f"one subClassOf above {INSTANCES:,} instances, delete {removal:.2f} s / first materialisation "
        f"{rdfs.materialised:.2f} s: {removal / rdfs.materialised:.2f}"
    )
    entailed, spelled = window_seconds()
    yield (
        f"push into [RANGE 1m], RDFS {entailed * 1e6:.0f} µs / the classes as UNION {spelled * 1e6:.0f} µs: "
        f"{entailed / spelled:.2f}"
    )
    triples = graph(100_000)
    seconds, count = materialised(triples, "owl2-rl")
    line = f"OWL 2 RL, {len(triples):,} triples, {count:,} inferred: {seconds:.2f} s"
    if find_spec("reasonable") is not None:
        other = reasonable_seconds(triples)
        line += f"; reasonable {other:.2f} s: {seconds / other:.2f}"
    yield line
    # The transitive rule derives each path once for each node in it: a chain of 1,000 takes many minutes.
    for label, rules, length in (("linear", LINEAR, 1_000), ("transitive", [TRANSITIVE], 200)):
        side = Side(chain(length, 100_000), rules=rules)
        for place, number, rounds in (("last", length - 1, 3), ("middle", length // 2, 1)):
            deleted, inserted, changed = edge(side, number, rounds)
            yield (
                f"{label} chain of {length:,}, {place} edge, {changed:,} quads: delete {deleted:.3f} s / "
                f"insert {inserted:.3f} s: {deleted / inserted:.2f}"
            )
    members = [Quad(name(f"m{each}"), TYPE, name("c0")) for each in range(200_000)]
    folder = Side([*classes()[:DEPTH], *members])
    before = resident_mb()
    folder.rules.put("all", {"include": ["rdfs"], "into": EXAMPLE + "inferred"}).run()
    grown = (resident_mb() - before) / folder.inferred * 1e6
    yield f"resident memory after {folder.inferred:,} inferred quads: {grown:.0f} MB per million"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
