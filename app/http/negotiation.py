"""Content negotiation: the RDF and result formats of the server, and the choice by Accept and Content-Type.

The server chooses the format of an answer by RFC 9110 section 12.5.1. The most specific media range of the
Accept header that matches a format gives the quality of the format; a quality of 0 excludes the format. Among
formats of the best quality, formats whose media type the client names come first; then the order of the
client decides, then the order of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from pyoxigraph import QueryResultsFormat, RdfFormat

from quadrill.store.formats import RDF_TYPES, RdfType, rdf_format
from quadrill.store.sparql.query_worker import PREFIXED

from .errors import HttpError


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed media type or range: ``text/turtle;charset=utf-8``."""

    main: str
    sub: str
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def essence(self) -> str:
        """The media type and subtype, such as ``text/turtle``, without parameters."""
        return f"{self.main}/{self.sub}"


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A format that the server can write: its media type, aliases that clients use, and its content type.

    For an offered format, Oxigraph serialises graphs in the format ``rdf`` and solutions in the format
    ``results``. If ``convert`` is set, it converts Oxigraph's bytes to the offered format, for answers of at
    most `MOST_CONVERTED` bytes.
    """

    name: str
    media_type: str
    aliases: tuple[str, ...] = ()
    content_type: str = ""
    rdf: RdfFormat | None = None
    results: QueryResultsFormat | None = None
    convert: Callable[[bytes], bytes] | None = None

    header: str = field(init=False)
    """The value of the header Content-Type for answers in this format."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", self.content_type or self.media_type)


JSON_RESULTS = Offer(
    "json",
    "application/sparql-results+json",
    ("application/json", "text/json"),
    results=QueryResultsFormat.JSON,
)
XML_RESULTS = Offer(
    "xml", "application/sparql-results+xml", ("application/xml", "text/xml"), results=QueryResultsFormat.XML
)
CSV_RESULTS = Offer(
    "csv", "text/csv", ("text/plain",), "text/csv; charset=utf-8", results=QueryResultsFormat.CSV
)
TSV_RESULTS = Offer(
    "tsv",
    "text/tab-separated-values",
    ("text/tsv",),
    "text/tab-separated-values; charset=utf-8",
    results=QueryResultsFormat.TSV,
)
RESULT_OFFERS = (JSON_RESULTS, XML_RESULTS, CSV_RESULTS, TSV_RESULTS)
# CSV and TSV have no form for a boolean (SPARQL 1.1 Query Results CSV and TSV Formats, section 1). As the CSV
# or TSV result of ASK, the server sends the word ``true`` or ``false``, as Oxigraph's server does and as
# clients that ask for text expect.

TURTLE = Offer(
    "ttl",
    "text/turtle",
    ("application/x-turtle", "application/turtle"),
    "text/turtle; charset=utf-8",
    rdf=RdfFormat.TURTLE,
)
N_TRIPLES = Offer("nt", "application/n-triples", ("text/plain",), rdf=RdfFormat.N_TRIPLES)
RDF_XML = Offer("rdf", "application/rdf+xml", ("application/xml", "text/xml"), rdf=RdfFormat.RDF_XML)
JSON_LD = Offer("jsonld", "application/ld+json", ("application/json", "text/json"), rdf=RdfFormat.JSON_LD)
N_QUADS = Offer("nq", "application/n-quads", ("text/x-nquads", "text/nquads"), rdf=RdfFormat.N_QUADS)
TRIG = Offer(
    "trig", "application/trig", ("application/x-trig",), "application/trig; charset=utf-8", rdf=RdfFormat.TRIG
)
GRAPH_OFFERS = (TURTLE, N_TRIPLES, RDF_XML, JSON_LD, N_QUADS, TRIG)
_DATASET_OFFERS = (N_QUADS, TRIG, JSON_LD)
MOST_CONVERTED = 40 << 20
# Formats that Oxigraph does not write, by name: TriX and HexTuples (codecs.py), and formats of extensions.
_registered: dict[str, Offer] = {}

# Parameters of a media range in an Accept header that do not ask for a different format.
_HARMLESS = frozenset({"q", "charset", "version", "profile"})


