"""The worker process: evaluates queries on a copy of the store, so that the server can kill an evaluation.

Oxigraph's evaluation cannot be interrupted within a process. A worker process opens a checkpoint of the
database (hard links to the files) read-only, or loads a dump of an in-memory store, and answers one query at
a time over a socket. The parent process kills the worker process to stop a query; the worker exits when the
parent has ended.

Messages to and from a worker process are frames: one byte for the kind, four bytes for the length, then the
payload.

    parent -> worker   Q  JSON: a query (`WorkerRequest`) or an update (`update_worker.UpdateTask`)
    worker -> parent   H  JSON: kind of the result, format, version; precedes the result of a query
                       D  a block of the serialised result, or of the change of an update
                       E  the end of the result
                       X  JSON: the error, in place of H, D or E
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from pyoxigraph import NamedNode, QueryResultsFormat, RdfFormat, Store

from ..changes.commit import graph_of_key
from ..changes.owners import OwnedGraphError
from ..documents.serialising import NotExpressibleError
from ..documents.stored_lines import parse_stored_file
from ..errors import (
    LimitError,
    NetworkRefusedError,
    QueryTextError,
    ReportedError,
    StoreError,
    UnsupportedError,
    UpdateError,
)
from ..remote import FetchError, FetchTimeoutError
from .extensions import load_named
from .guard import TextLimits
from .query import Querier, QueryFailedError, QueryRequest
from .update_plan import unknown_part
from .update_worker import derive_encoded_change, hosts_of

HEADER = struct.Struct(">cI")
BLOCK_BYTES = 1 << 16
Extension: TypeAlias = Callable[
    [str, str],
    tuple[
        str,
        Mapping[NamedNode, Callable[..., Any]] | None,
        Mapping[NamedNode, Callable[[], Any]] | None,
        Callable[[], None] | None,
    ],
]
DUMP_FILE, GRAPHS_FILE = "quads.nq", "graphs.json"

RESULTS_FORMATS = {
    "json": QueryResultsFormat.JSON,
    "xml": QueryResultsFormat.XML,
    "csv": QueryResultsFormat.CSV,
    "tsv": QueryResultsFormat.TSV,
}
RDF_FORMATS = {
    "ttl": RdfFormat.TURTLE,
    "nt": RdfFormat.N_TRIPLES,
    "rdf": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
    "nq": RdfFormat.N_QUADS,
    "trig": RdfFormat.TRIG,
}

PREFIXED = frozenset({"ttl", "trig", "rdf"})


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A query that a worker process evaluates.

    Attributes:
        copy: the folder of the copy: a checkpoint of the database, or a dump with `DUMP_FILE`.
        version: the version of the store that the copy holds.
        text: the SPARQL query text.
        results_format: short name of the format for solutions and booleans; None if the client accepts none.
        graph_format: short name of the format for graphs; None if the client accepts none.
        base_iri, default_graphs, named_graphs, union, added_graphs, hidden_graphs: as in
            `query.QueryRequest`; graphs are given as `graph_key`.
        prefixes: prefixes for RDF formats that have prefixes.
        extension: ``module:function`` of an `Extension`, which corrects the text and provides its functions;
            None to evaluate the text unchanged.
        height, hosts: the limit on the height of the text, and the hosts that SERVICE may reach.
        remote_seconds, remote_bytes: the limits of one SERVICE call in seconds and bytes.
    """

    copy: str
    version: int
    text: str
    results_format: str | None
    graph_format: str | None
    base_iri: str | None = None
    default_graphs: tuple[str, ...] | None = None
    named_graphs: tuple[str, ...] | None = None
    union: bool = False
    added_graphs: tuple[str, ...] = ()
    hidden_graphs: tuple[str, ...] = ()
    height: int = 10_000
    hosts: tuple[str, ...] = ()
    remote_seconds: float = 30.0
    remote_bytes: int = 64 << 20
    prefixes: dict[str, str] | None = None
    extension: str | None = None

    def encode(self) -> bytes:
        """Return the query as the payload of a frame for the worker process."""
        return json.dumps(asdict(self)).encode()


