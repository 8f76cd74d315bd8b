"""The results of shapes at one version, by focus node, and their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from pyoxigraph import NamedNode

from ..algebra.nodes import Term
from .result import Result

ResultKey: TypeAlias = tuple[int, Term]
"""The number of a shape with targets, in the order of the shapes graph, and a focus node."""
ResultChange: TypeAlias = dict[ResultKey, tuple[Result, ...]]
"""The new results of the focus nodes whose results change; an empty tuple for none."""
_NO_RESULTS: tuple[Result, ...] = ()


class KeptResults:
    """All results at one version, stored in full or as changes of the results of an earlier version.

    Results that are stored in full are in the order in which their focus nodes got results.

    Attributes:
        count: number of results.
        severities: number of results by severity; without severities that have no result.
    """

    def __init__(self, below: KeptResults | None = None) -> None:
        self._below = below
        self._own: ResultChange = {}
        # The keys of results about another node than the key's, by that node: a nested property shape gives
        # them. A changed layer also lists keys that no longer have such results.
        self._nested: dict[Term, set[ResultKey]] = {}
        self.count: int = 0 if below is None else below.count
        self.severities: Counter[NamedNode] = Counter() if below is None else below.severities.copy()

    def of(self, key: ResultKey) -> tuple[Result, ...]:
        """Return the results of a focus node."""
        found = self._own.get(key)
        if found is None:
            return _NO_RESULTS if self._below is None else self._below.of(key)
        return found

    def keys_nested(self, focus: Term) -> set[ResultKey]:
        """Return keys of other nodes, at least those that have results with this focus node."""
        found = self._nested.get(focus, set())
        return found | self._below.keys_nested(focus) if self._below is not None else found

    def keys(self) -> set[ResultKey]:
        """Return the shapes and focus nodes that have results."""
        found = set() if self._below is None else self._below.keys()
        for key, results in self._own.items():
            if results:
                found.add(key)
            else:
                found.discard(key)
        return found

    def results(self) -> Iterator[Result]:
        """Yield all results, one focus node after the other, so that a caller can stop early."""
        if self._below is None:
            yield from chain.from_iterable(self._own.values())
            return
        for key in self.keys():
            yield from self.of(key)

    def apply(self, change: ResultChange) -> None:
        """Apply a change of results."""
        for key, results in change.items():
            before = self.of(key)
            self.count += len(results) - len(before)
            self._count_severities(before, results)
            self._note_nested(key, before, results)
            if results or self._below is not None:
                self._own[key] = results
            else:
                self._own.pop(key, None)

    def _note_nested(self, key: ResultKey, before: tuple[Result, ...], results: tuple[Result, ...]) -> None:
        for focus in {result.focus for result in before} - {key[1]}:
            keys = self._nested.get(focus, set())
            keys.discard(key)
            if not keys:
                self._nested.pop(focus, None)
        for focus in {result.focus for result in results} - {key[1]}:
            self._nested.setdefault(focus, set()).add(key)

    def _count_severities(self, before: tuple[Result, ...], results: tuple[Result, ...]) -> None:
        for result in results:
            self.severities[result.severity] += 1
        for result in before:
            left = self.severities[result.severity] - 1
            if left:
                self.severities[result.severity] = left
            else:
                del self.severities[result.severity]

    def by_focus(self) -> dict[ResultKey, tuple[Result, ...]]:
        """Return the results by shape and focus node."""
        return {key: self.of(key) for key in self.keys()}

    def take(self, above: KeptResults) -> None:
        """Apply the changes that ``above`` and the results between it and this object have stored."""
        layers = []
        layer: KeptResults | None = above
        while layer is not None and layer is not self:
            layers.append(layer)
            layer = layer._below
        for each in reversed(layers):
            self.apply(each._own)

    def replacing(self, new: Mapping[ResultKey, tuple[Result, ...]]) -> ResultChange:
        """Return the change that turns these results into ``new``."""
        change: ResultChange = {key: _NO_RESULTS for key in self.keys() if key not in new}
        for key, results in new.items():
            if not same_results(results, self.of(key)):
                change[key] = results
        return change


def same_results(one: tuple[Result, ...], other: tuple[Result, ...]) -> bool:
    """Return True if two tuples have equal results with equal messages, in any order."""
    if one == other and all(a.messages == b.messages for a, b in zip(one, other, strict=True)):
        return True
    return len(one) == len(other) and Counter(map(_with_messages, one)) == Counter(map(_with_messages, other))


def _with_messages(result: Result) -> tuple[Result, object]:
    return result, result.messages


def difference(kept: KeptResults, change: ResultChange) -> tuple[Counter[Result], Counter[Result]]:
    """Return the results that a change adds to ``kept`` and those that it removes, as multisets."""
    before, after = Counter[Result](), Counter[Result]()
    for key, results in change.items():
        after.update(results)
        before.update(kept.of(key))
    return after - before, before - after
