"""The writing half of the store: updates, quads, graphs, documents, bulk loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from ..changes.apply import Functions
from ..changes.commit import Commit, GraphName, NetChange
from ..changes.pending import PendingChanges, quads_in_graph
from ..errors import NotFoundError, StoreUnwritableError
from ..formats import RdfType, parse_rdf, rdf_error
from ..hosts import AllowedHosts
from ..remote import Fetcher, fetch_rdf
from ..sparql.guard import TextLimits
from ..sparql.update import derive_update
from ..sparql.update_plan import (
    UpdatePlan,
    UpdateRequest,
    WhereParts,
    check_syntax,
    plan_update,
    unknown_part,
)
from ..sparql.update_shapes import Shapes
from ..terms import in_store_form
from ..threads import with_big_stack
from .reading import StoreReads
from .writer import Writer


class StoreWrites(StoreReads):
    """The writing half of `quads.QuadStore`. Each call is one atomic commit; writers wait in line."""

    _hosts: AllowedHosts
    _limits: TextLimits
    _fetcher: Fetcher
    _shapes: Shapes
    _writer: Writer

    def update(self, text: str, **options: Any) -> Commit:
        """Run a SPARQL update: all its operations are one atomic commit; see `update_in_line`."""
        return self.update_in_line(text, **options)()

    def update_in_line(
        self,
        text: str,
        *,
        base_iri: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        using_graphs: Sequence[NamedNode] | None = None,
        using_named_graphs: Sequence[NamedNode] | None = None,
        custom_functions: Functions | None = None,
        check: Callable[[], None] = lambda: None,
        where_parts: WhereParts = unknown_part,
        custom_aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None,
        cause: str | None = "update",
        expected: int | None = None,
    ) -> Callable[[], Commit]:
        """Put a SPARQL update in line: all its operations are one atomic commit, which the result makes.

        Updates that are put in line before the first of them is made share a sync of the disk.

        Args:
            text: SPARQL Update.
            base_iri: resolves relative IRIs where the text has no BASE.
            prefixes: declared before the text's own.
            using_graphs: ``using-graph-uri`` of the protocol.
            using_named_graphs: ``using-named-graph-uri`` of the protocol.
            custom_functions: extension functions for WHERE parts.
            check: ends the update by an error; see `update_plan.UpdateRequest`.
            where_parts: reads its WHERE parts.
            custom_aggregates: extension aggregates for WHERE parts.
            cause: goes into the commit.
            expected: refuse unless the dataset is at this version (If-Match).

        Returns:
            What makes the commit, to be called once; ``changed`` is False when the update had no effect.
            It raises UpdateError when an operation failed and nothing was applied, HeldBackError when it
            needs more than there is room for, PreconditionError when the dataset is not at ``expected``.

        Raises:
            QueryTextError: the text is wrong, with its place.
            LimitError, UnsupportedError, NetworkRefusedError: see `update.plan_update`.
        """
        request = UpdateRequest(
            text,
            base_iri,
            prefixes,
            using_graphs,
            using_named_graphs,
            custom_functions,
            check,
            where_parts,
            custom_aggregates,
        )

        def anew() -> UpdatePlan:
            made = plan_update(request, self._limits, self._hosts)
            if made.height > self._limits.inline_height:
                with_big_stack(lambda: check_syntax(made))
            else:
                check_syntax(made)
            return made

        plan = self._shapes.plan(request, anew)
        deep = plan.height > self._limits.inline_height

        def derive(pending: PendingChanges) -> None:
            if deep:
                with_big_stack(lambda: derive_update(plan, self._committer.store, pending, self._fetcher))
            else:
                derive_update(plan, self._committer.store, pending, self._fetcher)

        return partial(self._writer.finish, self._writer.put(derive, cause=cause, expected=expected))

    def update_elsewhere(self, work: Callable[[], NetChange], *, cause: str | None = "update") -> Commit:
        """Commit the change that ``work`` works out, which is called while no other commit is under way.

        It may copy the database (`QuadStore.checkpoint_quads`, ``in_commit``) to see what changes in it.
        """
        return self._writer.submit(
            lambda pending: pending.replay(work()), cause=cause, expected=None, first=True
        )

    def apply(
        self,
        *,
        add: Iterable[Quad] = (),
        remove: Iterable[Quad] = (),
        create: Iterable[NamedNode | BlankNode] = (),
        drop: Iterable[NamedNode | BlankNode] = (),
        cause: str | None = None,
        expected: int | None = None,
        owner: str | None = None,
    ) -> Commit:
        """Change quads and graph names as one atomic commit: drop, remove, create, add, in this order.

        Blank nodes are the store's own nodes of the same label. Quads that are there already are not added.
        ``owner`` may change the graphs that it owns (`own_graph`), everybody else gets OwnedGraphError.
        """
        added, removed = in_store_form(add), in_store_form(remove)
        created, dropped = list(create), list(drop)

        def derive(pending: PendingChanges) -> None:
            for name in dropped:
                pending.drop(name)
            for quad in removed:
                pending.remove(quad)
            for name in created:
                pending.create(name)
            for quad in added:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected, owner=owner)

    def own_graph(self, name: NamedNode, owner: str) -> None:
        """From the next commit on only writes of ``owner`` change a graph; bulk loads are not held off."""
        self._writer.owned[name] = owner

    def disown_graph(self, name: NamedNode) -> None:
        """Everybody may change a graph again."""
        self._writer.owned.pop(name, None)

    def put_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "put",
        expected: int | None = None,
        owner: str | None = None,
    ) -> Commit:
        """Replace the content of one graph; the graph is listed afterwards, also when it is empty.

        Triples without a graph go into ``name``. The graph was new when the commit's ``created`` has it.
        """
        wanted = in_store_form(quads_in_graph(quads, name))

        def derive(pending: PendingChanges) -> None:
            if not isinstance(name, DefaultGraph):
                pending.create(name)
            kept = set(wanted)
            for quad in list(pending.quads_of(name)):
                if quad not in kept:
                    pending.remove(quad)
            for quad in wanted:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected, owner=owner)

    def post_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "post",
        expected: int | None = None,
    ) -> Commit:
        """Add quads to one graph; the graph is listed afterwards, also when it is empty."""
        created = () if isinstance(name, DefaultGraph) else (name,)
        return self.apply(add=quads_in_graph(quads, name), create=created, cause=cause, expected=expected)

    def delete_graph(
        self, name: GraphName, *, cause: str | None = "delete", expected: int | None = None
    ) -> Commit:
        """Drop one graph; the default graph is emptied.

        Raises:
            NotFoundError: there is no such graph.
        """

        def derive(pending: PendingChanges) -> None:
            if isinstance(name, DefaultGraph):
                pending.clear(name)
            elif not pending.has_graph(name):
                raise NotFoundError(f"there is no graph {name}", graph=str(name))
            else:
                pending.drop(name)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def replace_dataset(
        self,
        quads: Iterable[Quad],
        *,
        names: Iterable[NamedNode | BlankNode] = (),
        cause: str | None = "put",
        expected: int | None = None,
    ) -> Commit:
        """Replace the whole dataset: afterwards the graphs of ``quads`` and ``names`` are all there are."""
        wanted, listed = in_store_form(quads), list(names)

        def derive(pending: PendingChanges) -> None:
            kept = set(wanted)
            kept_names = {quad.graph_name for quad in wanted} | set(listed)
            for name in list(pending.graph_names()):
                if name not in kept_names:
                    pending.drop(name)
            for graph in (DefaultGraph(), *kept_names):
                for quad in list(pending.quads_of(graph)):
                    if quad not in kept:
                        pending.remove(quad)
            for name in listed:
                pending.create(name)
            for quad in wanted:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def clear(self, *, cause: str | None = "delete", expected: int | None = None) -> Commit:
        """Remove every quad and every graph name."""
        return self.replace_dataset((), cause=cause, expected=expected)

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
        """Add a document, all or nothing; its blank nodes become new ones.

        Args:
            body: the document.
            kind: its format.
            graph: where triples without a graph go; by default the default graph.
            base_iri: resolves relative IRIs.
            cause: goes into the commit.
            expected: refuse unless the dataset is at this version.

        Raises:
            RdfSyntaxError: malformed, with its place; nothing was added.
        """
        quads = quads_in_graph(parse_rdf(body, kind, base_iri=base_iri), graph or DefaultGraph())
        return self.apply(add=quads, cause=cause, expected=expected)

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

        The document is loaded whole or not at all. Readers of the dataset as a whole must read it anew.
        Oxigraph reads, sorts and writes while other threads run. It gives blank nodes new labels.

        Raises:
            RdfSyntaxError: malformed.
            StoreUnwritableError: the source cannot be read or the store cannot be written.
        """

        def load(store: Store) -> None:
            options: dict[str, Any] = {"path": str(source)} if isinstance(source, Path) else {"input": source}
            if graph is not None:
                options["to_graph"] = graph
            try:
                store.bulk_load(format=kind.format, base_iri=base_iri, **options)
            except SyntaxError as error:
                raise rdf_error(error, kind) from error
            except OSError as error:
                raise StoreUnwritableError(f"the bulk load failed: {error}") from error

        return self._writer.bulk(load, cause=cause)

    def bulk_extend(self, quads: Iterable[Quad], *, cause: str | None = "bulk load") -> Commit:
        """Add very many quads fast: one commit whose quads are counted, not listed (``exact`` False).

        All are added or, when ``quads`` raises, none. Blank nodes are the store's own of the same label.
        While Oxigraph sorts and writes no other thread runs: some seconds for a million quads.

        Raises:
            StoreUnwritableError: the store cannot be written.
        """

        def load(store: Store) -> None:
            try:
                store.bulk_extend(quads)
            except OSError as error:
                raise StoreUnwritableError(f"the bulk load failed: {error}") from error

        return self._writer.bulk(load, cause=cause)

    def fetch(self, iri: str) -> list[Quad]:
        """Fetch and parse an RDF document from an allowed host; nothing is stored.

        Raises:
            NetworkRefusedError: the host is not allowed.
            FetchError, RdfSyntaxError: it cannot be fetched or read.
        """
        return fetch_rdf(self._fetcher, iri)
