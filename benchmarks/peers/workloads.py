"""The continuous workloads that peers are compared with: queries, static data, elements of one triple.

Elements are a millisecond of event time apart, each with a time of its own. The first ones fill the windows
and are not timed. Windows of a width from the newest element back are CQELS-QL. Those of a grid are RSP-QL as
RSP-JS and rsp-rs read it, line by line; their grid begins with the first element, ours with the epoch, so
the first time is a multiple of every slide. `Workload.asked` is what an application asks a triple store that
keeps the windows as graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

E = "http://example.org/"
ONE, OTHER = E + "one", E + "other"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SENSORS = 1000
ROOMS = 100
FIRST = 1000
PREFIX = f"PREFIX : <{E}>\n"


@dataclass(frozen=True, slots=True)
class Element:
    """One triple on a stream, a line of N-Triples, at a time in milliseconds."""

    stream: str
    at: int
    line: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries, static data in the default graph, and what is pushed; ``filling`` elements are not timed.

    ``asked`` are the queries over graphs that hold the newest ``width`` milliseconds of a stream and have its
    name; with a ``step`` they are asked when a window of the grid closes, else at each element.
    """

    name: str
    queries: tuple[str, ...]
    asked: tuple[str, ...]
    width: int
    step: int | None = None
    kind: str = "readings"
    static: int = 0
    filling: int = 1100

    @property
    def begin(self) -> int:
        """The time of the first element that is timed."""
        return FIRST + self.filling

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that elements are of."""
        return (ONE, OTHER) if self.kind == "two streams" else (ONE,)

    def static_triples(self) -> str:
        """Where each of so many sensors is, as N-Triples."""
        return "".join(f"<{E}s{each}> <{E}in> <{E}room{each % ROOMS}> .\n" for each in range(self.static))

    def elements(self, number: int) -> Iterator[Element]:
        """The first elements."""
        for place in range(number):
            # 7919 and 1009 are primes: things come in an order that hides nothing, each as often as others.
            if self.kind == "two streams":
                stream, name = ((ONE, "left"), (OTHER, "right"))[place % 2]
                line = f"<{E}{name}{place}> <{E}{name}> <{E}k{place // 2 * 1009 % 1500}> ."
            else:
                stream, sensor = ONE, place * 7919 % (self.static or SENSORS)
                line = f'<{E}s{sensor}> <{E}value> "{place}"^^<{INTEGER}> .'
            yield Element(stream, FIRST + place, line)


def _arriving(name: str, select: str, pattern: str, width: int, static: int = 0) -> Workload:
    """A query about the newest ``width`` milliseconds, asked at each element."""
    window = f"[RANGE {width}ms]" if width else "[NOW]"
    more = " ?s :in ?r" if static else ""
    return Workload(
        name,
        (f"{PREFIX}SELECT {select} WHERE {{ STREAM <{ONE}> {window} {{ {pattern} }}{more} }}",),
        (f"{PREFIX}SELECT {select} WHERE {{ GRAPH <{ONE}> {{ {pattern} }}{more} }}",),
        width,
        static=static,
    )


def watchers(number: int) -> Workload:
    """Queries that differ in a constant."""
    patterns = [f"{{ :s{each} :value ?v }}" for each in range(number)]
    return Workload(
        f"{number:,} queries",
        tuple(f"{PREFIX}SELECT ?v WHERE {{ STREAM <{ONE}> [NOW] {each} }}" for each in patterns),
        tuple(f"{PREFIX}SELECT ?v WHERE {{ GRAPH <{ONE}> {each} }}" for each in patterns),
        0,
    )


def answering() -> Workload:
    """One query about what all of `watchers` ask for."""
    return _arriving("one query", "?v", "?s :value ?v", 0)


def _grid(name: str, select: str, pattern: str, width: int, step: int, static: int = 0) -> Workload:
    """A query at each window of a grid."""
    more = " ?s :in ?r" if static else ""
    return Workload(
        name,
        (
            f"{PREFIX}REGISTER RStream <out> AS\nSELECT {select}\n"
            f"FROM NAMED WINDOW :w ON STREAM <{ONE}> [RANGE {width} STEP {step}]\n"
            f"WHERE {{\nWINDOW :w {{ {pattern} }}{more}\n}}",
        ),
        (f"{PREFIX}SELECT {select} WHERE {{ GRAPH <{ONE}> {{ {pattern} }}{more} }}",),
        width,
        step,
        static=static,
    )


SELECT_ALL = _arriving("select all, [RANGE 1s]", "?s ?p ?o", "?s ?p ?o", 1000)
STATIC_JOIN = _arriving("[NOW] join 20,000 static", "?s ?v ?r", "?s :value ?v", 0, static=20_000)
TWO_STREAMS = Workload(
    "join of two streams, 3 s",
    (
        f"{PREFIX}SELECT ?x ?y WHERE {{ STREAM <{ONE}> [RANGE 3s] {{ ?x :left ?k }} "
        f"STREAM <{OTHER}> [RANGE 3s] {{ ?y :right ?k }} }}",
    ),
    (f"{PREFIX}SELECT ?x ?y WHERE {{ GRAPH <{ONE}> {{ ?x :left ?k }} GRAPH <{OTHER}> {{ ?y :right ?k }} }}",),
    3000,
    kind="two streams",
    filling=3400,
)
AVERAGE = _arriving("COUNT/AVG on arrival", "(COUNT(?s) AS ?n) (AVG(?v) AS ?mean)", "?s :value ?v", 1000)
TUMBLING = _grid("tumbling 1000, select all", "?s ?p ?o", "?s ?p ?o", 1000, 1000)
TUMBLING_STATIC = _grid(
    "tumbling 1000 join 20,000 static", "?s ?v ?r", "?s :value ?v", 1000, 1000, static=20_000
)
SLIDING = _grid("1000/100, COUNT", "(COUNT(?s) AS ?n)", "?s :value ?v", 1000, 100)

ARRIVING = (SELECT_ALL, STATIC_JOIN, TWO_STREAMS, AVERAGE, watchers(100), watchers(1000))
GRIDS = (TUMBLING, TUMBLING_STATIC, SLIDING)
WORKLOADS = (*ARRIVING, *GRIDS)
