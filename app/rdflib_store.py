"""An rdflib store over a running server: ``Graph(store="Quadrill")``, ``Dataset(store="Quadrill")``.

Writes are collected and sent together: before any read, at ``commit()`` and ``close()``, when many are
waiting, and when the program ends. ``rollback()`` forgets what was not sent.

Blank nodes keep their identity within what is sent together; the server gives them labels of its own. Blank
nodes that came from the server can be looked up, but not removed: no update can name one.
"""

from __future__ import annotations

import io
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import httpx
from rdflib import BNode, Graph, Literal, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.serializers.nt import _quoteLiteral
from rdflib.query import Result
from rdflib.store import VALID_STORE, Store

BATCH = 10_000
_ACCEPT = "application/sparql-results+json, application/n-triples;q=0.9"
_UNION = "__UNION__"

Pattern: TypeAlias = "tuple[Any, Any, Any]"


class QuadrillStoreError(Exception):
    """The server refused a request, or cannot be reached."""


class _BufferedClient:
    """The client and the quads that wait; apart from the store, which may be gone when the program ends."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=url.rstrip("/") + "/", headers=headers, timeout=timeout)
        self.waiting: list[str] = []
        self.with_blank = False

    def send(self, path: str, body: str, media_type: str, **parameters: str) -> httpx.Response:
        """POST, with problems as exceptions."""
        headers = {"Content-Type": media_type, "Accept": _ACCEPT}
        try:
            answer = self.client.post(path, content=body.encode(), headers=headers, params=parameters)
        except httpx.HTTPError as error:
            raise QuadrillStoreError(f"{self.client.base_url} cannot be reached: {error}") from error
        if answer.is_success:
            return answer
        try:
            problem = answer.json()
        except ValueError:
            problem = {"detail": answer.text[:200]}
        hint = f" {problem['hint']}" if "hint" in problem else ""
        raise QuadrillStoreError(f"{answer.status_code}: {problem.get('detail')}{hint}")

    def flush(self) -> None:
        """Send what waits, as one commit."""
        if self.waiting:
            self.send("store", "".join(self.waiting), "application/n-quads")
            self.forget()

    def forget(self) -> None:
        self.waiting, self.with_blank = [], False

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self.client.close()


class QuadrillStore(Store):
    """See the module. The configuration is the server's address, or a mapping with url, token, timeout.

    Raises: QuadrillStoreError from every method that asks the server.
    """

    context_aware = True
    graph_aware = True
    transaction_aware = True
    formula_aware = False

    def __init__(self, configuration: str | Mapping[str, Any] | None = None, identifier: Any = None) -> None:
        self._connection: _BufferedClient | None = None
        self._finalizer: Any = None
        self._prefixes: dict[str, URIRef] = {}
        super().__init__(identifier=identifier)
        if configuration is not None:
            self.open(configuration)

    # --- life ---------------------------------------------------------------------------------

    def open(self, configuration: Any, create: bool = False) -> int | None:
        """Connect to a server; ``create`` has no meaning here."""
        self.close()
        options: dict[str, Any] = (
            {"url": configuration} if isinstance(configuration, str) else dict(configuration)
        )
        unknown = set(options) - {"url", "token", "timeout"}
        if unknown or "url" not in options:
            raise ValueError("the configuration is an address, or a mapping with url, token, timeout")
        self._connection = _BufferedClient(options["url"], options.get("token"), options.get("timeout", 60.0))
        self._finalizer = weakref.finalize(self, self._connection.close)
        return VALID_STORE

    def close(self, commit_pending_transaction: bool = True) -> None:
        """Send what waits, unless told otherwise, and disconnect."""
        if self._connection is not None:
            if not commit_pending_transaction:
                self._connection.forget()
            self._connection = None
            self._finalizer()

    def commit(self) -> None:
        """Send what waits: one atomic commit of the server."""
        self._server().flush()

    def rollback(self) -> None:
        """Forget what was not sent yet."""
        self._server().forget()

    # --- writing ------------------------------------------------------------------------------

    def add(self, triple: Pattern, context: Any, quoted: bool = False) -> None:
        """Add a triple to the graph ``context``."""
        server = self._server()
        graph = _graph_of(context)
        server.waiting.append(" ".join(map(_text, (*triple, *([graph] if graph else [])))) + " .\n")
        server.with_blank |= any(isinstance(term, BNode) for term in triple)
        # Blank nodes of one document must go together: they would become different ones otherwise.
        if len(server.waiting) >= BATCH and not server.with_blank:
            server.flush()

    def addN(self, quads: Iterable[Any]) -> None:
        """Add quads."""
        for subject, predicate, object_, context in quads:
            self.add((subject, predicate, object_), context)

    def remove(self, triple: Pattern, context: Any = None) -> None:
        """Remove what matches, from one graph or without ``context`` from all."""
        if any(isinstance(term, BNode) for term in triple):
            raise QuadrillStoreError("a blank node of the server cannot be named in an update")
        pattern = _pattern(triple)
        everywhere = f"DELETE WHERE {{ {pattern} }} ; DELETE WHERE {{ GRAPH ?g {{ {pattern} }} }}"
        if context is None:
            self.update(everywhere)
        else:
            self.update(f"DELETE WHERE {{ {_within(pattern, context)} }}")

    def add_graph(self, graph: Any) -> None:
        """List a graph, also an empty one."""
        if (name := _graph_of(graph)) is not None:
            self.update(f"CREATE SILENT GRAPH {name.n3()}")

    def remove_graph(self, graph: Any) -> None:
        """Drop a graph; the default graph is emptied."""
        name = _graph_of(graph)
        self.update("DROP DEFAULT" if name is None else f"DROP SILENT GRAPH {name.n3()}")

    def update(
        self,
        update: Any,
        initNs: Mapping[str, Any] | None = None,
        initBindings: Mapping[str, Any] | None = None,
        queryGraph: Any = None,
        **_options: Any,
    ) -> None:
        """Run an update on the server. What it cannot express rdflib's own engine does, triple by triple."""
        named = queryGraph is not None and queryGraph != _UNION and _graph_of(queryGraph) is not None
        if not isinstance(update, str) or initBindings or named:
            raise NotImplementedError
        server = self._server()
        server.flush()
        server.send("update", _prologue(initNs) + update, "application/sparql-update")

    # --- reading ------------------------------------------------------------------------------

    def query(
        self,
        query: Any,
        initNs: Mapping[str, Any] | None = None,
        initBindings: Mapping[str, Any] | None = None,
        queryGraph: Any = None,
        **_options: Any,
    ) -> Result:
        """Ask the server. Prepared queries and bindings of blank nodes are left to rdflib's own engine."""
        bindings = dict(initBindings or {})
        if not isinstance(query, str) or any(isinstance(term, BNode) for term in bindings.values()):
            raise NotImplementedError
        if bindings:
            names = " ".join(f"?{name}" for name in bindings)
            query += f"\nVALUES ( {names} ) {{ ( {' '.join(map(_text, bindings.values()))} ) }}"
        parameters = {}
        if queryGraph == _UNION:
            parameters["union-default-graph"] = "true"
        elif queryGraph is not None and (name := _graph_of(queryGraph)) is not None:
            parameters["default-graph-uri"] = str(name)
        return self._ask(_prologue(initNs) + query, **parameters)

    def triples(
        self, triple_pattern: Pattern, context: Any = None
    ) -> Iterator[tuple[Pattern, Iterator[Graph]]]:
        """The matching triples, with the graphs that hold them; without ``context`` from all graphs."""
        pattern = _pattern(triple_pattern)
        where = _everywhere(pattern) if context is None else _within(pattern, context)
        found: dict[Pattern, list[Graph]] = {}
        for row in self._ask(f"SELECT * {{ {where} }}").bindings:
            triple = tuple(
                row.get(Variable(name), term) for name, term in zip("spo", triple_pattern, strict=True)
            )
            # A blank node in a pattern of SPARQL is a variable: which one it was is told by its label.
            if all(
                not isinstance(wanted, BNode) or wanted == term
                for wanted, term in zip(triple_pattern, triple, strict=True)
            ):
                graph = context if context is not None else self._graph(row.get(Variable("g")))
                found.setdefault(triple, []).append(graph)
        for triple, graphs in found.items():
            yield triple, iter(graphs)

    def __len__(self, context: Any = None) -> int:
        """The number of triples in a graph, or in all graphs together."""
        where = _everywhere("?s ?p ?o") if context is None else _within("?s ?p ?o", context)
        text = f"SELECT (COUNT(*) AS ?n) {{ SELECT DISTINCT ?s ?p ?o {{ {where} }} }}"
        return int(str(self._ask(text).bindings[0][Variable("n")]))

    def contexts(self, triple: Pattern | None = None) -> Iterator[Graph]:  # type: ignore[override]
        """The named graphs; with a triple the graphs that hold it."""
        if triple is not None and any(triple):
            for _triple, graphs in self.triples(triple):
                yield from graphs
            return
        for row in self._ask("SELECT ?g { GRAPH ?g {} }").bindings:
            yield self._graph(row[Variable("g")])

    # --- prefixes, kept on this side ----------------------------------------------------------

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        """Keep a prefix for this store."""
        if override or prefix not in self._prefixes:
            self._prefixes = {name: iri for name, iri in self._prefixes.items() if iri != namespace}
            self._prefixes[prefix] = namespace

    def prefix(self, namespace: URIRef) -> str | None:
        """The prefix of a namespace."""
        return next((name for name, iri in self._prefixes.items() if iri == namespace), None)

    def namespace(self, prefix: str) -> URIRef | None:
        """The namespace of a prefix."""
        return self._prefixes.get(prefix)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        """All prefixes."""
        yield from self._prefixes.items()

    # ------------------------------------------------------------------------------------------

    def _server(self) -> _BufferedClient:
        if self._connection is None:
            raise QuadrillStoreError("the store is not open: call open() with the server's address")
        return self._connection

    def _graph(self, name: Any) -> Graph:
        return Graph(store=self, identifier=DATASET_DEFAULT_GRAPH_ID if name is None else name)

    def _ask(self, text: str, **parameters: str) -> Result:
        server = self._server()
        server.flush()
        answer = server.send("query", text, "application/sparql-query", **parameters)
        if answer.headers["Content-Type"].startswith("application/n-triples"):
            result = Result("CONSTRUCT")
            result.graph = Graph().parse(data=answer.text, format="nt")
            return result
        return Result.parse(io.BytesIO(answer.content), format="json")


def _graph_of(context: Any) -> URIRef | None:
    """The name of a graph; None for the default graph, and for a graph that has only an accidental name."""
    name = getattr(context, "identifier", context)
    return name if isinstance(name, URIRef) and name != DATASET_DEFAULT_GRAPH_ID else None


def _pattern(triple: Pattern) -> str:
    return " ".join(
        f"?{name}" if term is None or isinstance(term, BNode) else _text(term)
        for name, term in zip("spo", triple, strict=True)
    )


def _within(pattern: str, context: Any) -> str:
    name = _graph_of(context)
    return pattern if name is None else f"GRAPH {name.n3()} {{ {pattern} }}"


def _everywhere(pattern: str) -> str:
    return f"{{ {pattern} }} UNION {{ GRAPH ?g {{ {pattern} }} }}"


def _text(term: Any) -> str:
    return str(_quoteLiteral(term)) if isinstance(term, Literal) else str(term.n3())


def _prologue(prefixes: Mapping[str, Any] | None) -> str:
    return "".join(f"PREFIX {name}: <{iri}> " for name, iri in (prefixes or {}).items())
