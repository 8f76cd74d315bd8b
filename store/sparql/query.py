"""One-shot SPARQL queries: results that know the version of the store and stay in the thread that made them.

Oxigraph's iterators hold a snapshot and may be used only in the thread that created them; the use of an
iterator in another thread ends the process. `QueryResult` raises an error instead if another thread uses it.
Deeply nested texts are evaluated in a thread with a big stack, which returns the complete result.
"""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeAlias

from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    NamedNode,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    QueryTriples,
    RdfFormat,
    Store,
    Triple,
    parse_query_results,
    serialize,
)

from ..documents.serialising import serialising
from ..documents.stored_lines import parse_stored_quads
from ..documents.wall_clock import require_epoch
from ..errors import DAMAGED, QueryTextError, ReportedError, StoreError, StoreFormatError, UnsupportedError
from ..hosts import AllowedHosts
from ..terms import Solution, Term
from ..threads import with_big_stack
from .guard import TextFacts, TextLimits, check_services
from .iris import resolve_iri
from .scan import inspect_text, query_prologue
from .services import ServiceCalls
from .text_errors import text_error

Graphs: TypeAlias = Sequence[NamedNode | BlankNode | DefaultGraph]

_UNKNOWN_FUNCTION = re.compile(r"The custom (?:aggregate )?function <([^>]*)> is not supported")


class QueryFailedError(StoreError):
    """The evaluation of a SPARQL query failed."""

    code = "query-failed"


class QueryRequest(NamedTuple):
    """A SPARQL query with the parameters of the SPARQL 1.1 Protocol.

    Attributes:
        text: the SPARQL query text.
        base_iri: resolves relative IRIs if the text has no BASE.
        prefixes: prefix declarations that precede those of the text.
        default_graphs: the graphs of ``default-graph-uri``. ``default_graphs`` and ``named_graphs`` together
            are the whole dataset and override FROM (SPARQL 1.1 Protocol 2.1.4); if only one is None, it is
            empty.
        named_graphs: the graphs of ``named-graph-uri``.
        union: True if the default graph is the union of all graphs; ignored if graphs are given.
        added_graphs: graphs that the default graph includes in addition; FROM and FROM NAMED of the text must
            then be given as ``default_graphs`` and ``named_graphs``.
        hidden_graphs: graphs that are left out of the dataset; FROM as with ``added_graphs``.
        custom_functions: extension functions by their IRIs.
        custom_aggregates: extension aggregates: factories of objects with ``accumulate`` and ``finish``.
        text_facts: the guard's findings about the text, if known (`scan.SimilarTexts`).
        check: called at the start, at each row that `QueryResult.rows` yields, and at the end; raises the
            error that a custom function could not raise.
        ended: returns True if the evaluation was stopped, so that SERVICE calls end; called in other threads.
    """

    text: str
    base_iri: str | None = None
    prefixes: Mapping[str, str] | None = None
    default_graphs: Graphs | None = None
    named_graphs: Sequence[NamedNode | BlankNode] | None = None
    union: bool = False
    added_graphs: Graphs = ()
    hidden_graphs: frozenset[NamedNode | BlankNode | DefaultGraph] = frozenset()
    custom_functions: Mapping[NamedNode, Callable[..., Term | None]] | None = None
    custom_aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None
    text_facts: TextFacts | None = None
    check: Callable[[], None] | None = None
    ended: Callable[[], bool] | None = None


