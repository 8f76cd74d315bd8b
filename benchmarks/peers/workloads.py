"""The continuous workloads that peers are compared with: queries, static data, elements of one triple.

Elements are a millisecond of event time apart, each with a time of its own. The first ones fill the windows
and are not timed. Windows of a width from the newest element back are CQELS-QL, those of a grid RSP-QL: grids
begin at the epoch and are closed by the next element (``[open, close)``), as in RSP-JS and rsp-rs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

E = "http://example.org/"
ONE, OTHER = E + "one", E + "other"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SENSORS = 1000
ROOMS = 100
SECOND = 1000
PREFIX = f"PREFIX : <{E}>\n"

# A name, and terms as N-Triples.
Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Element:
    """One triple on a stream, at a time in milliseconds."""

    stream: str
    at: int
    triple: Triple

    @property
    def line(self) -> str:
        """Its triple as a line of N-Triples."""
        return "{} {} {} .\n".format(*self.triple)


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries, static data in the default graph, and what is pushed; ``filling`` elements are not timed."""

    name: str
    queries: tuple[str, ...]
    kind: str = "readings"
    static: int = 0
    filling: int = 1100
    grid: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are pushed to."""
        return (ONE, OTHER) if self.kind == "two streams" else (ONE,)

    def static_triples(self) -> list[Triple]:
        """Where each of so many sensors is."""
        return [(f"<{E}s{each}>", f"<{E}in>", f"<{E}room{each % ROOMS}>") for each in range(self.static)]

    def elements(self, number: int) -> Iterator[Element]:
        """The first elements."""
        for place in range(number):
            # 7919 and 1009 are primes: sensors come in an order that hides nothing, each as often as others.
            sensor = place * 7919 % (self.static or SENSORS)
            if self.kind == "two streams":
                stream, name = ((ONE, "left"), (OTHER, "right"))[place % 2]
                key = f"<{E}k{place // 2 * 1009 % 1500}>"
                yield Element(stream, place, (f"<{E}{name}{place}>", f"<{E}{name}>", key))
            else:
                yield Element(ONE, place, (f"<{E}s{sensor}>", f"<{E}value>", f'"{place}"^^<{INTEGER}>'))


def _grid(select: str, width: int, step: int, more: str = "") -> str:
    return (
        f"{PREFIX}REGISTER RSTREAM <out> AS\nSELECT {select}\n"
        f"FROM NAMED WINDOW :w ON STREAM <{ONE}> [RANGE {width} STEP {step}]\n"
        f"WHERE {{ WINDOW :w {{ ?s :value ?v }} {more} }}"
    )


def _watchers(number: int) -> tuple[str, ...]:
    return tuple(
        f"{PREFIX}SELECT ?v WHERE {{ STREAM <{ONE}> [NOW] {{ :s{each} :value ?v }} }}"
        for each in range(number)
    )


WORKLOADS = (
    Workload(
        "select all, [RANGE 1s]", (f"SELECT ?s ?p ?o WHERE {{ STREAM <{ONE}> [RANGE 1s] {{ ?s ?p ?o }} }}",)
    ),
    Workload(
        "[NOW] join 20,000 static",
        (f"{PREFIX}SELECT ?s ?v ?r WHERE {{ STREAM <{ONE}> [NOW] {{ ?s :value ?v }} ?s :in ?r }}",),
        static=20_000,
    ),
    Workload(
        "join of two streams, 3 s",
        (
            f"{PREFIX}SELECT ?x ?y WHERE {{ STREAM <{ONE}> [RANGE 3s] {{ ?x :left ?k }} "
            f"STREAM <{OTHER}> [RANGE 3s] {{ ?y :right ?k }} }}",
        ),
        kind="two streams",
        filling=3400,
    ),
    Workload(
        "COUNT/AVG on arrival",
        (
            f"{PREFIX}SELECT (COUNT(?s) AS ?n) (AVG(?v) AS ?mean) WHERE "
            f"{{ STREAM <{ONE}> [RANGE 1s] {{ ?s :value ?v }} }}",
        ),
    ),
    Workload("100 queries", _watchers(100)),
    Workload("1,000 queries", _watchers(1000)),
    Workload("tumbling 1000, select all", (_grid("?s ?v", SECOND, SECOND),), grid=True),
    Workload(
        "tumbling 1000 join static", (_grid("?s ?v ?r", SECOND, SECOND, "?s :in ?r"),), static=1000, grid=True
    ),
    Workload("1000/100, COUNT", (_grid("(COUNT(?s) AS ?n)", SECOND, 100),), grid=True),
)
BY_NAME = {each.name: each for each in WORKLOADS}