def main(arguments: Sequence[str]) -> int:
    """Answer the requests of a parent process; arguments: ``SOCKET_FD LIFE_FD MEMORY_BYTES EXTENSION...``."""
    socket_fd, life_fd, memory = (int(argument) for argument in arguments[:3])
    load_named(arguments[3:])
    _limit_memory(memory)
    threading.Thread(target=_end_with_parent, args=(life_fd,), daemon=True).start()
    connection = socket.socket(fileno=socket_fd)
    copies = _Copies()
    with connection, contextlib.suppress(OSError):
        while (frame := read_frame(connection)) is not None:
            _answer(connection, copies, json.loads(frame[1]))
    return 0


class _Copies:
    """The worker's copy of the store that was opened last; a request for another copy closes it."""

    def __init__(self) -> None:
        self._path = ""
        self._store: Store | None = None

    def open(self, path: str) -> Store:
        if self._store is None or path != self._path:
            self._store = None
            self._store = (
                _load_dump(Path(path)) if (Path(path) / DUMP_FILE).exists() else Store.read_only(path)
            )
            self._path = path
        return self._store


def _load_dump(folder: Path) -> Store:
    store = Store()
    store.extend(parse_stored_file(folder / DUMP_FILE))
    for name in json.loads((folder / GRAPHS_FILE).read_text(encoding="utf-8")):
        store.add_graph(NamedNode(name))
    return store


def _answer(connection: socket.socket, copies: _Copies, message: dict[str, Any]) -> None:
    try:
        if "update" in message:
            _answer_update(connection, message)
            return
        store = copies.open(message["copy"])
        querier = Querier(store, TextLimits(height=message["height"]), hosts_of(message))
        _evaluate(connection, querier, message)
    except (ConnectionError, BrokenPipeError):
        raise
    except ReportedError as error:
        send_frame(connection, b"X", json.dumps(_error_members(error), default=str).encode())
    except MemoryError:
        raise  # the worker process ends, as it does when Oxigraph runs out of memory
    except (OSError, ValueError, RuntimeError) as error:
        send_frame(connection, b"X", json.dumps({"class": "StoreError", "message": str(error)}).encode())


