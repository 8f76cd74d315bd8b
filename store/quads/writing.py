"""Writes to the store: updates, quads, graphs, documents, bulk loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from ..changes.commit import Commit, GraphName, NetChange
from ..changes.owners import Owner, derived_graphs, refuse_targets
from ..changes.pending import PendingChanges, quads_in_graph
from ..errors import NotFoundError
from ..formats import RdfType, parse_rdf, rdf_error
from ..remote import http_fetcher
from ..sparql.update import derive_update
from ..sparql.update_plan import UpdatePlan, UpdateRequest, check_syntax, plan_update
from ..sparql.update_plan_cache import UpdatePlanCache
from ..terms import in_store_form
from ..threads import with_big_stack
from .committer import Committer
from .options import StoreOptions
from .write_queue import WriteQueue, WriteRequest


class StoreWriter:
    """The writer of the store: updates, changes of quads and graphs, and loads.

    Each call of the store's writer is one atomic commit; writers wait for one another. A call that writes a
    document or a dataset is a load, whose consequences may take any time: `put_graph`, `post_graph`,
    `replace_dataset`, `load` and the bulk loads. Consequences of updates and views have limits of time.
    """

    def __init__(self, queue: WriteQueue, committer: Committer, options: StoreOptions) -> None:
        self._queue = queue
        self._committer = committer
        self._limits = options.limits
        self._hosts = options.allowed_hosts
        self._fetcher = options.fetcher or http_fetcher(options.allowed_hosts)
        self._update_plans = UpdatePlanCache(options.limits, options.analyse_update)

    def update(
        self, request: UpdateRequest | str, *, cause: str | None = "update", expected: int | None = None
    ) -> Commit:
        """Run a SPARQL update: all its operations are one atomic commit; see `enqueue_update`."""
        return self.enqueue_update(request, cause=cause, expected=expected)()

    def enqueue_update(
        self, request: UpdateRequest | str, *, cause: str | None = "update", expected: int | None = None
    ) -> Callable[[], Commit]:
        """Enqueue a SPARQL update: all its operations become one atomic commit when the result is called.

        Updates that are enqueued before the first of them is committed share a sync of the disk.

        Args:
            request: the text and its parameters, or a text without parameters.
            cause: is stored in the commit.
            expected: the required version of the dataset (If-Match).

        Returns:
            A function that makes the commit, to be called once; ``changed`` of the commit is False if the
            update had no effect. The returned function raises UpdateError if an operation failed and nothing
            was applied, BufferedRowsError if the update may buffer too many rows, PreconditionError if the
            dataset is not at ``expected``, QueryTextError if the braces of a single INSERT DATA or DELETE
            DATA have a syntax error, and the errors of `WriteQueue.finish`.

        Raises:
            QueryTextError: the update text is invalid; the error has the position.
            LimitError, UnsupportedError, NetworkRefusedError, OwnedGraphError: see `update.plan_update`.
        """
        update_request = UpdateRequest(request) if isinstance(request, str) else request

        def make_plan() -> UpdatePlan:
            new_plan = plan_update(update_request, self._limits, self._hosts, self._queue.owned)
            if new_plan.height > self._limits.inline_height:
                with_big_stack(lambda: check_syntax(new_plan))
            else:
                check_syntax(new_plan)
            return new_plan

        plan = self._update_plans.plan(update_request, make_plan)
        deep = plan.height > self._limits.inline_height

        def derive(pending: PendingChanges) -> None:
            if deep:
                with_big_stack(lambda: derive_update(plan, self._committer.store, pending, self._fetcher))
            else:
                derive_update(plan, self._committer.store, pending, self._fetcher)

        write = WriteRequest(derive, cause, expected)
        self._queue.enqueue(write)
        return partial(self._queue.finish, write)

    def commit_computed(self, work: Callable[[], NetChange], *, cause: str | None = "update") -> Commit:
        """Commit the change that ``work`` returns; no other commit runs during this call of ``work``.

        The function ``work`` may copy the database (`QuadStore.checkpoint_quads`, ``in_commit``) to compute
        the change on the copy.
        """
        return self._queue.submit(WriteRequest(lambda pending: pending.replay(work()), cause, alone=True))

    def apply(
        self,
        *,
        add: Iterable[Quad] = (),
        remove: Iterable[Quad] = (),
        create: Iterable[NamedNode | BlankNode] = (),
        drop: Iterable[NamedNode | BlankNode] = (),
        cause: str | None = None,
        expected: int | None = None,
        owner: Owner | None = None,
        timed: bool = True,
    ) -> Commit:
        """Change quads and graph names as one atomic commit: drop, remove, create, add, in this order.

        Blank nodes stand for the store's nodes with the same labels. The change set omits quads that are
        stored already. ``owner`` may change graphs that it owns (`WriteQueue.owned`); other callers get
        OwnedGraphError. ``timed`` is False for a load.
        """
        added, removed = in_store_form(add), in_store_form(remove)
        created, dropped = list(create), list(drop)

        def derive(pending: PendingChanges) -> None:
            refuse_targets(pending.owned, chain(created, dropped), owner)
            quads = chain(added, removed)
            refuse_targets(pending.owned, (quad.graph_name for quad in quads), owner)
            for name in dropped:
                pending.drop(name)
            for quad in removed:
                pending.remove(quad)
            for name in created:
                pending.create(name)
            for quad in added:
                pending.add(quad)

        return self._queue.submit(WriteRequest(derive, cause, expected, owner, timed=timed))

    def put_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "put",
        expected: int | None = None,
        owner: Owner | None = None,
    ) -> Commit:
        """Replace the content of one graph; afterwards the graph exists, also if it is empty.

        Triples without a graph are added to the graph ``name``. If the graph is new, the commit's list
        ``created`` contains it.
        """
        wanted = in_store_form(quads_in_graph(quads, name))

        def derive(pending: PendingChanges) -> None:
            refuse_targets(pending.owned, chain([name], (quad.graph_name for quad in wanted)), owner)
            pending.replace(name, wanted)

        return self._queue.submit(WriteRequest(derive, cause, expected, owner, timed=owner is not None))

    def post_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "post",
        expected: int | None = None,
    ) -> Commit:
        """Add quads to one graph; afterwards the graph exists, also if it is empty."""
        created = () if isinstance(name, DefaultGraph) else (name,)
        wanted = quads_in_graph(quads, name)
        return self.apply(add=wanted, create=created, cause=cause, expected=expected, timed=False)

    def delete_graph(
        self, name: GraphName, *, cause: str | None = "delete", expected: int | None = None
    ) -> Commit:
        """Drop one graph; the default graph is emptied instead.

        Raises:
            NotFoundError: the graph does not exist.
        """

        def derive(pending: PendingChanges) -> None:
            refuse_targets(pending.owned, [name])
            if isinstance(name, DefaultGraph):
                pending.clear(name)
            elif not pending.has_graph(name):
                raise NotFoundError(f"there is no graph {name}", graph=str(name))
            else:
                pending.drop(name)

        return self._queue.submit(WriteRequest(derive, cause, expected))

    def replace_dataset(
        self,
        quads: Iterable[Quad],
        *,
        names: Iterable[NamedNode | BlankNode] = (),
        cause: str | None = "put",
        expected: int | None = None,
        restored: bool = False,
    ) -> Commit:
        """Replace the whole dataset, except its derived graphs (`owners.derived_graphs`).

        Afterwards the rest of the dataset has exactly the graphs of ``quads`` and ``names``.

        Args:
            quads: the quads of the dataset.
            names: further graph names.
            cause: is stored in the commit.
            expected: the required version of the dataset.
            restored: True if the quads are those of a backup: quads of derived graphs are left out.

        Raises:
            OwnedGraphError: a quad or a name is of a derived graph, and ``restored`` is False.
        """
        given, given_names = in_store_form(quads), list(names)

        def derive(pending: PendingChanges) -> None:
            derived = derived_graphs(pending.owned)
            wanted, listed = given, given_names
            if derived and restored:
                wanted = [quad for quad in given if quad.graph_name not in derived]
                listed = [name for name in given_names if name not in derived]
            refuse_targets(derived, chain(listed, (quad.graph_name for quad in wanted)))
            kept_quads = set(wanted)
            kept_names = {quad.graph_name for quad in wanted} | set(listed)
            for name in list(pending.graph_names()):
                if name not in kept_names and name not in derived:
                    pending.drop(name)
            for graph in (DefaultGraph(), *kept_names):
                for quad in list(pending.quads_of(graph)):
                    if quad not in kept_quads:
                        pending.remove(quad)
            for name in listed:
                pending.create(name)
            for quad in wanted:
                pending.add(quad)

        return self._queue.submit(WriteRequest(derive, cause, expected, timed=False))

    def load(
        self,
        body: bytes,
        kind: RdfType,
        *,
        graph: GraphName | None = None,
        base_iri: str | None = None,
        cause: str | None = "load",
        expected: int | None = None,
    ) -> Commit:
        """Add an RDF document to the store atomically; its blank nodes become new blank nodes.

        Args:
            body: the document.
            kind: its format.
            graph: the graph of triples without a graph; the default graph if None.
            base_iri: the IRI against which relative IRIs are resolved.
            cause: is stored in the commit.
            expected: the required version of the dataset.

        Raises:
            RdfSyntaxError: the document is malformed; the error has the position, and nothing was added.
        """
        quads = quads_in_graph(parse_rdf(body, kind, base_iri=base_iri), graph or DefaultGraph())
        return self.apply(add=quads, cause=cause, expected=expected, timed=False)

    def bulk_load(
        self,
        source: Path | bytes | IO[bytes],
        kind: RdfType,
        *,
        graph: GraphName | None = None,
        base_iri: str | None = None,
        cause: str | None = "bulk load",
    ) -> Commit:
        """Load a large document fast: one commit whose quads are counted, not listed (``exact`` False).

        The RDF document is loaded completely or not at all. Readers that follow change sets must read the
        dataset again after a bulk load. Oxigraph's bulk loader reads, sorts and writes while other threads
        run, and gives blank nodes new labels.

        Raises:
            RdfSyntaxError: the RDF document is malformed.
            StoreUnwritableError: the source of the load cannot be read or the store cannot be written.
        """

        def load(store: Store) -> None:
            options: dict[str, Any] = {"path": str(source)} if isinstance(source, Path) else {"input": source}
            if graph is not None:
                options["to_graph"] = graph
            try:
                store.bulk_load(format=kind.format, base_iri=base_iri, **options)
            except SyntaxError as error:
                raise rdf_error(error, kind) from error

        return self._queue.bulk(load, cause=cause)

    def bulk_extend(self, quads: Iterable[Quad], *, cause: str | None = "bulk load") -> Commit:
        """Add very many quads fast: one commit whose quads are counted, not listed (``exact`` False).

        If the iterator ``quads`` raises an error, no quad is added. Blank nodes in the given quads stand for
        the store's nodes with the same labels. While Oxigraph sorts and writes these quads, other
        threads cannot run, for some seconds per million quads.

        Raises:
            StoreUnwritableError: the store cannot be written.
        """
        return self._queue.bulk(lambda store: store.bulk_extend(quads), cause=cause)