class QueryResult:
    """The result of one SPARQL query; a context manager that only the thread that made it may use and close.

    Attributes:
        version: the version of the store that the result shows (see `StoreReader.query` for its exactness).
        boolean: the value of an ASK query; None for other query forms.
    """

    def __init__(
        self,
        raw: QuerySolutions | QueryBoolean | QueryTriples | _Drained,
        version: int,
        check: Callable[[], None] | None = None,
        calls: ServiceCalls | None = None,
    ) -> None:
        if calls is not None:
            check = both(calls.require_success, check)
        self._calls = calls
        self._check = check
        self._raw: QuerySolutions | QueryBoolean | QueryTriples | _Drained | None = raw
        self._thread = threading.get_ident()
        self.version = version
        self.boolean: bool | None = bool(raw) if isinstance(raw, QueryBoolean) else None
        if check is not None:
            check()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a SELECT query, in order; the result must be open."""
        raw = self._own()
        return tuple(variable.value for variable in raw.variables) if isinstance(raw, QuerySolutions) else ()

    @property
    def kind(self) -> str:
        """The kind of the query's result: ``solutions``, ``boolean`` or ``graph``."""
        if self.boolean is not None:
            return "boolean"
        return "solutions" if isinstance(self._raw, QuerySolutions) else "graph"

    def rows(self) -> Iterator[Solution]:
        """Iterate over the solutions of a SELECT query; each is a tuple in the order of ``variables``."""
        raw = self._own()
        if not isinstance(raw, QuerySolutions):
            raise StoreError(f"the query gives a {self.kind}, not solutions")
        try:
            if self._check is None:
                for solution in raw:
                    yield tuple(solution)
                return
            for solution in raw:
                self._check()
                yield tuple(solution)
            self._check()
        except (RuntimeError, OSError) as error:
            raise self._failure(error) from error

    def triples(self) -> Iterator[Triple]:
        """Iterate over the triples of a CONSTRUCT or DESCRIBE query."""
        raw = self._own()
        if isinstance(raw, (QuerySolutions, QueryBoolean)):
            raise StoreError(f"the query gives {self.kind}, not a graph")
        try:
            yield from raw
        except (RuntimeError, OSError) as error:
            raise self._failure(error) from error
        if self._check is not None:
            self._check()

    def serialize_to(
        self,
        writer: IO[bytes],
        format: QueryResultsFormat | RdfFormat,
        *,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        """Write the whole result in blocks of some kilobytes; an exception of ``writer.write`` ends the call.

        Args:
            writer: any object with ``write(bytes)``.
            format: a results format for SELECT and ASK, an RDF format for CONSTRUCT and DESCRIBE.
            prefixes: prefixes for RDF formats that have prefixes.

        Raises:
            QueryFailedError: the evaluation failed after the first row.
            NotExpressibleError: the RDF format cannot express a term of the graph.
        """
        raw = self._own()
        try:
            match raw:
                case QuerySolutions() | QueryBoolean():
                    if not isinstance(format, QueryResultsFormat):
                        raise StoreError(f"the query gives {self.kind}, which has no RDF form")
                    raw.serialize(writer, format)
                case _:
                    if not isinstance(format, RdfFormat):
                        raise StoreError("the query gives a graph, which has no results form")
                    with serialising():
                        if prefixes is None and isinstance(raw, QueryTriples):
                            raw.serialize(writer, format)
                        else:
                            serialize(raw, writer, format, prefixes=dict(prefixes or {}))
            if self._check is not None:
                self._check()
        except RuntimeError as error:
            raise self._failure(error) from error
        finally:
            self.close()

    def _failure(self, error: Exception) -> ReportedError:
        """Return the error of a failed SERVICE call, or else ``error`` as an error of the store."""
        failed = None if self._calls is None else self._calls.take_failure()
        return failed or evaluation_error(error)

    def close(self) -> None:
        """Release the result's snapshot; do nothing in any thread but the one that made the result."""
        if threading.get_ident() == self._thread:
            self._raw = None

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own(self) -> QuerySolutions | QueryBoolean | QueryTriples | _Drained:
        if threading.get_ident() != self._thread:
            raise StoreError(
                "a query result was used in another thread than the one that made it",
                hint="drain the result where the query was asked, and hand over the rows",
            )
        if self._raw is None:
            raise StoreError("the query result is closed")
        return self._raw


_Drained: TypeAlias = "list[Triple]"


class Querier:
    """An evaluator of SPARQL queries on one Oxigraph store."""

    def __init__(self, store: Store, limits: TextLimits, hosts: AllowedHosts) -> None:
        self.database = store
        self._limits = limits
        self._hosts = hosts

    def use(self, store: Store) -> None:
        """Evaluate later queries on another Oxigraph store; open results keep their snapshots."""
        self.database = store

    def evaluate(self, request: QueryRequest, version: int) -> QueryResult:
        """Start the evaluation of a query on the store, which is at ``version`` or later.

        Raises:
            QueryTextError: the text has a syntax error; the error has line and column.
            UnsupportedError: the text calls an unknown function, or SERVICE with a variable.
            LimitError: the text is too long or nests too deeply.
            NetworkRefusedError: SERVICE names a host that is not allowed.
            QueryFailedError: the evaluation failed before the first row.
            FetchError: a SERVICE call without SILENT failed before the first row.
        """
        facts = request.text_facts or inspect_text(request.text, self._limits)
        calls: ServiceCalls | None = None
        if facts.services:
            if request.text_facts is not None:
                # The known findings of a similar text may lack the positions of this text's SERVICE calls.
                facts = inspect_text(request.text, self._limits)
            prologue = query_prologue(request.text)

            def resolve(token: str) -> str:
                prefixes = dict(request.prefixes or {})
                return resolve_iri(token, prologue, base_iri=request.base_iri, prefixes=prefixes).value

            check_services(facts, self._hosts, resolve)
            ended = request.ended or (lambda: False)
            calls = ServiceCalls(request.text, facts.calls, resolve, self._hosts, ended)
        if facts.height <= self._limits.inline_height:
            return QueryResult(self._start(request, calls), version, request.check, calls)
        kind, data = with_big_stack(lambda: self._drained(request, calls))
        if kind == "graph":
            return QueryResult([quad.triple for quad in parse_stored_quads(data)], version)
        return QueryResult(parse_query_results(data, QueryResultsFormat.JSON), version)

    def _drained(self, request: QueryRequest, calls: ServiceCalls | None) -> tuple[str, bytes]:
        """Return the kind and the serialised result of a query, which another thread can read."""
        result = QueryResult(self._start(request, calls), 0, request.check, calls)
        kind = result.kind
        buffer = io.BytesIO()
        result.serialize_to(buffer, RdfFormat.N_TRIPLES if kind == "graph" else QueryResultsFormat.JSON)
        return kind, buffer.getvalue()

    def _start(
        self, request: QueryRequest, calls: ServiceCalls | None
    ) -> QuerySolutions | QueryBoolean | QueryTriples:
        options = _NO_OPTIONS if request[2:] == _PLAIN else _options(request, self.database)
        if time.time_ns() < 0:
            require_epoch()
        try:
            if calls is not None:
                return self._start_with_calls(request, calls, options)
            return self.database.query(request.text, base_iri=request.base_iri, **options)
        except SyntaxError as error:
            raise text_error(
                request.text,
                str(error.msg or error),
                base_iri=request.base_iri,
                prefixes=request.prefixes or (),
            ) from error
        except ValueError as error:
            raise QueryTextError(f"the query was refused: {error}") from error
        except (RuntimeError, OSError) as error:
            if calls is not None:
                calls.require_success()
            raise evaluation_error(error) from error

    def _start_with_calls(
        self, request: QueryRequest, calls: ServiceCalls, options: dict[str, Any]
    ) -> QuerySolutions | QueryBoolean | QueryTriples:
        """Start a query whose SERVICE calls go to the relay; raises the errors of ``Store.query``."""
        try:
            return self.database.query(calls.text, base_iri=request.base_iri, **options)
        except SyntaxError:
            # The endpoints of SERVICE calls were replaced in the text, so positions in this error are wrong:
            # parse the original text for the error.
            Store().query(request.text, base_iri=request.base_iri, **options)
            raise


def both(first: Callable[[], None], second: Callable[[], None] | None) -> Callable[[], None]:
    """Return a function that calls ``first``, then ``second`` unless it is None; both may raise errors."""

    def check() -> None:
        first()
        if second is not None:
            second()

    return check


_NO_OPTIONS: dict[str, Any] = {}
_PLAIN = QueryRequest("")[2:]


def _options(request: QueryRequest, store: Store) -> dict[str, Any]:
    """Return Oxigraph's keyword arguments for a query, except for the text and its base IRI."""
    options = _dataset_options(request, store)
    if request.prefixes:
        options["prefixes"] = dict(request.prefixes)
    if request.custom_functions:
        options["custom_functions"] = dict(request.custom_functions)
    if request.custom_aggregates:
        options["custom_aggregate_functions"] = dict(request.custom_aggregates)
    return options


def _dataset_options(request: QueryRequest, store: Store) -> dict[str, Any]:
    """Return Oxigraph's keyword arguments for the dataset of a query."""
    default: Graphs = request.default_graphs or ()
    named: Graphs | None = request.named_graphs or ()
    hidden = request.hidden_graphs
    if request.default_graphs is None and request.named_graphs is None:
        if not request.added_graphs and not hidden:
            return {"use_default_graph_as_union": True} if request.union else {}
        default, named = [DefaultGraph()], None
        if hidden and (request.union or "graph" in request.text.lower()):
            named = list(store.named_graphs())
        if request.union:
            default = [*default, *(store.named_graphs() if named is None else named)]
    # Oxigraph would count the rows of a graph twice if the graph were named twice.
    options = {"default_graph": _distinct((*default, *request.added_graphs), hidden)}
    if named is not None:
        options["named_graphs"] = _distinct(named, hidden)
    return options


def _distinct(graphs: Graphs, hidden: frozenset[NamedNode | BlankNode | DefaultGraph]) -> list[Any]:
    return [name for name in dict.fromkeys(graphs) if name not in hidden]


def evaluation_error(error: Exception) -> StoreError | UnsupportedError:
    """Return Oxigraph's error of an evaluation as an error of the store."""
    unknown = _UNKNOWN_FUNCTION.search(str(error))
    if unknown is not None:
        return UnsupportedError(f"the function <{unknown.group(1)}>")
    if "Corruption:" in str(error):
        return StoreFormatError(f"the database is damaged: {error}", hint=DAMAGED)
    return QueryFailedError(f"the query failed: {error}")


def drain(result: QueryResult) -> tuple[list[str], list[Solution]]:
    """Return the variables and all solutions of a SELECT query."""
    return list(result.variables), list(result.rows())
