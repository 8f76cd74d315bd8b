"""A triple store as a black box: windows are graphs of the store, and every event asks the query again.

What an application does that has no stream engine (System X of the report of 2010): each event changes the
graphs of the windows and the SPARQL query runs over everything. Nothing but Oxigraph: no fixed choices, no
comparison with the answer before.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Sequence

from pyoxigraph import NamedNode, Quad, QuerySolutions, QueryTriples, Store

from quadrill.continuous.inputs import Element

_BLOCK = re.compile(r"STREAM\s*<[^>]*>\s*\[(NOW|TRIPLES 1|RANGE (\d+)s)\]\s*\{")


class Poller:
    """One query of the conference with its windows as graphs of a store."""

    def __init__(self, text: str, static: Sequence[Quad]) -> None:
        self._widths: list[int] = []
        self._text = re.sub(r"FROM NAMED <[^>]*>", "", _BLOCK.sub(self._graph, text))
        self._store = Store()
        self._store.bulk_extend(static)
        self._store.optimize()
        self._held: list[deque[tuple[int, Quad]]] = [deque() for _ in self._widths]
        self._alive: Counter[Quad] = Counter()

    def _graph(self, block: re.Match[str]) -> str:
        """A window as a graph; its width in milliseconds, 0 for the newest triple alone."""
        self._widths.append(int(block[2]) * 1000 if block[2] else 0)
        return f"GRAPH <urn:window:{len(self._widths)}> {{"

    def change(self, element: Element) -> None:
        """Let an element enter every window, and what is too old leave."""
        for number, (width, held) in enumerate(zip(self._widths, self._held, strict=True), start=1):
            graph = NamedNode(f"urn:window:{number}")
            for quad in element.quads:
                entry = Quad(quad.subject, quad.predicate, quad.object, graph)
                held.append((element.event_time, entry))
                self._alive[entry] += 1
                self._store.add(entry)
            while held and (held[0][0] < element.event_time - width or (not width and len(held) > 1)):
                _, gone = held.popleft()
                self._alive[gone] -= 1
                if not self._alive[gone]:
                    del self._alive[gone]
                    self._store.remove(gone)

    def ask(self) -> int:
        """The number of rows of the whole answer."""
        answer = self._store.query(self._text)
        assert isinstance(answer, QuerySolutions | QueryTriples)
        return sum(1 for _ in answer)


def polled(
    text: str, static: Sequence[Quad], elements: Sequence[Element], warm_up: int, sample: int
) -> float:
    """Microseconds an event, the mean of ``sample`` events behind the ``warm_up`` that fill the windows."""
    poller = Poller(text, static)
    for element in elements[:warm_up]:
        poller.change(element)
    poller.ask()
    begin = time.thread_time()
    for element in elements[warm_up : warm_up + sample]:
        poller.change(element)
        poller.ask()
    return (time.thread_time() - begin) / sample * 1e6
