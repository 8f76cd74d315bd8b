"""Updates in a worker process: the task, and the change that the process derives on a copy of the store.

The worker process returns an update's change as N-Quads, removed quads before added quads; blank nodes keep
their labels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, RdfFormat, Store, serialize

from ..changes.apply import Functions
from ..changes.commit import GraphName, NetChange, graph_key, graph_of_key
from ..changes.owners import Owner, Owners, derived_graphs
from ..changes.pending import PendingChanges, StoreView
from ..documents.stored_lines import parse_stored_quads
from ..hosts import AllowedHosts
from ..remote import http_fetcher
from ..threads import with_big_stack
from .guard import TextLimits
from .update import derive_update
from .update_plan import UpdateRequest, WhereParts, plan_update, unknown_part

_QUADS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """An update for a worker process; the member ``update`` distinguishes the task from a query.

    ``where_parts`` is ``module:function`` of an `update_plan.WhereParts`, ``owned`` is from `owned_of`, and
    ``quads`` has the meaning of `guard.TextLimits.quads`. Each other field has the meaning of the field with
    the same name in `query_worker.WorkerRequest` or `update_plan.UpdateRequest`.
    """

    text: str
    copy: str = ""
    version: int = 0
    height: int = 10_000
    quads: int = 1_000_000
    base_iri: str | None = None
    using_graphs: tuple[str, ...] | None = None
    using_named_graphs: tuple[str, ...] | None = None
    hosts: tuple[str, ...] = ()
    remote_seconds: float = 30.0
    remote_bytes: int = 64 << 20
    extension: str | None = None
    where_parts: str | None = None
    owned: tuple[tuple[str, str, str], ...] = ()
    update: bool = True

    def encode(self) -> bytes:
        """Return the update task as the payload of a frame for the worker process."""
        return json.dumps(asdict(self)).encode()


def derive_encoded_change(
    message: dict[str, Any],
    open_copy: Callable[[Path, bool], Store],
    functions: Functions | None,
    aggregates: Mapping[NamedNode, Callable[[], Any]] | None,
    where_parts: WhereParts = unknown_part,
) -> Iterator[bytes]:
    """Derive the change of an update and yield it in pieces: a line of JSON, then N-Quads.

    The line of JSON has the number of removed quads, and the created and dropped graphs.

    Args:
        message: the fields of an `UpdateTask`.
        open_copy: opens the copy at a path, for writing if the second argument is True.
        functions: the functions that the text may call.
        aggregates: the aggregates that the text may call.
        where_parts: analyses the WHERE parts of the update.
    """
    limits = TextLimits(height=message["height"], quads=message["quads"])
    hosts = hosts_of(message)
    using, using_named = (_nodes(message[name]) for name in ("using_graphs", "using_named_graphs"))
    request = UpdateRequest(
        message["text"],
        message["base_iri"],
        None,
        using,
        using_named,
        functions,
        where_parts=where_parts,
        custom_aggregates=aggregates,
    )
    owned = _owners(message["owned"])
    plan = plan_update(request, limits, hosts, owned)
    # A second operation of the update must see the changes of the first: it is evaluated inside an update of
    # the copy that is rolled back, so the copy must be writable.
    store = open_copy(Path(message["copy"]), len(plan.operations) > 1)
    pending = PendingChanges(StoreView(store, owned))

    def derive() -> None:
        derive_update(plan, store, pending, http_fetcher(hosts))

    if plan.height > limits.inline_height:
        with_big_stack(derive)
    else:
        derive()
    change = pending.net()
    head = {
        "removed": len(change.removed),
        "created": [graph_key(name) for name in change.created],
        "dropped": [graph_key(name) for name in change.dropped],
    }
    yield json.dumps(head).encode() + b"\n"
    quads = iter((*change.removed, *change.added))
    while some := list(islice(quads, _QUADS_AT_ONCE)):
        lines = serialize(some, format=RdfFormat.N_QUADS)
        assert lines is not None
        yield lines


def owned_of(owned: Owners) -> tuple[tuple[str, str, str], ...]:
    """Return the derived graphs for an `UpdateTask`: key of the graph, kind and name of the owner."""
    return tuple((graph_key(name), owner.kind, owner.name) for name, owner in derived_graphs(owned).items())


def _owners(owned: list[list[Any]]) -> dict[GraphName, Owner]:
    return {graph_of_key(key): Owner(kind, name) for key, kind, name in owned}


def hosts_of(message: dict[str, Any]) -> AllowedHosts:
    """Return the hosts that a query or update in a worker process may reach, with limits of an exchange."""
    seconds, most = message["remote_seconds"], message["remote_bytes"]
    return AllowedHosts(message["hosts"], seconds=seconds, max_bytes=most)


def decode_change(data: bytes) -> NetChange:
    """Decode the change of an update from the joined pieces of `derive_encoded_change`."""
    line, _, lines = data.partition(b"\n")
    head = json.loads(line)
    quads = tuple(parse_stored_quads(lines))
    created, dropped = (tuple(_names(head[name])) for name in ("created", "dropped"))
    return NetChange(quads[head["removed"] :], quads[: head["removed"]], created, dropped)


def _names(keys: list[str]) -> Iterator[NamedNode | BlankNode]:
    for key in keys:
        name = graph_of_key(key)
        if not isinstance(name, DefaultGraph):
            yield name


def _nodes(names: list[str] | None) -> list[NamedNode] | None:
    return None if names is None else [NamedNode(name) for name in names]
