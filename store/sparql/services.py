"""SERVICE calls of a query text, fetched by Quadrill's HTTP client instead of Oxigraph's.

    SERVICE <http://far/sparql> { … }   ->   SERVICE <http://127.0.0.1:PORT/KEY/0> { … }

Oxigraph sends each SERVICE call to a relay on the loopback interface. The relay of SERVICE calls queries the
endpoint with a deadline, a maximum size and the redirect rules of LOAD. The relay of SERVICE calls relabels
the blank nodes of each answer, because labels are local to one document (SPARQL 1.1 Query Results JSON Format
3.2.2), and stores the error that Oxigraph would reduce to a message. In the relay's address, KEY is a secret
of one evaluation, valid until the evaluation ends.
"""

from __future__ import annotations

import http.server
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from functools import cache
from weakref import WeakValueDictionary

from pyoxigraph import BlankNode, Triple

from ..errors import ReportedError
from ..hosts import AllowedHosts
from ..remote import Fetched, FetchEndedError, FetchError, RemoteClient, checked_term, solutions_of
from ..results import term_json
from ..terms import Term
from .guard import ServiceCall

_MOST_QUERY_BYTES = 64 << 20
_JSON = "application/sparql-results+json"


class ServiceCalls:
    """The SERVICE calls of one query evaluation, which the relay (`_ServiceRelay`, an HTTP server) answers.

    Attributes:
        text: the query text with the relay's addresses as endpoints.
    """

    def __init__(
        self,
        text: str,
        calls: Sequence[ServiceCall],
        resolve: Callable[[str], str],
        hosts: AllowedHosts,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Register the SERVICE calls with the relay, and replace their endpoints in the text.

        Args:
            text: the text that contains ``calls``.
            calls: the SERVICE calls of the text; a nested call stays for the endpoint of the outer call.
            resolve: returns the absolute IRI of an endpoint's token.
            hosts: the hosts that calls may reach.
            ended: returns True if the evaluation was stopped; all calls, even SILENT ones, then end with an
                error. The threads of the relay's HTTP server call this function.
        """
        self._failure: ReportedError | None = None
        self._client = RemoteClient(hosts, max_bytes=hosts.max_bytes, ended=ended)
        self._calls = [(resolve(call.token), call.silent) for call in calls if not call.nested]
        self._answers: dict[tuple[int, str], bytes | None] = {}
        self._lock = threading.Lock()
        address = _relay().register(self)
        pieces, at = [], 0
        for number, call in enumerate(call for call in calls if not call.nested):
            # Spaces separate the relay's address from its neighbours, as the text may have no white space
            # around the IRI.
            pieces += [text[at : call.start], f" <{address}/{number}> "]
            at = call.end
        self.text = "".join([*pieces, text[at:]])

    def require_success(self) -> None:
        """Raise the first error of a SERVICE call without SILENT, if there is one."""
        failure = self.take_failure()
        if failure is not None:
            raise failure

    def take_failure(self) -> ReportedError | None:
        """Return and remove the error that `require_success` would raise; None if no call failed.

        The error of a SERVICE call must not stay here: a raised error refers to the evaluation, whose
        iterators must be freed in the thread that made them and not in the thread that runs the garbage
        collector.
        """
        failure, self._failure = self._failure, None
        return failure

    def fail(self, error: ReportedError) -> None:
        """Store the error of a SERVICE call, unless an earlier call has failed already."""
        if self._failure is None:
            self._failure = error.with_traceback(None)

    def answer(self, number: int, query: str) -> bytes | None:
        """Return the answer of a SERVICE call as SPARQL Results JSON; None if the call failed.

        Each answer of an endpoint is fetched once and cached for the evaluation, so that its blank nodes stay
        the same.
        """
        with self._lock:
            if (number, query) not in self._answers:
                self._answers[number, query] = self._fetched(number, query)
            return self._answers[number, query]

    def _fetched(self, number: int, query: str) -> bytes | None:
        endpoint, silent = self._calls[number]
        try:
            return with_fresh_blank_nodes(self._client.query(endpoint, query))
        except ReportedError as error:
            if not silent or isinstance(error, FetchEndedError):
                self.fail(error)
            return None


def with_fresh_blank_nodes(document: Fetched) -> bytes:
    """Return the solutions of an endpoint's answer as SPARQL Results JSON with new blank node labels.

    Raises: FetchError if the answer is no SPARQL result of a SELECT query.
    """
    try:
        return _with_fresh_labels(document)
    except (SyntaxError, ValueError) as error:
        # Drop the error's traceback: its frames hold an iterator that must be freed in this thread.
        raise FetchError(
            f"<{document.iri}> answered with a malformed SPARQL result: {error}"
        ) from error.with_traceback(None)


def _with_fresh_labels(document: Fetched) -> bytes:
    solutions = solutions_of(document)
    names = [variable.value for variable in solutions.variables]
    nodes: dict[str, BlankNode] = {}
    rows = [
        {
            name: term_json(_relabelled(checked_term(term), nodes))  # type: ignore[arg-type]
            for name, term in zip(names, solution, strict=True)
            if term is not None
        }
        for solution in solutions
    ]
    return json.dumps({"head": {"vars": names}, "results": {"bindings": rows}}).encode()


def _relabelled(term: Term, nodes: dict[str, BlankNode]) -> Term:
    if isinstance(term, BlankNode):
        return nodes.setdefault(term.value, BlankNode())
    if isinstance(term, Triple):
        subject, value = _relabelled(term.subject, nodes), _relabelled(term.object, nodes)
        return Triple(subject, term.predicate, value)  # type: ignore[arg-type]
    return term


class _ServiceRelay:
    """The HTTP server on the loopback interface to which Oxigraph sends SERVICE calls; one per process."""

    def __init__(self) -> None:
        self._evaluations: WeakValueDictionary[str, ServiceCalls] = WeakValueDictionary()
        relay = self

        class Handler(_RelayHandler):
            def calls(self, key: str) -> ServiceCalls | None:
                return relay._evaluations.get(key)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="quadrill-service", daemon=True).start()

    def register(self, calls: ServiceCalls) -> str:
        """Register an evaluation's SERVICE calls; return their address, valid while ``calls`` lives."""
        key = secrets.token_urlsafe(24)
        self._evaluations[key] = calls
        return f"http://127.0.0.1:{self._server.server_port}/{key}"


_relay = cache(_ServiceRelay)


class _RelayHandler(http.server.BaseHTTPRequestHandler):
    timeout = 30
    """Seconds without data after which the relay of SERVICE calls closes a connection."""

    def calls(self, key: str) -> ServiceCalls | None:
        raise NotImplementedError

    def do_POST(self) -> None:
        key, _, number = self.path.removeprefix("/").partition("/")
        calls, length = self.calls(key), int(self.headers.get("Content-Length") or 0)
        if calls is None or not number.isdecimal() or length > _MOST_QUERY_BYTES:
            self.send_error(404)
            return
        body = None
        try:
            body = calls.answer(int(number), self.rfile.read(length).decode())
        except Exception as error:
            calls.fail(FetchError(f"{type(error).__name__}: {error}"))
        self.send_response(502 if body is None else 200)
        body = body or b""
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log no requests, because their addresses contain secret keys."""