def register(offer: Offer) -> None:
    """Register a further format: for graphs if the offer has ``rdf``, for solutions if it has ``results``."""
    _registered[offer.name] = offer
    _forget_offers()


def unregister(name: str) -> None:
    """Remove a format that an extension registered."""
    del _registered[name]
    _forget_offers()


@cache
def result_offers() -> tuple[Offer, ...]:
    """Return the formats in which the server writes solutions."""
    return (*RESULT_OFFERS, *(each for each in _registered.values() if each.results is not None))


@cache
def graph_offers() -> tuple[Offer, ...]:
    """Return the formats in which the server writes a graph."""
    return (*GRAPH_OFFERS, *(each for each in _registered.values() if each.rdf is not None))


@cache
def dataset_offers() -> tuple[Offer, ...]:
    """Return the formats in which the server writes a whole dataset."""
    further = (each for each in _registered.values() if each.rdf is not None and each.rdf.supports_datasets)
    return (*_DATASET_OFFERS, *further)


def _forget_offers() -> None:
    for each in (result_offers, graph_offers, dataset_offers):
        each.cache_clear()


def parse_media_type(text: str) -> MediaType | None:
    """Parse a media type and its parameters, with names in lower case; return None for a malformed text."""
    essence, *rest = _split(text, ";")
    main, slash, sub = essence.strip().lower().partition("/")
    if not slash or not main or not sub or " " in main or " " in sub or "/" in sub:
        return None
    parameters = {}
    for part in rest:
        name, equals, value = part.partition("=")
        if equals:
            parameters[name.strip().lower()] = value.strip().strip('"')
    return MediaType(main, sub, parameters)


@lru_cache(maxsize=1024)
def choose(accept: str | None, offers: tuple[Offer, ...]) -> Offer:
    """Return the offered format that the client prefers; without an Accept header, the first one.

    Raises:
        HttpError: 406 when the client accepts none of the offered formats.
    """
    best = best_offer(accept, offers)
    if best is None:
        listed = ", ".join(offer.media_type for offer in offers)
        raise HttpError(
            406,
            f"none of the formats asked for ({accept}) can be written here",
            code="not-acceptable",
            hint=f"This resource has {listed}.",
        )
    return best


def best_offer(accept: str | None, offers: Sequence[Offer]) -> Offer | None:
    """Return the best offered format for an ``Accept`` header; None if the header accepts none."""
    return _best_of(accept, tuple(offers))


@lru_cache(maxsize=1024)
def _best_of(accept: str | None, offers: tuple[Offer, ...]) -> Offer | None:
    if accept is None or not accept.strip():
        return offers[0]
    ranges = [parsed for parsed in (_range(part) for part in _split(accept, ",")) if parsed is not None]
    if not ranges:
        return None
    ranked = []
    for place, offer in enumerate(offers):
        quality, specific, order = _quality(offer, ranges)
        if quality > 0:
            ranked.append((-quality, -specific, order, place, offer))
    return min(ranked, key=lambda entry: entry[:4])[4] if ranked else None


def media_ranges(accept: str | None) -> list[tuple[MediaType, float]]:
    """Return the media ranges of an ``Accept`` header with all their parameters, each with its quality."""
    found = [media for part in _split(accept or "", ",") if (media := parse_media_type(part)) is not None]
    return [(media, _number([f"q={media.parameters.get('q', 1)}"])) for media in found]


