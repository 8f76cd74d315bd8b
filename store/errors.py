"""The root of every error of this project, and the errors of the store.

ReportedError                 code, message, hint
├── StoreError
│   ├── NetworkRefusedError   a query or update would reach a host that is not allowed
│   ├── StoreLockedError      another process holds the folder
│   ├── StoreFormatError      the folder has an unknown format version
│   ├── StoreUnwritableError  the folder cannot be written
│   ├── UpdateError           an update failed in evaluation
│   └── RdfSyntaxError        malformed RDF, with its position
├── InputError                a push, a heartbeat or a registration is wrong
├── MediaTypeError            a body has a media type that cannot be read
├── QueryTextError            a query text is wrong: line, column, excerpt, hint
├── UnsupportedError          a right text that names a construct that is missing
├── LimitError                an input is over a limit
├── GoneError                 a position in a log is older than what is kept
├── ConflictError             a name or a state stands in the way
└── NotFoundError             no such thing
"""

from __future__ import annotations

from typing import Any

DAMAGED = (
    "quadrill check --data DIR tells what is damaged; restore the folder from a backup, or let "
    "quadrill repair --drop-damaged --data DIR put the damaged parts aside and go on without them"
)
"""The hint for users in errors about damaged data folders."""

OLDEST = "30ff0e66"
"""The commit of this project whose data formats are the oldest that can still be read."""

OLDER = (
    f"commit {OLDEST} still exports it: there run quadrill export --data DIR FILE.nq and, with its server, "
    "quadrill dump > FILE.toml; then give both to quadrill load and quadrill apply of this version"
)
"""The hint for users in errors about data folders written before the commit `OLDEST`."""


class ReportedError(Exception):
    """The base class of all errors that users see.

    Attributes:
        code: stable machine-readable word, for instance ``unknown-stream``.
        message: one sentence with the place, the limit and the actual value.
        hint: how to solve the problem, or None.
        details: further members for the problem document (JSON values).
    """

    code = "error"

    def __init__(
        self, message: str, *, hint: str | None = None, code: str | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        if code is not None:
            self.code = code


class StoreError(ReportedError):
    """The quad store could not execute an operation."""

    code = "store"


class StoreLockedError(StoreError):
    """Another process has locked the store's data folder."""

    code = "store-locked"


class StoreFormatError(StoreError):
    """The data folder is damaged, or has an unknown format version."""

    code = "store-format"


class OlderFormatError(StoreFormatError):
    """The data folder was written before the commit `OLDEST`; the hint says how to move its data."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was written before commit {OLDEST} and is no longer read", hint=OLDER)


class StoreUnwritableError(StoreError):
    """The data folder cannot be created or written."""

    code = "store-unwritable"


class FolderInUseError(StoreUnwritableError):
    """A folder that must be empty contains files, or another process is filling the folder."""

    code = "folder-in-use"


class NetworkRefusedError(StoreError):
    """A query or update would reach a host that is not on the list of allowed hosts."""

    code = "host-not-allowed"


class UpdateError(StoreError):
    """A SPARQL update failed during evaluation; no change was applied."""

    code = "update-failed"


class PlacedError(ReportedError):
    """An error in a SPARQL or RDF text; ``line`` and ``column`` count from 1 and are None if unknown."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, hint=hint, **details)
        self.line = line
        self.column = column


class RdfSyntaxError(PlacedError):
    """An RDF document is malformed; the error has the line and column."""

    code = "rdf-syntax"


class InputError(ReportedError):
    """A push, a heartbeat or a registration is wrong: HTTP 400."""

    code = "input"
    status = 400


class MediaTypeError(ReportedError):
    """The body of a request has a media type that cannot be read: HTTP 415."""

    code = "unsupported-media-type"
    status = 415


class QueryTextError(PlacedError):
    """A query or update text is wrong: HTTP 400 with line, column, excerpt and hint.

    ``line`` and ``column`` count from 1; ``excerpt`` is the line with a caret line under it;
    ``faults`` lists every independent fault as dicts with the same members.
    """

    code = "query-text"

    def __init__(
        self,
        message: str,
        *,
        excerpt: str | None = None,
        faults: tuple[dict[str, Any], ...] = (),
        **more: Any,
    ) -> None:
        super().__init__(message, **more)
        self.excerpt = excerpt
        self.faults = faults


class UnsupportedError(ReportedError):
    """A valid text uses an unsupported construct, named in ``construct``: HTTP 501."""

    code = "unsupported"

    def __init__(
        self, construct: str, message: str | None = None, *, hint: str | None = None, **details: Any
    ) -> None:
        super().__init__(
            message or f"{construct} is not supported", hint=hint, construct=construct, **details
        )
        self.construct = construct


class LimitError(ReportedError):
    """An input exceeds a limit of the settings, for instance on its size or nesting depth."""

    code = "limit"


class GoneError(ReportedError):
    """A requested version, event id or record was deleted from its log: HTTP 410, or ``reset`` in a feed.

    ``earliest`` is the smallest position in the log that can still be requested.
    """

    code = "gone"

    def __init__(self, message: str, *, earliest: int, hint: str | None = None, **details: Any) -> None:
        super().__init__(message, hint=hint, earliest=earliest, **details)
        self.earliest = earliest


class ConflictError(ReportedError):
    """A name already exists, or the present state forbids the operation: HTTP 409."""

    code = "conflict"


class RefusedChangeError(ReportedError):
    """What follows from a change, in rule sets or shapes, forbids its commit: HTTP 422."""


class NotFoundError(ReportedError):
    """The named query, stream, graph, job or process does not exist: HTTP 404."""

    code = "not-found"


class LateElementError(InputError):
    """An element is late, and the late policy of its stream is ``error``."""

    code = "late-element"


class IdempotencyError(ReportedError):
    """A request reuses an Idempotency-Key with a different body: HTTP 422."""

    code = "idempotency-key-reused"
    status = 422
