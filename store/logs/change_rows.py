"""Commits as rows of the change log: N-Quads, compressed from 512 bytes on, and a check sum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import orjson
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, serialize

from ..changes.commit import Commit, GraphChange, graph_key, graph_of_key
from ..documents.stored_lines import parse_stored_quads

COLUMNS = "version, at_ms, exact, cause, graphs, names, added, removed"
"""The columns of a commit's row in the order of `commit_of`; the columns ``bytes`` and ``digest`` follow."""
_COMPRESS_FROM = 512


def check_sum(values: Sequence[object]) -> int:
    """Return the check sum of the values of a row of the change log."""
    check = 0
    others: list[object] = []
    for value in values:
        if type(value) is bytes:
            check = zlib.crc32(value, check)
            others.append(len(value))
        else:
            others.append(value)
    return zlib.crc32(repr(others).encode(), check)


def row_of(commit: Commit) -> tuple[object, ...]:
    """Return the row of a commit, which ends with its size in bytes and its check sum."""
    # A third number marks the graph of a rule set.
    counted = {
        key: (change.added, change.removed, 1) if key in commit.inferred else (change.added, change.removed)
        for key, change in commit.graphs.items()
    }
    graphs = orjson.dumps(counted).decode()
    names = None
    if commit.created or commit.dropped:
        names = json.dumps([[graph_key(name) for name in part] for part in (commit.created, commit.dropped)])
    added, removed = _pack(commit.added), _pack(commit.removed)
    size = len(graphs) + len(names or "") + len(added or b"") + len(removed or b"") + 32
    row = (commit.version, commit.at_ms, int(commit.exact), commit.cause, graphs, names, added, removed)
    return (*row, size, check_sum(row))


def commit_of(row: tuple[object, ...], *, listed: bool = True) -> Commit:
    """Return the commit in a change log's row; without ``listed``, it has counts of quads but no quads."""
    version, at_ms, exact, cause, graphs, names, added, removed = row
    created, dropped = json.loads(str(names)) if names else ([], [])
    counted: dict[str, list[int]] = json.loads(str(graphs))
    return Commit(
        version=int(str(version)),
        at_ms=int(str(at_ms)),
        added=_unpack(added) if listed else (),
        removed=_unpack(removed) if listed else (),
        created=_names(created),
        dropped=_names(dropped),
        exact=listed and bool(exact),
        graphs={key: GraphChange(*numbers[:2]) for key, numbers in counted.items()},
        cause=None if cause is None else str(cause),
        inferred=frozenset(key for key, numbers in counted.items() if len(numbers) > 2),
    )


def _names(keys: list[str]) -> tuple[NamedNode | BlankNode, ...]:
    names = (graph_of_key(key) for key in keys)
    return tuple(name for name in names if isinstance(name, (NamedNode, BlankNode)))


def _pack(quads: tuple[Quad, ...]) -> bytes | None:
    """Return quads as N-Quads, compressed from 512 bytes on; only compressed data begins with ``x``."""
    if not quads:
        return None
    data = serialize(quads, format=RdfFormat.N_QUADS) or b""
    return data if len(data) < _COMPRESS_FROM else zlib.compress(data, 1)


def _unpack(data: object) -> tuple[Quad, ...]:
    if not isinstance(data, bytes):
        return ()
    if data[:1] == b"x":  # the ``x`` begins a zlib header; N-Quads begin with < or _
        data = zlib.decompress(data)
    return tuple(parse_stored_quads(data))
