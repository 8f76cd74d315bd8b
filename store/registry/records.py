"""The rows of the registry as plain values: what callers hand in and get back.

Every time ending in ``_ms`` is milliseconds, those ending in ``_at_ms`` or called ``created_ms`` since the
epoch. Options are JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

QueryState: TypeAlias = Literal["running", "paused", "failed"]
LatePolicy: TypeAlias = Literal["drop", "admit", "error"]
Stamping: TypeAlias = Literal["event", "arrival"]
StreamClock: TypeAlias = Literal["event", "wall-when-idle"]
ConnectorRole: TypeAlias = Literal["source", "sink"]
JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A registered continuous query: its text as given and every option it was registered with.

    ``dialect`` None: detected from the text. ``error`` says why the state is ``failed``.
    """

    name: str
    text: str
    dialect: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    state: QueryState = "running"
    error: str | None = None
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream: its short name, its IRI and its settings.

    ``idle_timeout_ms`` and ``retention_ms`` None: the server's setting holds. ``timestamp_property`` None:
    prov:generatedAtTime. ``stamping`` None: the first element decides. ``quoted_asserted``: a quoted triple
    counts as asserted, too. ``mapping`` is the JSON text of how its records become RDF. ``clock``:
    whether its time goes on with the wall clock while it is silent. ``declared`` is False for a stream that
    came to be by a query or a push.
    """

    name: str
    iri: str
    lateness_ms: int = 0
    late: LatePolicy = "drop"
    idle_timeout_ms: int | None = None
    retention_ms: int | None = None
    timestamp_property: str | None = None
    stamping: Stamping | None = None
    quoted_asserted: bool = False
    mapping: str | None = None
    clock: StreamClock = "event"
    declared: bool = False
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """A source, which feeds a stream, or a sink, which takes what a query tells; ``members`` declare it.

    ``wanted`` is False while it is stopped. ``place`` is the id of the last event that a sink has taken;
    where a source is stands in the journal, with its elements.
    """

    role: ConnectorRole
    name: str
    members: Mapping[str, Any] = field(default_factory=dict)
    wanted: bool = True
    place: str | None = None
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class StoredQueryRecord:
    """A SPARQL text that someone saved under a name."""

    name: str
    text: str
    description: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class PrefixRecord:
    """A prefix that answers are written with."""

    prefix: str
    iri: str


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A bearer token: only its hash is kept. ``label`` tells a person whose it is."""

    hash: str
    role: str
    label: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A long-running piece of work, for instance a bulk load: what was asked and how far it is."""

    id: str
    kind: str
    state: JobState = "queued"
    request: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    created_ms: int = 0
    updated_ms: int = 0
