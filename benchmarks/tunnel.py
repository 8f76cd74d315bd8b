"""The tunnel of the RSP-QL* paper (5.1): sectors with two sensors of oxygen and two of temperature.

Run: ``python -m benchmarks.tunnel [--sectors N] [--executions N]``. Four streams, one observation a second
and sensor: ``ox1`` U(0.17, 0.25) and ``temp1`` U(21, 31), whose uncertainty is static data of the sensor's
class; ``ox2`` N(0.21, sd 0.015) and ``temp2`` N(26, sd 2), whose uncertainty is an annotation of the value.
Sensors of temperature are in every second sector. Windows of ten seconds evaluated every four (queries 1 and
4), of five every eight (2 and 5), of one every four (3 and 6).

The paper prints one of its six queries; these are written from its descriptions. Queries 1 to 3 filter by
the probability P, before the joins and behind them (H4, Figure 1). Queries 4 to 6 tell the probability
instead: bound in the window or behind the joins, where only rows that are told have one (what lazy variables
do), and with nothing remembered of earlier calls (Figure 2). CPU milliseconds of an execution in the native
evaluator, mean of those behind the first three.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra.reify import REIFIES
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Element
from quadrill.continuous.language import parse
from quadrill.continuous.plan import plan_state
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.uncertainty import custom_functions
from quadrill.store.quads.quad_store import QuadStore

from .results import keep

NS, SOSA, RSPU = "http://example.org/data/", "http://www.w3.org/ns/sosa/", "http://w3id.org/rsp/rspu#"
DECIMAL = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
DISTRIBUTION = NamedNode(RSPU + "distribution")
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RESULT, UNCERTAINTY = NamedNode(SOSA + "hasSimpleResult"), NamedNode(RSPU + "uncertainty")
WARM_UP = 3
# Width of the windows and time between two executions in seconds, by query.
TIMES = {1: (10, 4), 2: (5, 8), 3: (1, 4)}
PROBABILITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STATIC = {"ox1": "U(-0.01,0.01)", "temp1": "U(-2,2)"}
ANNOTATED = {"ox2": "N(0,0.005)", "temp2": "N(0,0.5)"}

_BLOCKS = {
    kind: f"GRAPH ?g{kind} {{ ?o{kind} sosa:hasSimpleResult ?{kind} ; sosa:hasFeatureOfInterest ?location"
    + (f" ; sosa:madeBySensor ?s{kind} }}" if kind in STATIC else
       f" . << ?o{kind} sosa:hasSimpleResult ?{kind} >> rspu:uncertainty ?u{kind} }}")
    for kind in ("ox1", "ox2", "temp1", "temp2")
}  # fmt: skip
_CLASSES = {kind: f"?s{kind} a ?c{kind} . ?c{kind} rspu:uncertainty ?u{kind} ." for kind in STATIC}
_LOW = "rspu:lessThan(rspu:add(?u{0}, ?{0}), 0.18)"
_HOT = "rspu:greaterThan(rspu:add(?u{0}, ?{0}), 30)"
_APART = "rspu:greaterThan(rspu:add(?uox2, ?ox2), rspu:add(?uox1, ?ox1))"
# Streams, the probability that is asked of each, and conditions without uncertainty on their values.
_SHAPES: dict[int, tuple[dict[str, str | None], dict[str, str]]] = {
    1: ({"ox2": _LOW.format("ox2"), "temp1": None}, {"temp1": "> 30"}),
    2: ({"ox1": _LOW.format("ox1"), "ox2": _LOW.format("ox2"), "temp1": _HOT.format("temp1"),
         "temp2": _HOT.format("temp2")},
        {"ox1": "< 0.21", "ox2": "< 0.21", "temp1": "> 27", "temp2": "> 27"}),
    3: ({"ox1": None, "ox2": _APART, "temp1": None}, {"temp1": "> 30"}),
}  # fmt: skip


def query(number: int, probability: float = 0.0, *, behind: bool = False) -> str:
    """The text of a query; ``behind``: queries 4 to 6 bind behind the joins instead of in their windows."""
    asked, plain = _SHAPES[(number - 1) % 3 + 1]
    width, every = TIMES[(number - 1) % 3 + 1]
    told = number > 3
    windows: list[str] = []
    blocks: list[str] = []
    late: list[str] = []
    columns = ["?location"]
    for kind, function in asked.items():
        stream = f"<http://example.org/{kind}>"
        windows.append(f"FROM NAMED WINDOW <{kind}> ON {stream} [RANGE PT{width}S STEP PT1S]")
        inner = _BLOCKS[kind]
        if kind in plain:
            inner += f" FILTER(?{kind} {plain[kind]})"
        # What asks for static data or another window stands where all of it is bound.
        inside = kind in ANNOTATED and function != _APART
        if function and told:
            columns.append(f"?p{kind}")
            bind = f"BIND({function} AS ?p{kind})"
            inner, late = (inner + f" {bind}", late) if inside and not behind else (inner, [*late, bind])
        elif function:
            test = f"FILTER({function} >= {probability})"
            inner, late = (inner + f" {test}", late) if inside else (inner, [*late, test])
        blocks.append(f"WINDOW <{kind}> {{ {inner} }}")
        if kind in STATIC and (function or kind == "ox1"):
            blocks.append(_CLASSES[kind])
    return (
        f"PREFIX sosa: <{SOSA}> PREFIX rspu: <{RSPU}> REGISTER STREAM <out> COMPUTED EVERY PT{every}S AS "
        f"SELECT {' '.join(columns)} {' '.join(windows)} WHERE {{ {' '.join([*blocks, *late])} }}"
    )


def sensors(sectors: int) -> Iterator[Quad]:
    """The static data that the queries read: classes of sensors and their uncertainty."""
    for kind, text in STATIC.items():
        yield Quad(NamedNode(NS + kind), UNCERTAINTY, Literal(text, datatype=DISTRIBUTION))
        for sector in range(sectors):
            yield Quad(NamedNode(f"{NS}{kind}-{sector}"), TYPE, NamedNode(NS + kind))


def observations(kind: str, second: int, sectors: int) -> list[Quad]:
    """What the sensors of a kind say in a second, each in a graph of its own."""
    chance = random.Random(f"{kind} {second}")
    found = []
    for sector in range(0, sectors, 2 if kind.startswith("temp") else 1):
        draws: dict[str, Callable[[], float]] = {
            "ox1": lambda: chance.uniform(0.17, 0.25), "ox2": lambda: chance.gauss(0.21, 0.015),
            "temp1": lambda: chance.uniform(21, 31), "temp2": lambda: chance.gauss(26, 2),
        }  # fmt: skip
        graph = NamedNode(f"{NS}graph/{kind}_{sector}#{second}")
        node = NamedNode(f"{NS}{kind}_{sector}#{second}")
        value = Literal(f"{draws[kind]():.4f}".rstrip("0").rstrip("."), datatype=DECIMAL)
        place, sensor = NamedNode(f"{NS}location/{sector}"), NamedNode(f"{NS}{kind}-{sector}")
        found += [
            Quad(node, TYPE, NamedNode(SOSA + "Observation"), graph),
            Quad(node, NamedNode(SOSA + "hasFeatureOfInterest"), place, graph),
            Quad(node, NamedNode(SOSA + "madeBySensor"), sensor, graph),
            Quad(node, RESULT, value, graph),
        ]
        if kind in ANNOTATED:
            note = BlankNode(f"{kind}x{sector}x{second}")
            found += [
                Quad(note, REIFIES, Triple(node, RESULT, value), graph),
                Quad(note, UNCERTAINTY, Literal(ANNOTATED[kind], datatype=DISTRIBUTION), graph),
            ]
    return found


class Tunnel:
    """The observations of some minutes, made once for all queries."""

    def __init__(self, sectors: int, executions: int) -> None:
        self.store = QuadStore.open(None)
        self.store.writer.apply(add=list(sensors(sectors)))
        self.executions = executions
        self._seen = {
            (kind, second): Element.of(tuple(observations(kind, second, sectors)), second * 1000, second)
            for kind in _BLOCKS
            for second in range(max(every for _, every in TIMES.values()) * executions)
        }

    def run(
        self, number: int, text: str, *, late: bool = False, remembered: bool = True
    ) -> tuple[float, int]:
        """Milliseconds of an execution of a query and rows of all."""
        width, every = TIMES[(number - 1) % 3 + 1]
        functions: Mapping[NamedNode, Any] = custom_functions()
        for function in functions.values():
            function.cache_clear()
        bare = {name: function.__wrapped__ for name, function in functions.items()}
        with nullcontext() if remembered else patch.object(plan_state, "custom_functions", lambda: bare):
            place = EvaluationOptions(uncertain_filters="late" if late else "early")
            evaluator = NativeEvaluator(parse(text), self.store, place)
        contents = [((each.name, None), evaluator.content_of(each.name)) for each in parse(text).windows]
        spent, rows = 0.0, 0
        held: set[int] = set()
        for execution in range(self.executions):
            end = every * (execution + 1)
            seconds = set(range(max(0, end - width), end))
            left, entered = held - seconds, seconds - held
            held = seconds
            begin = time.thread_time()
            for (name, _), content in contents:
                kind = name.value.rpartition("/")[2]
                for second in left:
                    content.remove(self._seen[kind, second])
                for second in entered:
                    content.add(self._seen[kind, second])
            answer = evaluator.advance(end * 1000, contents)
            if execution >= WARM_UP:
                spent += time.thread_time() - begin
                rows += len(answer.rows)
        evaluator.close()
        return spent / (self.executions - WARM_UP) * 1000, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sectors", type=int, default=1000, help="the paper has 1000")
    parser.add_argument("--executions", type=int, default=25, help="of each query, three not timed")
    options = parser.parse_args()
    tunnel = Tunnel(options.sectors, options.executions)
    filters, binds = [], []
    print(f"{'query':>6}{'P':>6}{'early':>10}{'late':>10}{'rows':>8}   (milliseconds an execution)")
    for number in (1, 2, 3):
        for probability in PROBABILITIES:
            text = query(number, probability)
            (early, rows), (late, same) = tunnel.run(number, text), tunnel.run(number, text, late=True)
            assert rows == same, "both give the same rows"
            filters.append((f"Q{number}", probability, round(early, 1), round(late, 1), rows))
            print(("{:>6}{:6}" + "{:10}" * 2 + "{:8}").format(*filters[-1]), flush=True)
    print(f"{'query':>6}{'inside':>10}{'behind':>10}{'no cache':>10}{'rows':>8}")
    for number in (4, 5, 6):
        inside, rows = tunnel.run(number, query(number))
        behind, same = tunnel.run(number, query(number, behind=True))
        bare, again = tunnel.run(number, query(number), remembered=False)
        assert rows == same == again
        binds.append((f"Q{number}", round(inside, 1), round(behind, 1), round(bare, 1), rows))
        print(("{:>6}" + "{:10}" * 3 + "{:8}").format(*binds[-1]), flush=True)
    keep("tunnel", {"sectors": options.sectors, "filters": filters, "binds": binds})


if __name__ == "__main__":
    main()
