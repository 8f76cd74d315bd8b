"""The four kinds of answer that the handler of a request returns.

    WholeAnswer      status, headers and body
    StreamedAnswer   a body that is sent while it is produced
    Later            an accepted change, whose answer is sent after the log is synced
    Takeover         another thread or process takes over the connection (server/takeover.py)

A handler that is called in the fast lane may also return `NOT_SHORT`; a worker then calls the handler again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from quadrill.store.changes.commit import Commit, GraphChange

from .request import Request

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(slots=True)
class WholeAnswer:
    """A complete HTTP answer: status, headers and body.

    Attributes:
        status: the HTTP status of the answer.
        headers: the headers of this answer, without the headers that every answer has.
        body: the uncompressed body; None for an answer to HEAD whose body is not computed.
        version: the store version for the header ETag; None for the version at the time of sending.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = b""
    version: int | None = None


class Output(Protocol):
    """The target of a streamed answer, which sends the answer's blocks to the client."""

    def begin(self, headers: Mapping[str, str], version: int | None) -> None:
        """Set the headers of an answer with status 200, which are sent with the first block."""

    def write(self, block: bytes) -> None:
        """Send a block of the answer's body to the client. Raises: OSError if the client disconnected."""


class StreamedAnswer(ABC):
    """An HTTP answer that is produced while it is sent, in the thread that sends it."""

    @abstractmethod
    def send(self, output: Output) -> WholeAnswer | None:
        """Produce the body of the answer and send it to ``output``.

        Returns:
            A whole answer or a problem document if nothing was sent to ``output``; None if the answer was
            sent to ``output`` completely.

        Raises:
            AnswerBrokenError: the answer failed after its first bytes.
            OSError: the client has disconnected.
        """


@dataclass(frozen=True, slots=True)
class Later:
    """An accepted change of data; ``complete``, called once, waits for the log and returns the answer."""

    complete: Callable[[], WholeAnswer]


class NeedsWorker:
    """What a handler returns in the fast lane if a worker thread has to process the request."""


NOT_SHORT = NeedsWorker()


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> WholeAnswer:
    """Return an HTTP answer with a JSON body, in which non-ASCII characters are not escaped."""
    text = _ENCODER.encode(value) + "\n"
    return WholeAnswer(status, {"Content-Type": "application/json", **(headers or {})}, text.encode())


def text_answer(body: str | bytes, content_type: str, status: int = 200) -> WholeAnswer:
    """Return an HTTP answer with a text body of the given content type."""
    return WholeAnswer(
        status, {"Content-Type": content_type}, body.encode() if isinstance(body, str) else body
    )


def no_content() -> WholeAnswer:
    """Return an HTTP answer without a body, with status 204."""
    return WholeAnswer(204)


def _counts(graphs: Mapping[str, GraphChange]) -> dict[str, int]:
    changes = graphs.values()
    return {"added": sum(each.added for each in changes), "removed": sum(each.removed for each in changes)}


def violations_header(violations: int) -> dict[str, str]:
    """Return the header with the number of violations that a write adds; no header for none."""
    return {"Quadrill-Violations": str(violations)} if violations else {}


def commit_answer(request: Request, commit: Commit, status: int = 204) -> WholeAnswer:
    """Return the answer to a write: the store version, and counts of quads if the header Prefer asks.

    RFC 7240, section 4.2, defines the header Prefer with ``return=representation``.
    """
    headers = violations_header(commit.violations)
    if "return=representation" not in request.headers.get("Prefer", "").replace(" ", ""):
        return WholeAnswer(status, headers, version=commit.version)
    document: dict[str, Any] = {"version": commit.version, **_counts(commit.asserted_graphs)}
    if commit.inferred:
        document["inferred"] = _counts(commit.inferred_graphs)
    if commit.violations:
        document["violations"] = commit.violations
    answer = json_answer(document, 200 if status == 204 else status, headers)
    answer.headers["Preference-Applied"] = "return=representation"
    answer.version = commit.version
    return answer