def _answer_update(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send the parent the change that an update makes; the update has a separate copy of the store."""
    functions = aggregates = None
    if message["extension"] is not None:
        request = _extended(QueryRequest(message["text"], message["base_iri"]), message["extension"])
        functions, aggregates = dict(request.custom_functions or {}), request.custom_aggregates

    def open_copy(path: Path, written: bool) -> Store:
        if (path / DUMP_FILE).exists():
            return _load_dump(path)
        return Store(str(path)) if written else Store.read_only(str(path))

    where_parts = unknown_part if message["where_parts"] is None else _import_name(message["where_parts"])
    for piece in derive_encoded_change(message, open_copy, functions, aggregates, where_parts):
        send_frame(connection, b"D", piece)
    send_frame(connection, b"E", b"")


def _evaluate(connection: socket.socket, querier: Querier, message: dict[str, Any]) -> None:
    request = QueryRequest(
        message["text"],
        message["base_iri"],
        None,
        _graphs(message["default_graphs"]),
        _graphs(message["named_graphs"]),
        message["union"],
        added_graphs=tuple(map(graph_of_key, message["added_graphs"])),
        hidden_graphs=frozenset(map(graph_of_key, message["hidden_graphs"])),
    )
    if message["extension"] is not None:
        request = _extended(request, message["extension"])
    version: int = message["version"]
    with querier.evaluate(request, version) as result:
        name = message["graph_format" if result.kind == "graph" else "results_format"]
        send_frame(
            connection, b"H", json.dumps({"kind": result.kind, "format": name, "version": version}).encode()
        )
        if name is not None:
            writer = _FrameWriter(connection)
            format_ = RDF_FORMATS[name] if result.kind == "graph" else RESULTS_FORMATS[name]
            prefixes = message["prefixes"] if name in PREFIXED else None
            result.serialize_to(writer, format_, prefixes=prefixes or None)  # type: ignore[arg-type]  # it only calls write
            writer.finish()
    send_frame(connection, b"E", b"")


def _extended(request: QueryRequest, extension: str) -> QueryRequest:
    """Return a query request with corrected text and its functions, from the `Extension` of this name."""
    extend: Extension = _import_name(extension)
    text, functions, aggregates, check = extend(request.text, request.base_iri or "")
    return request._replace(text=text, custom_functions=functions, custom_aggregates=aggregates, check=check)


def _import_name(place: str) -> Any:
    """Import and return the Python object ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class _FrameWriter:
    """Sends a serialiser's output to the parent, in frames of at least `BLOCK_BYTES` except for the last."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = bytearray()

    def write(self, data: bytes) -> int:
        self._pending += data
        if len(self._pending) >= BLOCK_BYTES:
            self.finish()
        return len(data)

    def flush(self) -> None:
        """Do nothing: a block of the result is sent when it is full."""

    def finish(self) -> None:
        if self._pending:
            block, self._pending = bytes(self._pending), bytearray()
            send_frame(self._connection, b"D", block)


def read_frame(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Return kind and payload of the next frame; None if the other process closed the socket."""
    header = _read(connection, HEADER.size)
    if header is None:
        return None
    kind, length = HEADER.unpack(header)
    payload = _read(connection, length)
    return None if payload is None else (kind, payload)


def send_frame(connection: socket.socket, kind: bytes, payload: bytes) -> None:
    """Send one frame of this kind with its payload over the socket."""
    connection.sendall(HEADER.pack(kind, len(payload)) + payload)


def error_from(described: dict[str, Any]) -> ReportedError:
    """Return the exception for the error members that a worker sent; an unknown class is a StoreError."""
    name, message = str(described["class"]), str(described["message"])
    hint = described.get("hint")
    place = {key: described.get(key) for key in ("line", "column", "excerpt")}
    match name:
        case "QueryTextError":
            return QueryTextError(message, hint=hint, **place)  # type: ignore[arg-type]
        case "UnsupportedError":
            return UnsupportedError(str(described.get("construct", "")), message, hint=hint)
        case "LimitError":
            return LimitError(message, hint=hint)
        case "NetworkRefusedError":
            return NetworkRefusedError(message, hint=hint)
        case "QueryFailedError":
            return QueryFailedError(message, hint=hint)
        case "NotExpressibleError":
            return NotExpressibleError(message)
        case "FetchTimeoutError":
            return FetchTimeoutError(message, hint=hint)
        case "FetchError" | "FetchRefusedError":
            return FetchError(message, hint=hint)
        case "UpdateError":
            return UpdateError(message, hint=hint)
        case "OwnedGraphError":
            return OwnedGraphError(message, hint=hint, graph=described.get("graph"))
    return StoreError(message, hint=hint)


def _error_members(error: ReportedError) -> dict[str, Any]:
    known = {"class": type(error).__name__, "message": error.message, "hint": error.hint}
    for name in ("line", "column", "excerpt", "construct"):
        known[name] = getattr(error, name, None)
    known["graph"] = error.details.get("graph")
    return known


def _graphs(names: Sequence[str] | None) -> list[Any] | None:
    return None if names is None else list(map(graph_of_key, names))


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _end_with_parent(life_fd: int) -> None:
    """End this process when the parent process ends, whose end of the pipe then closes; runs in a thread."""
    os.read(life_fd, 1)
    os._exit(1)


def _limit_memory(size: int) -> None:
    if not size:
        return
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
