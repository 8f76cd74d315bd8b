"""The polling loop: an application without stream engine keeps windows as graphs of a triple store and asks.

Each element enters the graph of its stream, what is too old leaves it, and the query is asked: at each
element, when the rows that were not in the answer before are told, or when a window of the grid closes, when
all are. The store is Oxigraph in this process, or a server over HTTP: one update and one query each time.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Protocol
from urllib.parse import urlsplit

from pyoxigraph import NamedNode, Quad, QueryResultsFormat, QuerySolutions, RdfFormat, Store, parse

from .rows import Row, of_json
from .workloads import Element, Workload


class Asked(Protocol):
    """A triple store."""

    def load(self, triples: str) -> None:
        """Add N-Triples to the default graph."""

    def change(self, gone: Sequence[Element], new: Sequence[Element]) -> None:
        """Remove elements of the graphs of their streams, and add some."""

    def ask(self, query: str) -> bytes:
        """The answer as JSON."""


class InProcess:
    """Oxigraph in memory, in this process."""

    def __init__(self) -> None:
        self._store = Store()

    def load(self, triples: str) -> None:  # noqa: D102
        self._store.bulk_load(triples.encode(), RdfFormat.N_TRIPLES)

    def change(self, gone: Sequence[Element], new: Sequence[Element]) -> None:  # noqa: D102
        for element in gone:
            self._store.remove(_quad(element))
        for element in new:
            self._store.add(_quad(element))

    def ask(self, query: str) -> bytes:  # noqa: D102
        answer = self._store.query(query)
        assert isinstance(answer, QuerySolutions)
        document = answer.serialize(format=QueryResultsFormat.JSON)
        assert document is not None
        return document


def _quad(element: Element) -> Quad:
    (quad,) = parse(element.line.encode(), RdfFormat.N_TRIPLES)
    return Quad(quad.subject, quad.predicate, quad.object, NamedNode(element.stream))


class Http:
    """A SPARQL server, by HTTP on one connection."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def load(self, triples: str) -> None:  # noqa: D102
        if triples:
            self._post("/store?default", triples, "application/n-triples")

    def change(self, gone: Sequence[Element], new: Sequence[Element]) -> None:  # noqa: D102
        parts = [_data("DELETE", gone), _data("INSERT", new)]
        self._post("/update", " ;\n".join(filter(None, parts)), "application/sparql-update")

    def ask(self, query: str) -> bytes:  # noqa: D102
        return self._post("/query", query, "application/sparql-query")

    def _post(self, path: str, body: str, media_type: str) -> bytes:
        accept = {"Content-Type": media_type, "Accept": "application/sparql-results+json"}
        self._connection.request("POST", path, body.encode(), accept)
        answer = self._connection.getresponse()
        document = answer.read()
        if answer.status >= 300:
            raise OSError(f"{path}: {answer.status} {document!r}")
        return document


def _data(verb: str, elements: Sequence[Element]) -> str:
    by_stream: dict[str, list[str]] = defaultdict(list)
    for element in elements:
        by_stream[element.stream].append(element.line)
    graphs = " ".join(f"GRAPH <{stream}> {{ {' '.join(lines)} }}" for stream, lines in by_stream.items())
    return f"{verb} DATA {{ {graphs} }}" if graphs else ""


class Polling:
    """The loop of one workload over one store."""

    def __init__(self, work: Workload, store: Asked) -> None:
        self._work, self._store = work, store
        self._held: deque[Element] = deque()
        self._before: list[Counter[Row]] = [Counter() for _ in work.asked]
        store.load(work.static_triples())

    def fill(self, elements: Sequence[Element]) -> None:
        """Elements that nobody asks about."""
        self._held.extend(elements)
        self._store.change([], elements)
        self._leave(elements[-1].at)
        if self._work.step is None:
            self._new()

    def arriving(self, elements: Sequence[Element]) -> list[Row]:
        """Elements one by one, asked at each; the rows that were told."""
        told: list[Row] = []
        for element in elements:
            self._enter(element, self._too_old(element.at))
            told += self._new()
        return told

    def grid(self, elements: Sequence[Element], step: int) -> list[bytes]:
        """Elements one by one, asked when a window closes; the answers."""
        told = []
        for element in elements:
            if element.at % step == 0:
                self._leave(element.at - 1)
                told += [self._store.ask(query) for query in self._work.asked]
            self._enter(element, [])
        return told

    def _enter(self, element: Element, gone: list[Element]) -> None:
        self._held.append(element)
        self._store.change(gone, [element])

    def _too_old(self, at: int) -> list[Element]:
        """What leaves; a window from the newest element back has both of its ends in it."""
        begin = at - self._work.width + (self._work.step is not None)
        gone = []
        while self._held and self._held[0].at < begin:
            gone.append(self._held.popleft())
        return gone

    def _leave(self, at: int) -> None:
        if gone := self._too_old(at):
            self._store.change(gone, [])

    def _new(self) -> list[Row]:
        told: list[Row] = []
        for place, query in enumerate(self._work.asked):
            now = Counter(of_json(self._store.ask(query)))
            told += (now - self._before[place]).elements()
            self._before[place] = now
        return told


def poll(work: Workload, store: Asked, items: int) -> tuple[float, float, list[Row]]:
    """CPU seconds of this thread, wall clock seconds and the rows of so many elements behind full windows."""
    elements = list(work.elements(work.filling + items))
    loop = Polling(work, store)
    loop.fill(elements[: work.filling])
    timed = elements[work.filling :]
    cpu, wall = time.thread_time(), time.perf_counter()
    if work.step is None:
        rows, answers = loop.arriving(timed), []
    else:
        rows, answers = [], loop.grid(timed, work.step)
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return cpu, wall, [*rows, *(row for answer in answers for row in of_json(answer))]
