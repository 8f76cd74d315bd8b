"""RDF fetched over HTTP from allowed hosts: LOAD, and graphs of FROM clauses that are not in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urljoin

import httpx
from pyoxigraph import Quad

from .errors import LimitError, StoreError
from .formats import guess_rdf_format, parse_rdf, rdf_format
from .guard import AllowedHosts

ACCEPT = (
    "text/turtle, application/n-triples, application/rdf+xml;q=0.9, application/trig;q=0.8, "
    "application/n-quads;q=0.8, application/ld+json;q=0.7"
)


class FetchError(StoreError):
    """A document could not be fetched."""

    code = "fetch-failed"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document: its bytes, its media type (None: not told) and the IRI it came from in the end."""

    body: bytes
    media_type: str | None
    iri: str


Fetcher: TypeAlias = Callable[[str], Fetched]


def fetch_rdf(fetcher: Fetcher, iri: str) -> list[Quad]:
    """Fetch and parse a document; its blank nodes get fresh labels.

    Raises:
        FetchError: it cannot be fetched, or its format is not known.
        RdfSyntaxError: it is malformed.
    """
    document = fetcher(iri)
    format_ = rdf_format(document.media_type or "") or guess_rdf_format(document.iri)
    if format_ is None:
        raise FetchError(
            f"<{iri}> has the media type {document.media_type or 'none'}, which is not an RDF format",
            hint="the server must name the RDF format in Content-Type, or the IRI end in .ttl, .nt, .rdf ...",
        )
    return list(parse_rdf(document.body, format_, base_iri=document.iri))


def http_fetcher(
    hosts: AllowedHosts, *, timeout_s: float = 30.0, max_bytes: int = 256 * 1024 * 1024
) -> Fetcher:
    """A fetcher that reaches allowed hosts only, at every step of a redirect, and stops at ``max_bytes``."""

    def fetch(iri: str) -> Fetched:
        target = iri
        try:
            with httpx.Client(timeout=timeout_s, headers={"Accept": ACCEPT}, trust_env=False) as client:
                for _ in range(6):
                    hosts.require(target, "fetching")
                    with client.stream("GET", target) as response:
                        if response.is_redirect:
                            target = urljoin(target, response.headers.get("location", ""))
                            continue
                        if response.status_code != 200:
                            raise FetchError(f"<{target}> answered with status {response.status_code}")
                        body = bytearray()
                        for block in response.iter_bytes():
                            body += block
                            if len(body) > max_bytes:
                                raise LimitError(
                                    f"<{target}> is longer than the limit of {max_bytes:,} bytes"
                                )
                        return Fetched(bytes(body), response.headers.get("content-type"), target)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise FetchError(f"<{target}> could not be fetched: {error or type(error).__name__}") from error
        raise FetchError(f"<{iri}> redirects more than 5 times")

    return fetch
