"""HTTP fetches from allowed hosts: RDF documents (LOAD, FROM) and answers of SPARQL endpoints.

Every outbound request and redirect checks that the host is allowed, and has a deadline and a maximum size.
Outbound requests never use proxies or credentials of the environment.
"""

from __future__ import annotations

import gzip
import io
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin

from pyoxigraph import Literal, Quad, QueryResultsFormat, QuerySolutions, Triple, parse_query_results

from .documents.parsing import is_untagged
from .errors import LimitError, StoreError
from .formats import RdfType, guess_rdf_format, parse_rdf, rdf_format, split_media_type
from .hosts import AllowedHosts
from .terms import Solution, Term

if TYPE_CHECKING:
    import httpx

ACCEPT = (
    "text/turtle, application/n-triples, application/rdf+xml;q=0.9, application/trig;q=0.8, "
    "application/n-quads;q=0.8, application/ld+json;q=0.7"
)
ACCEPT_ROWS = (
    "application/sparql-results+json, application/sparql-results+xml;q=0.8, text/tab-separated-values;q=0.5"
)
_XML_TYPES = ("application/xml", "text/xml")
"""Media types that servers use for RDF/XML documents besides application/rdf+xml of RFC 3870."""
_GZIP_MAGIC = b"\x1f\x8b"
_REDIRECTS = 5
_SEE_OTHER = 303


class FetchError(StoreError):
    """A document could not be fetched, or a SPARQL endpoint returned no usable answer: HTTP 502."""

    code = "fetch-failed"
    status = 502


class FetchTimeoutError(FetchError):
    """The remote host sent no complete answer before the deadline: HTTP 504."""

    code = "fetch-timeout"
    status = 504


class FetchEndedError(FetchError):
    """The caller of a fetch was stopped before the remote host had answered."""


