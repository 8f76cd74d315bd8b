"""Reads W3C test manifests into plain cases.

A manifest is an RDF graph whose ``mf:entries`` list names the tests and whose ``mf:include`` list names
further manifests; the subject of both differs between the suites, so any subject is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

DATA = Path(__file__).parent / "data" / "sparql"
BASE = "https://w3c.github.io/rdf-tests/sparql/"

MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
UT = "http://www.w3.org/2009/sparql/tests/test-update#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

Node = NamedNode | BlankNode | Literal


class Graph:
    """A small triple index: enough to walk a manifest."""

    def __init__(self, path: Path, base: str) -> None:
        self._index: dict[tuple[Node, str], list[Node]] = defaultdict(list)
        self.subjects: dict[str, list[Node]] = defaultdict(list)
        form = {".ttl": RdfFormat.TURTLE, ".rdf": RdfFormat.RDF_XML, ".nt": RdfFormat.N_TRIPLES}[path.suffix]
        for quad in parse(path=str(path), format=form, base_iri=base):
            self._index[(quad.subject, quad.predicate.value)].append(quad.object)
            self.subjects[quad.predicate.value].append(quad.subject)

    def all(self, subject: Node, predicate: str) -> list[Node]:
        """Every object of the subject's property, in document order."""
        return self._index.get((subject, predicate), [])

    def one(self, subject: Node | None, predicate: str) -> Node | None:
        """The first object, or None."""
        found = self._index.get((subject, predicate)) if subject is not None else None
        return found[0] if found else None

    def members(self, head: Node | None) -> Iterator[Node]:
        """The members of an RDF list."""
        while head is not None and not (isinstance(head, NamedNode) and head.value == RDF + "nil"):
            first = self.one(head, RDF + "first")
            assert first is not None, "a list node without rdf:first"
            yield first
            head = self.one(head, RDF + "rest")


@dataclass(frozen=True)
class NamedFile:
    """A data file and the graph it belongs to; ``graph`` None is the default graph."""

    graph: str | None
    path: Path


@dataclass(frozen=True)
class Case:
    """One test: ``key`` is ``folder/name`` below the suites' root, ``kind`` the local name of its type."""

    key: str
    kind: str
    name: str
    query: Path | None
    data: tuple[NamedFile, ...]
    result: Path | None
    result_data: tuple[NamedFile, ...]
    graph: Graph = field(compare=False, repr=False, hash=False)
    node: Node = field(compare=False, repr=False, hash=False)


def iri_of(path: Path) -> str:
    """The IRI under which a file of the suites is published."""
    return BASE + path.relative_to(DATA).as_posix()


def path_of(iri: str) -> Path:
    """The file behind an IRI of the suites."""
    return DATA / iri.removeprefix(BASE)


@cache
def cases(manifest: str) -> tuple[Case, ...]:
    """All cases of a manifest (a path below the suites' root) and of those it includes."""
    return tuple(_read(DATA / manifest))


def _read(path: Path) -> Iterator[Case]:
    graph = Graph(path, iri_of(path))
    for subject in graph.subjects.get(MF + "include", []):
        for included in graph.members(graph.one(subject, MF + "include")):
            assert isinstance(included, NamedNode)
            yield from _read(path_of(included.value))
    for subject in graph.subjects.get(MF + "entries", []):
        for node in graph.members(graph.one(subject, MF + "entries")):
            case = _case(graph, node, path)
            if case is not None:
                yield case


def _case(graph: Graph, node: Node, manifest: Path) -> Case | None:
    types = [t.value for t in graph.all(node, RDF + "type") if isinstance(t, NamedNode)]
    kinds = [t.removeprefix(MF) for t in types if t.startswith(MF)]
    if not kinds or not isinstance(node, NamedNode):
        return None
    action = graph.one(node, MF + "action")
    result = graph.one(node, MF + "result")
    label = graph.one(node, MF + "name")
    folder = manifest.parent.relative_to(DATA).as_posix()
    return Case(
        key=f"{folder}/{node.value.rsplit('#', 1)[-1]}",
        kind=kinds[0],
        name=label.value if isinstance(label, Literal) else node.value,
        query=_request(graph, action),
        data=_files(graph, action, QT) + _files(graph, action, UT) + _files(graph, node, UT),
        result=path_of(result.value) if isinstance(result, NamedNode) else None,
        result_data=_files(graph, result, UT) if isinstance(result, BlankNode) else (),
        graph=graph,
        node=node,
    )


def _request(graph: Graph, action: Node | None) -> Path | None:
    if isinstance(action, NamedNode):
        return path_of(action.value)
    for predicate in (QT + "query", UT + "request"):
        found = graph.one(action, predicate)
        if isinstance(found, NamedNode):
            return path_of(found.value)
    return None


def _files(graph: Graph, node: Node | None, namespace: str) -> tuple[NamedFile, ...]:
    if node is None:
        return ()
    found = [
        NamedFile(None, path_of(n.value))
        for n in graph.all(node, namespace + "data")
        if isinstance(n, NamedNode)
    ]
    for entry in graph.all(node, namespace + "graphData"):
        if isinstance(entry, NamedNode):
            found.append(NamedFile(entry.value, path_of(entry.value)))
            continue
        file = graph.one(entry, namespace + "graph") or graph.one(entry, namespace + "data")
        label = graph.one(entry, RDFS + "label")
        assert isinstance(file, NamedNode) and isinstance(label, Literal), f"unreadable graphData of {node}"
        found.append(NamedFile(label.value, path_of(file.value)))
    return tuple(found)
