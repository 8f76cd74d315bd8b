"""The records of the registry: rows of its tables as immutable values.

Fields of registry records that end in ``_ms`` are milliseconds; ``created_ms`` and ``updated_ms`` count from
1970. The options of registry records are JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

QueryState: TypeAlias = Literal["running", "paused", "failed"]
LatePolicy: TypeAlias = Literal["drop", "admit", "error"]
Stamping: TypeAlias = Literal["event", "arrival"]
StreamClock: TypeAlias = Literal["event", "wall-when-idle"]
OnViolation: TypeAlias = Literal["dead-letter", "refuse"]
ConnectorRole: TypeAlias = Literal["source", "sink"]
RuleSetState: TypeAlias = Literal["materialising", "ready", "suspended", "failed", "dropping"]
ShapesState: TypeAlias = Literal["ready", "failed", "dropping"]
JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A registered continuous query with its original text and options.

    If the field ``dialect`` of a query is None, the dialect is detected from the text. The field ``error``
    says why the query's state is ``failed``.
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
    """A stream's row in the registry: its short name, its IRI and its settings.

    If ``idle_timeout_ms`` or ``retention_ms`` of a stream is None, the server's setting applies. The default
    of a stream's ``timestamp_property`` is prov:generatedAtTime. If ``stamping`` of a stream is None, the
    first element decides whether elements carry event times. The field ``quoted_asserted`` is True if a
    quoted triple in an element counts as asserted. The field ``mapping`` is the JSON text of the mapping from
    the stream's records to RDF. The field ``clock`` says whether event time follows the wall clock while the
    stream is silent. The field ``declared`` is False for a stream that a query or a push has created.
    Elements have to conform to the shapes named ``shapes``; ``on_violation`` says what becomes of others. The
    field ``self_contained`` is True if each solution of a block over the stream comes from one element.
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
    shapes: str | None = None
    on_violation: OnViolation | None = None
    self_contained: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """A connector: a source of a stream, or a sink of a query's events; ``members`` declares it.

    The field ``wanted`` is False while the connector is stopped. The field ``place`` is the id of the last
    event that a sink has written; the position of a source is in the journal, with its elements.
    """

    role: ConnectorRole
    name: str
    members: Mapping[str, Any] = field(default_factory=dict)
    wanted: bool = True
    place: str | None = None
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class StoredQueryRecord:
    """A SPARQL text that a user saved under a name."""

    name: str
    text: str
    description: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class PrefixRecord:
    """A prefix declaration for the serialisation of answers."""

    prefix: str
    iri: str


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A bearer token, stored as a hash; ``label`` names the token's owner for people."""

    hash: str
    role: str
    label: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A long-running job, for instance a bulk load, with its request and its progress."""

    id: str
    kind: str
    state: JobState = "queued"
    request: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    created_ms: int = 0
    updated_ms: int = 0


@dataclass(frozen=True, slots=True)
class RuleSetRecord:
    """The record of a rule set; ``definition`` has the members of its PUT.

    ``state`` is ``materialising`` until the set's graph is complete, and then ``ready``, ``suspended`` or
    ``failed``. It is ``dropping`` while the set is deleted. ``following`` is the new definition while a PUT
    replaces the set, else None.
    """

    name: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    following: Mapping[str, Any] | None = None
    state: RuleSetState = "materialising"
    error: str | None = None
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShapesRecord:
    """Shapes that check the data; ``definition`` are the parameters of their PUT and the shapes graph.

    ``state`` is ``ready`` or ``failed``, and ``dropping`` while the graph of the report is removed.
    ``former`` is the graph of the report that a PUT under way removes; None without one.
    """

    name: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    former: str | None = None
    state: ShapesState = "ready"
    error: str | None = None
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReflectedOwnerRecord:
    """A graph with an owner, which rule sets with the default input leave out.

    ``graph`` is the key of the graph. ``changing`` is True while a commit is made with which the graph joins
    the default input or leaves it.
    """

    graph: str
    changing: bool = False
