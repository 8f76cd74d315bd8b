"""The workspace: an in-memory Oxigraph store on which Quadrill evaluates generated queries."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Quad, QueryBoolean, Store

from ..documents.wall_clock import require_epoch
from ..errors import UnsupportedError
from ..terms import Solution, Term
from .query import evaluation_error


class Workspace:
    """An in-memory Oxigraph store that is updated by adding and removing quads.

    Oxigraph's in-memory store never frees deleted quads, so the workspace is copied to a new store as soon
    as the number of removed quads exceeds the number of existing quads.
    """

    def __init__(self, removed_at_least: int = 20_000) -> None:
        """Create an empty workspace, which is first copied after more than ``removed_at_least`` removals."""
        self._removed_at_least = removed_at_least
        self._store = Store()
        self._graphs: list[NamedNode] = []
        # The number of windows that hold a quad; several windows may share quads.
        self._counts: Counter[Quad] = Counter()
        self._removed = 0
        self._alive = 0

    @property
    def size(self) -> int:
        """The number of quads in the workspace, an in-memory store."""
        return self._alive

    def declare(self, graph: NamedNode) -> None:
        """Create a graph that exists even while it is empty, because an empty window is also a graph."""
        self._graphs.append(graph)
        self._store.add_graph(graph)

    def add(self, weights: Mapping[Quad, int]) -> None:
        """Add ``weights`` to the reference counts of quads; a quad with a count of 0 is removed."""
        counts = self._counts
        remove: list[Quad] = []
        add: list[Quad] = []
        for quad, weight in weights.items():
            before = counts[quad]
            counts[quad] += weight
            if not counts[quad]:
                del counts[quad]
            if before and before == -weight:
                remove.append(quad)
            elif not before and weight:
                add.append(quad)
        self.change(remove, add)

    def change(self, remove: Sequence[Quad], add: Sequence[Quad]) -> None:
        """Remove quads that the workspace contains, and add quads that the workspace lacks."""
        for quad in remove:
            self._store.remove(quad)
        if add:
            self._store.extend(add)
        self._removed += len(remove)
        self._alive += len(add) - len(remove)
        if self._removed > self._removed_at_least and self._removed > self._alive:
            compacted = Store()
            compacted.bulk_extend(self._store)
            for graph in self._graphs:
                compacted.add_graph(graph)
            self._store, self._removed = compacted, 0

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: NamedNode | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern; None is a wildcard, also for the graph."""
        return list(self._store.quads_for_pattern(subject, predicate, object, graph))

    def query(
        self, text: str, width: int, functions: Mapping[NamedNode, Any], aggregates: Mapping[NamedNode, Any]
    ) -> list[Solution] | bool:
        """Return all rows of a SELECT query as a list, or the value of an ASK query."""
        result = self.stream(text, width, functions, aggregates)
        return result if isinstance(result, bool) else list(result)

    def stream(
        self, text: str, width: int, functions: Mapping[NamedNode, Any], aggregates: Mapping[NamedNode, Any]
    ) -> Generator[Solution, None, None] | bool:
        """Return the first ``width`` columns of a SELECT query's rows in order, or the value of an ASK query.

        Only the calling thread may read and close the generator of rows. The arguments ``functions`` and
        ``aggregates`` are the extension functions and aggregates that the text calls.
        """
        require_epoch()
        with _errors_as_ours():
            result: Any = self._store.query(
                text, custom_functions=dict(functions), custom_aggregate_functions=dict(aggregates)
            )
            return bool(result) if isinstance(result, QueryBoolean) else _rows(result, width)


def _rows(result: Any, width: int) -> Generator[Solution, None, None]:
    with _errors_as_ours():
        for solution in result:
            yield tuple([solution[column] for column in range(width)])


@contextlib.contextmanager
def _errors_as_ours() -> Iterator[None]:
    try:
        yield
    except SyntaxError as error:
        raise UnsupportedError(
            "this combination of patterns", f"the query can not be evaluated: {error.msg}"
        ) from error
    except RuntimeError as error:
        raise evaluation_error(error) from error
