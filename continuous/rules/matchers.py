"""Matchers of triple patterns and paths, and their combinations; a matcher is a generator over a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .facts import Facts
from .layout import Frame, Matcher
from .paths import FactReader, PathSteps


def chain(steps: Sequence[Matcher]) -> Matcher:
    """Return the matcher of a conjunction, which runs each step for every solution of the steps before."""
    if not steps:
        return once
    *outer, last = steps
    matcher = last
    for step in reversed(outer):
        matcher = nested(step, matcher)
    return matcher


def once(_frame: Frame, _facts: Facts) -> Iterator[None]:
    """Yield one solution that binds nothing."""
    yield


def nested(first: Matcher, second: Matcher) -> Matcher:
    """Return the matcher that runs ``second`` for each solution of ``first``."""

    def both(frame: Frame, facts: Facts) -> Iterator[None]:
        for _ in first(frame, facts):
            yield from second(frame, facts)

    return both


def union(first: Matcher, second: Matcher) -> Matcher:
    """Return the matcher that yields the solutions of both matchers."""

    def either(frame: Frame, facts: Facts) -> Iterator[None]:
        yield from first(frame, facts)
        yield from second(frame, facts)

    return either


def match_triple(s: int, p: int, o: int) -> Matcher:
    """Return the matcher of a triple pattern with the slots of its subject, predicate and object."""
    repeated = len({s, p, o}) < 3

    def triple(frame: Frame, facts: Facts) -> Iterator[None]:
        subject, predicate, value = frame[s], frame[p], frame[o]
        matched = facts.match(subject, predicate, value)
        if not matched:
            return
        if repeated:
            for fact in matched:
                yield from bind(frame, (s, p, o), fact)
            return
        if subject is None:
            if predicate is None:
                if value is None:
                    for frame[s], frame[p], frame[o] in matched:
                        yield
                    frame[s] = frame[p] = frame[o] = None
                else:
                    for frame[s], frame[p], _ in matched:
                        yield
                    frame[s] = frame[p] = None
            elif value is None:
                for frame[s], _, frame[o] in matched:
                    yield
                frame[s] = frame[o] = None
            else:
                for frame[s], _, _ in matched:
                    yield
                frame[s] = None
        elif predicate is None:
            if value is None:
                for _, frame[p], frame[o] in matched:
                    yield
                frame[p] = frame[o] = None
            else:
                for _, frame[p], _ in matched:
                    yield
                frame[p] = None
        elif value is None:
            for _, _, frame[o] in matched:
                yield
            frame[o] = None
        else:
            yield

    return triple


def match_in_graph(graph: int, s: int, p: int, o: int) -> Matcher:
    """Return the matcher of a triple pattern inside GRAPH; ``graph`` is the slot of the graph's name."""

    def triple(frame: Frame, facts: Facts) -> Iterator[None]:
        for name, fact in facts.match_in(frame[graph], frame[s], frame[p], frame[o]):
            yield from bind(frame, (graph, s, p, o), (name, *fact))

    return triple


def bind(frame: Frame, slots: Sequence[int], values: Sequence[int | None]) -> Iterator[None]:
    """Bind slots to values and yield once if the frame has no other values; then unbind these slots again.

    A value of None binds nothing.
    """
    freed: list[int] = []
    for slot, value in zip(slots, values, strict=True):
        if value is None:
            continue
        known = frame[slot]
        if known is None:
            frame[slot] = value
            freed.append(slot)
        elif known != value:
            break
    else:
        yield
    for slot in freed:
        frame[slot] = None


def unified(matcher: Matcher, pairs: Sequence[tuple[int, int]]) -> Matcher:
    """Return a matcher that gives the values of private slots to outer slots after each solution.

    It drops the solutions in which an outer slot has another value. A pair is a private and an outer slot.
    """
    if not pairs:
        return matcher
    private = [slot for slot, _ in pairs]
    outer = [slot for _, slot in pairs]

    def unified(frame: Frame, facts: Facts) -> Iterator[None]:
        for _ in matcher(frame, facts):
            yield from bind(frame, outer, [frame[slot] for slot in private])

    return unified


def match_path(s: int, o: int, steps: PathSteps, graph: int | None, nodes_only: bool) -> Matcher:
    """Return the matcher of a property path from the slot ``s`` to the slot ``o``.

    With ``nodes_only``, paths start only at subjects and objects of triples, even paths of length zero.
    """

    def pairs(frame: Frame, facts: Facts) -> Iterator[None]:
        if graph is not None and frame[graph] is None:
            for name in facts.graph_names():
                frame[graph] = name
                yield from pairs(frame, facts)
            frame[graph] = None
            return
        read = FactReader(facts, None if graph is None else frame[graph])
        start, end = frame[s], frame[o]
        if start is not None:
            if not nodes_only or read.is_node(start):
                for reached in steps.forward(read, start):
                    yield from bind(frame, (o,), (reached,))
        elif end is not None:
            if not nodes_only or read.is_node(end):
                for reached in steps.backward(read, end):
                    yield from bind(frame, (s,), (reached,))
        else:
            for begin in steps.starts(read):
                for reached in steps.forward(read, begin):
                    yield from bind(frame, (s, o), (begin, reached))

    return pairs