class FetchRefusedError(FetchError):
    """The remote host answered with an HTTP status other than 200, which is in ``answered``."""

    def __init__(self, message: str, answered: int) -> None:
        super().__init__(message)
        self.answered = answered


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched document: its bytes, media type (None if unknown) and IRI after redirects."""

    body: bytes
    media_type: str | None
    iri: str
    etag: str | None = None
    last_modified: str | None = None


Fetcher: TypeAlias = Callable[[str], Fetched]


class RemoteClient:
    """An HTTP client for allowed hosts; each call opens a separate connection, from any thread."""

    def __init__(
        self,
        hosts: AllowedHosts,
        *,
        timeout_s: float | None = None,
        max_bytes: int = 256 * 1024 * 1024,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create a client.

        Args:
            hosts: the hosts that may be reached.
            timeout_s: the maximum duration of one call in seconds, redirects and body included; by default
                ``hosts.seconds``.
            max_bytes: the maximum size of a decompressed body.
            ended: called several times a second; a call is stopped when it returns True.
        """
        self.hosts = hosts
        self._ended = ended
        self._timeout_s = hosts.seconds if timeout_s is None else timeout_s
        self._max_bytes = max_bytes

    def until(self, ended: Callable[[], bool]) -> RemoteClient:
        """Return an HTTP client with the same limits whose calls end when ``ended`` is True."""
        return RemoteClient(self.hosts, timeout_s=self._timeout_s, max_bytes=self._max_bytes, ended=ended)

    def get(
        self,
        iri: str,
        *,
        etag: str | None = None,
        last_modified: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Fetched | None:
        """Fetch an RDF document; return None if the document with that ETag or date is unchanged.

        The argument ``headers`` replaces the default Accept header. After a redirect to another host or from
        https to http, only the Accept header is sent.

        Raises:
            NetworkRefusedError: the host, or the host of a redirect, is not allowed.
            FetchError: the document could not be fetched.
            LimitError: the document is too large.
        """
        asked = {"Accept": ACCEPT} if headers is None else dict(headers)
        if etag is not None:
            asked["If-None-Match"] = etag
        if last_modified is not None:
            asked["If-Modified-Since"] = last_modified
        known = etag is not None or last_modified is not None
        return self._request("GET", iri, asked, None, conditional=known)

    def query(self, endpoint: str, text: str) -> Fetched:
        """Send a query to a SPARQL endpoint as a form (SPARQL 1.1 Protocol, section 2.1.2).

        Raises: the errors of `RemoteClient.get`.
        """
        answer = self._request("POST", endpoint, {"Accept": ACCEPT_ROWS}, {"query": text})
        assert answer is not None
        return answer

    def _request(
        self,
        method: str,
        iri: str,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None,
        *,
        conditional: bool = False,
    ) -> Fetched | None:
        # The HTTP library is imported here, because it takes half of the start of a process that evaluates
        # queries.
        import httpx

        from .network.exchange import BodyTooLongError, Exchanges, ExchangeStoppedError, blocks

        target, until = iri, time.monotonic() + self._timeout_s
        try:
            with Exchanges(self._ended) as exchanges:
                for _ in range(_REDIRECTS + 1):
                    self.hosts.require(target, "fetching")
                    left = max(0.001, until - time.monotonic())
                    with exchanges.exchange(method, target, left, headers=headers, form=form) as response:
                        if response.status_code == 304 and conditional:
                            return None
                        if response.has_redirect_location:
                            before, target = target, urljoin(target, response.headers["location"])
                            if not _same_host(httpx.URL(before), httpx.URL(target)):
                                # Headers meant for one host are not sent to another host, nor from
                                # https to http.
                                headers = {"Accept": headers.get("Accept", "*/*")}
                            if response.status_code == _SEE_OTHER:
                                method, form = "GET", None
                            continue
                        if response.status_code != 200:
                            raise FetchRefusedError(
                                f"<{target}> answered with status {response.status_code}",
                                response.status_code,
                            )
                        return Fetched(
                            self._unpacked(b"".join(blocks(response, self._max_bytes)), target),
                            response.headers.get("content-type"),
                            target,
                            response.headers.get("etag"),
                            response.headers.get("last-modified"),
                        )
        except httpx.TimeoutException as error:
            raise FetchTimeoutError(
                f"<{target}> could not be fetched: it took longer than {self._timeout_s:g} seconds"
            ) from error
        except BodyTooLongError as error:
            raise LimitError(f"<{target}> is longer than the limit of {self._max_bytes:,} bytes") from error
        except ExchangeStoppedError as error:
            raise FetchEndedError(f"<{target}> is not waited for any more") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise FetchError(f"<{target}> could not be fetched: {error or type(error).__name__}") from error
        raise FetchError(f"<{iri}> redirects more than {_REDIRECTS} times")

    def _unpacked(self, body: bytes, target: str) -> bytes:
        """Return the body of a response, decompressed if the body is a gzip file such as .ttl.gz."""
        if not body.startswith(_GZIP_MAGIC):
            return body
        try:
            with gzip.open(io.BytesIO(body)) as file:
                unpacked = file.read(self._max_bytes + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FetchError(f"<{target}> is a damaged gzip file: {error}") from error
        if len(unpacked) > self._max_bytes:
            raise LimitError(
                f"<{target}> is longer than the limit of {self._max_bytes:,} bytes when unpacked"
            )
        return unpacked


def _same_host(before: httpx.URL, after: httpx.URL) -> bool:
    """Return True if a redirect stays on the same host and does not leave HTTPS."""
    return before.netloc == after.netloc and (before.scheme != "https" or after.scheme == "https")


def fetch_rdf(fetcher: Fetcher, iri: str) -> list[Quad]:
    """Fetch and parse an RDF document; its blank nodes get new labels.

    Raises:
        FetchError: the document cannot be fetched, or its format is not known.
        NetworkRefusedError, LimitError: the errors of `RemoteClient.get`.
        RdfSyntaxError: the document is malformed.
    """
    return rdf_of(fetcher(iri))


def rdf_of(document: Fetched, *, rename_blank_nodes: bool = True) -> list[Quad]:
    """Parse a fetched RDF document and return its quads.

    Raises:
        FetchError: the format of the document is not known.
        RdfSyntaxError: the document is malformed.
    """
    format_ = _document_format(document)
    if format_ is None:
        raise FetchError(
            f"<{document.iri}> has the media type {document.media_type or 'none'}, "
            "which is not an RDF format",
            hint="the server must name the RDF format in Content-Type, or the IRI end in .ttl, .nt, .rdf ...",
        )
    return list(
        parse_rdf(document.body, format_, base_iri=document.iri, rename_blank_nodes=rename_blank_nodes)
    )


def _document_format(document: Fetched) -> RdfType | None:
    """Return a document's RDF format by media type, else by the ending of its IRI; None if unknown."""
    media_type = split_media_type(document.media_type or "")[0]
    return (
        rdf_format(media_type)
        or guess_rdf_format(document.iri)
        or (rdf_format("application/rdf+xml") if media_type in _XML_TYPES else None)
    )


def rows_of(document: Fetched, columns: tuple[str, ...], max_rows: int) -> list[Solution]:
    """Return the solutions in a SPARQL endpoint's answer, with terms in the order of ``columns``.

    Raises:
        FetchError: the endpoint's answer is no SPARQL result of a SELECT.
        LimitError: the answer has more rows than ``max_rows``.
    """
    try:
        rows = _rows(document, columns, max_rows + 1)
    except (SyntaxError, ValueError) as error:
        # The error's traceback is dropped, because its frames refer to an iterator that must end in this
        # thread.
        raise FetchError(
            f"<{document.iri}> answered with a malformed SPARQL result: {error}"
        ) from error.with_traceback(None)
    if len(rows) > max_rows:
        raise LimitError(f"<{document.iri}> answered with more than {max_rows:,} rows")
    return rows


def solutions_of(document: Fetched) -> QuerySolutions:
    """Return an iterator of an endpoint's solutions, which must be exhausted in this thread.

    Raises:
        FetchError: the endpoint's answer is no SPARQL result of a SELECT.
        SyntaxError, ValueError: the answer is malformed; the iterator may raise these errors, too.
    """
    media = (document.media_type or "").partition(";")[0].strip()
    format_ = QueryResultsFormat.from_media_type(media)
    if format_ is None:
        raise FetchError(
            f"<{document.iri}> answered with the media type {media or 'none'}, which is no SPARQL result",
            hint="is it the address of a SPARQL endpoint?",
        )
    found = parse_query_results(document.body, format_)
    if not isinstance(found, QuerySolutions):
        raise FetchError(f"<{document.iri}> answered with a boolean where solutions were asked for")
    return found


def _rows(document: Fetched, columns: tuple[str, ...], most: int) -> list[Solution]:
    """Return at most ``most`` solutions of an endpoint's answer; Oxigraph's iterator ends with this call."""
    found = solutions_of(document)
    names = [variable.value for variable in found.variables]
    places = [names.index(column) if column in names else None for column in columns]
    return [
        tuple(None if place is None else checked_term(solution[place]) for place in places)
        for solution in islice(found, most)
    ]


def checked_term(term: Term | None) -> Term | None:
    """Check and return a term of an endpoint's answer.

    Raises:
        SyntaxError: a literal lacks the language tag that its datatype requires.
    """
    if type(term) in _MAY_BE_UNTAGGED and is_untagged(term):
        raise SyntaxError(f"the literal {term} has no language tag, which its datatype requires")
    return term


_MAY_BE_UNTAGGED = frozenset((Literal, Triple))


class HttpFetcher:
    """A fetcher for LOAD that reaches allowed hosts only."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    def __call__(self, iri: str) -> Fetched:
        """Fetch a document for LOAD; raises the errors of `RemoteClient.get`."""
        document = self._client.get(iri)
        assert document is not None  # only a conditional request may get 304 Not Modified
        return document

    def until(self, ended: Callable[[], bool]) -> HttpFetcher:
        """Return a fetcher for LOAD whose calls end when ``ended`` is True."""
        return HttpFetcher(self._client.until(ended))


def without_secrets(iri: str) -> str:
    """Return an IRI without its user, query and fragment, which may contain passwords and tokens."""
    scheme, slashes, rest = iri.partition("?")[0].partition("#")[0].partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path}"


def ending(fetcher: Fetcher, ended: Callable[[], bool]) -> Fetcher:
    """Return a fetcher for LOAD whose calls over HTTP end when ``ended`` is True."""
    return fetcher.until(ended) if isinstance(fetcher, HttpFetcher) else fetcher


def http_fetcher(
    hosts: AllowedHosts, *, timeout_s: float | None = None, max_bytes: int = 256 * 1024 * 1024
) -> HttpFetcher:
    """Make a fetcher for LOAD that reaches allowed hosts only."""
    return HttpFetcher(RemoteClient(hosts, timeout_s=timeout_s, max_bytes=max_bytes))
