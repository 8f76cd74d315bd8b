"""An rdflib store over a running server: ``Graph(store="Quadrill")``, ``Dataset(store="Quadrill")``.

Triples that a program adds to the rdflib store are buffered in the program. The rdflib store sends its buffer
as one request before any read, removal or update, at ``commit()`` and ``close()``, when the buffer has
``BATCH`` triples without blank nodes, and when the store is collected or the program ends. ``rollback()`` of
the rdflib store discards the buffered triples.

Blank nodes keep their identity only within one request to the server, which assigns new labels to blank
nodes. Blank nodes that the server returned can be looked up, but not removed, since no SPARQL update can name
a blank node.
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
    """Error that the server rejected a request, or that the server cannot be reached."""


class _BufferedClient:
    """HTTP client and buffered quads of an rdflib store, as an object that outlives a collected store."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=url.rstrip("/") + "/", headers=headers, timeout=timeout)
        self.waiting: list[str] = []
        self.with_blank = False

    def send(self, path: str, body: str, media_type: str, **parameters: str) -> httpx.Response:
        """Send a POST request; raises QuadrillStoreError for an error response or an unreachable server."""
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
        """Send the buffered quads as one commit."""
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
    """rdflib store of one server; ``configuration`` is its address, or a dict with url, token, timeout.

    Raises: QuadrillStoreError from every method that sends a request.
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
        """Set up the HTTP client of a server; rdflib's argument ``create`` is ignored.

        Raises:
            ValueError: the configuration has unknown members, or no address of a server.
        """
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
        """Send buffered quads unless ``commit_pending_transaction`` is False; disconnect from the server."""
        if self._connection is not None:
            if not commit_pending_transaction:
                self._connection.forget()
            self._connection = None
            self._finalizer()

    def commit(self) -> None:
        """Send the buffered quads, which the server applies as one atomic commit."""
        self._server().flush()

    def rollback(self) -> None:
        """Discard the buffered quads, which the server has not received."""
        self._server().forget()

    # --- writing ------------------------------------------------------------------------------

    def add(self, triple: Pattern, context: Any, quoted: bool = False) -> None:
        """Add a triple to the graph ``context``."""
        server = self._server()
        graph = _graph_of(context)
        server.waiting.append(" ".join(map(_text, (*triple, *([graph] if graph else [])))) + " .\n")
        server.with_blank |= any(isinstance(term, BNode) for term in triple)
        # Buffered blank nodes must be sent in one request, because the server makes different blank nodes for
        # each request.
        if len(server.waiting) >= BATCH and not server.with_blank:
            server.flush()

    def addN(self, quads: Iterable[Any]) -> None:
        """Add quads."""
        for subject, predicate, object_, context in quads:
            self.add((subject, predicate, object_), context)

    def remove(self, triple: Pattern, context: Any = None) -> None:
        """Remove the matching triples from the graph ``context``; None removes them from all graphs.

        Raises:
            QuadrillStoreError: a term is a blank node, or the request failed.
        """
        if any(isinstance(term, BNode) for term in triple):
            raise QuadrillStoreError("a blank node of the server cannot be named in an update")
        pattern = _pattern(triple)
        everywhere = f"DELETE WHERE {{ {pattern} }} ; DELETE WHERE {{ GRAPH ?g {{ {pattern} }} }}"
        if context is None:
            self.update(everywhere)
        else:
            self.update(f"DELETE WHERE {{ {_within(pattern, context)} }}")

    def add_graph(self, graph: Any) -> None:
        """Create a graph, which exists even while it has no triples."""
        if (name := _graph_of(graph)) is not None:
            self.update(f"CREATE SILENT GRAPH {name.n3()}")

    def remove_graph(self, graph: Any) -> None:
        """Drop a named graph, or delete all triples of the default graph."""
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
        """Run an update on the server; prepared updates and bindings fall back to rdflib's own engine."""
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
        """Run a query on the server; prepared queries and blank-node bindings fall back to rdflib."""
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
        """Yield the matching triples, each with its graphs; None as ``context`` reads all graphs."""
        pattern = _pattern(triple_pattern)
        where = _everywhere(pattern) if context is None else _within(pattern, context)
        found: dict[Pattern, list[Graph]] = {}
        for row in self._ask(f"SELECT * {{ {where} }}").bindings:
            triple = tuple(
                row.get(Variable(name), term) for name, term in zip("spo", triple_pattern, strict=True)
            )
            # SPARQL treats a blank node in a pattern as a variable, so this method filters rows by the blank
            # node's label.
            if all(
                not isinstance(wanted, BNode) or wanted == term
                for wanted, term in zip(triple_pattern, triple, strict=True)
            ):
                graph = context if context is not None else self._graph(row.get(Variable("g")))
                found.setdefault(triple, []).append(graph)
        for triple, graphs in found.items():
            yield triple, iter(graphs)

    def __len__(self, context: Any = None) -> int:
        """Return the number of distinct triples in a graph, or in all graphs together."""
        where = _everywhere("?s ?p ?o") if context is None else _within("?s ?p ?o", context)
        text = f"SELECT (COUNT(*) AS ?n) {{ SELECT DISTINCT ?s ?p ?o {{ {where} }} }}"
        return int(str(self._ask(text).bindings[0][Variable("n")]))

    def contexts(self, triple: Pattern | None = None) -> Iterator[Graph]:  # type: ignore[override]
        """Yield all named graphs, or the graphs that contain ``triple``."""
        if triple is not None and any(triple):
            for _triple, graphs in self.triples(triple):
                yield from graphs
            return
        for row in self._ask("SELECT ?g { GRAPH ?g {} }").bindings:
            yield self._graph(row[Variable("g")])

    # --- methods for prefixes, which only the client stores --------------------------------------

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        """Store a prefix in this rdflib store; the server does not receive the prefix."""
        if override or prefix not in self._prefixes:
            self._prefixes = {name: iri for name, iri in self._prefixes.items() if iri != namespace}
            self._prefixes[prefix] = namespace

    def prefix(self, namespace: URIRef) -> str | None:
        """Return the prefix of a namespace that this rdflib store has, or None."""
        return next((name for name, iri in self._prefixes.items() if iri == namespace), None)

    def namespace(self, prefix: str) -> URIRef | None:
        """Return the namespace of a prefix that this rdflib store has, or None."""
        return self._prefixes.get(prefix)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        """Yield all prefixes of this rdflib store with their namespaces."""
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
    """Return a graph's IRI; None for the default graph and for a graph that a blank node names."""
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
