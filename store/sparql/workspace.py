"""A store in memory over which queries of this program's own making are evaluated."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from pyoxigraph import NamedNode, Quad, QueryBoolean, Store

from ..documents.wall_clock import require_epoch
from ..errors import UnsupportedError
from ..terms import Solution
from .query import evaluation_error


class Workspace:
    """A store in memory that is filled by differences.

    A store in memory never frees deleted quads, so it is copied to a fresh one when more quads were removed
    than are alive.
    """

    def __init__(self, removed_at_least: int = 20_000) -> None:
        """Make an empty one, which is not copied before so many quads were removed."""
        self._removed_at_least = removed_at_least
        self._store = Store()
        self._graphs: list[NamedNode] = []
        # How many sources have a quad, of those that several may have.
        self._counts: Counter[Quad] = Counter()
        self._removed = 0
        self._alive = 0

    @property
    def size(self) -> int:
        """How many quads there are."""
        return self._alive

    def declare(self, graph: NamedNode) -> None:
        """A graph that exists even while it is empty: a window without elements still is a dataset."""
        self._graphs.append(graph)
        self._store.add_graph(graph)

    def add(self, weights: Mapping[Quad, int]) -> None:
        """Quads are there so often more or, with negative weights, less; each stays while one has it."""
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
        """Remove quads that are there and add quads that are not."""
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

    def query(
        self, text: str, width: int, functions: Mapping[NamedNode, Any], aggregates: Mapping[NamedNode, Any]
    ) -> list[Solution] | bool:
        """All that `stream` gives."""
        result = self.stream(text, width, functions, aggregates)
        return result if isinstance(result, bool) else list(result)

    def stream(
        self, text: str, width: int, functions: Mapping[NamedNode, Any], aggregates: Mapping[NamedNode, Any]
    ) -> Generator[Solution, None, None] | bool:
        """The rows of a SELECT query in its order, without columns behind ``width``; the value of ASK.

        The generator is read and closed in this thread. ``functions`` and ``aggregates`` are the custom ones
        that the text calls.
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
