"""The server's prefixes: stored in the registry, and cached in memory for the serializers of answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from types import MappingProxyType

from pyoxigraph import NamedNode

from quadrill.store.registry import PrefixRecord, Registry

from .http.errors import HttpError

_PREFIX = re.compile(r"(?:[^\W\d_](?:[\w.\-]*[\w\-])?)?\Z")
MAX_PREFIXES = 1000


class PrefixTable:
    """Thread-safe map from prefixes to IRIs, used by the serializers of Turtle, TriG and RDF/XML."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._known: Mapping[str, str] = MappingProxyType(
            {each.prefix: each.iri for each in registry.prefixes.all()}
        )

    def all(self) -> Mapping[str, str]:
        """Return an immutable map from every prefix of the server to its IRI."""
        return self._known

    def put(self, prefix: str, iri: str) -> None:
        """Store a prefix.

        Raises: HttpError 400 for a prefix that no Turtle text can use, a relative IRI, or too many prefixes.
        """
        if not _PREFIX.match(prefix) or len(prefix) > 128:
            raise HttpError(
                400,
                f"{prefix!r} is not a prefix",
                code="prefix",
                hint="A prefix is empty, or a letter and then letters, digits, dots, underscores, hyphens.",
            )
        try:
            NamedNode(iri)
        except ValueError as error:
            raise HttpError(
                400, f"the IRI of a prefix must be absolute, it is {iri!r}", code="prefix"
            ) from error
        with self._lock:
            if prefix not in self._known and len(self._known) >= MAX_PREFIXES:
                raise HttpError(400, f"there are {MAX_PREFIXES} prefixes already", code="prefix")
            self._registry.prefixes.put(PrefixRecord(prefix, iri))
            self._known = MappingProxyType({**self._known, prefix: iri})

    def remove(self, prefix: str) -> None:
        """Delete a prefix.

        Raises: NotFoundError if the server has no such prefix.
        """
        with self._lock:
            self._registry.prefixes.remove(prefix)
            self._known = MappingProxyType({name: iri for name, iri in self._known.items() if name != prefix})