def prefixes_for(offer: Offer, prefixes: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return ``prefixes`` if the RDF format can abbreviate IRIs by prefixes; else None."""
    return prefixes if prefixes and offer.name in PREFIXED else None


def accepts(accept: str | None, media_type: str, rivals: Sequence[Offer]) -> bool:
    """Return True if the header Accept lists ``media_type`` without wildcards and with a quality above 0.

    The ``rivals`` are the other formats of the answer: the Accept header may list none of them with a greater
    quality.
    """
    ranges = [parsed for parsed in (_range(part) for part in _split(accept or "", ",")) if parsed is not None]
    named = {parsed[0].essence: parsed[1] for parsed in ranges}
    quality = named.get(media_type, 0.0)
    others = (name for offer in rivals for name in (offer.media_type, *offer.aliases))
    return quality > 0 and all(named.get(name, 0.0) <= quality for name in others)


def short_name(name: str) -> Offer | None:
    """Return the offered format for the parameter ``format``, a name such as ``json`` or a media type."""
    offers = (*RESULT_OFFERS, *GRAPH_OFFERS, *_registered.values())
    return next((offer for offer in offers if name.lower() in (offer.name, offer.media_type)), None)


@lru_cache(maxsize=256)
def accepts_gzip(header: str | None) -> bool:
    """Return True if Accept-Encoding allows gzip with a quality above 0."""
    allowed = False
    for part in _split(header or "", ","):
        coding, *rest = part.split(";")
        quality = _number(rest)
        if coding.strip().lower() in ("gzip", "x-gzip"):
            return quality > 0
        if coding.strip() == "*":
            allowed = quality > 0
    return allowed


def rdf_type(content_type: str | None) -> RdfType:
    """Return the RDF format of a request body, by the header Content-Type.

    Raises:
        HttpError: 415 when the Content-Type is missing, not RDF or in a charset other than UTF-8.
    """
    media = content_media_type(content_type)
    found = rdf_format(media.essence)
    if found is None:
        raise HttpError(
            415,
            f"bodies of type {media.essence} are not read here",
            code="unsupported-media-type",
            hint=f"RDF is read as {', '.join(kind.media_type for kind in RDF_TYPES)}.",
        )
    return found


@lru_cache(maxsize=256)
def content_media_type(content_type: str | None) -> MediaType:
    """Return the media type of a request body whose charset is UTF-8.

    Raises:
        HttpError: 415 when the Content-Type is missing, malformed or in a charset other than UTF-8.
    """
    if not content_type:
        raise HttpError(
            415,
            "the request has no Content-Type",
            code="unsupported-media-type",
            hint="Send a body, and name its type in the Content-Type header.",
        )
    media = parse_media_type(content_type)
    if media is None:
        raise HttpError(415, f"the Content-Type {content_type!r} is malformed", code="unsupported-media-type")
    charset = media.parameters.get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise HttpError(
            415,
            f"bodies must be UTF-8, this one says {charset}",
            code="unsupported-charset",
            hint="Send the body as UTF-8.",
        )
    return media


def _range(part: str) -> tuple[MediaType, float] | None:
    media = parse_media_type(part)
    if media is None:
        return None
    quality = _number([f"q={media.parameters['q']}"]) if "q" in media.parameters else 1.0
    parameters = {name: value for name, value in media.parameters.items() if name not in _HARMLESS}
    return MediaType(media.main, media.sub, parameters), quality


def _number(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def _quality(offer: Offer, ranges: list[tuple[MediaType, float]]) -> tuple[float, int, int]:
    """Return a format's quality, 1 if Accept names its media type, and the index of the best range."""
    best = (-1, 0.0, 0, len(ranges))
    for order, (wanted, quality) in enumerate(ranges):
        match = _specificity(offer, wanted)
        if match > best[0]:
            best = (match, quality, 1 if wanted.essence == offer.media_type else 0, order)
    return (best[1], best[2], best[3]) if best[0] >= 0 else (0.0, 0, 0)


def _specificity(offer: Offer, wanted: MediaType) -> int:
    """Return how a media range matches a format: -1 not, 0 ``*/*``, 1 ``type/*``, 2 alias, 3 media type."""
    if wanted.parameters:
        return -1  # offered formats have no parameters, so a media range with parameters matches no format
    if wanted.essence == "*/*":
        return 0
    if wanted.sub == "*":
        return 1 if offer.media_type.startswith(f"{wanted.main}/") else -1
    if wanted.essence == offer.media_type:
        return 3
    return 2 if wanted.essence in offer.aliases else -1


def _split(text: str, separator: str) -> list[str]:
    """Split a header value at each separator outside quoted strings."""
    parts, start, quoted, escaped = [], 0, False, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == separator and not quoted:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts
