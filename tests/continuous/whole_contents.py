"""Gives evaluators whole contents of windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.evaluate.evaluator import Evaluator
from quadrill.continuous.evaluate.native import AnswerChange, NativeEvaluator
from quadrill.continuous.evaluate.recomputing import RecomputedAnswer, ReferenceEvaluator
from quadrill.continuous.inputs import Element, WindowContent
from quadrill.continuous.windows.encoded import EncodedContent
from quadrill.continuous.windows.timed import TimedContent
from quadrill.continuous.windows.window_delta import WindowKey

Contents = Mapping[NamedNode, Any]
"""By window; where that is on a variable, by stream below it."""


class _Windows:
    """What the windows of one evaluator hold."""

    def __init__(self) -> None:
        self.live: dict[WindowKey, EncodedContent] = {}
        self.held: dict[WindowKey, WindowContent] = {}
        self.at: int | None = None


_KNOWN: WeakKeyDictionary[NativeEvaluator, _Windows] = WeakKeyDictionary()


def move_to(evaluator: NativeEvaluator, at: int, contents: Contents) -> AnswerChange:
    """Compare whole contents with those of the last call and take what changed, at instant ``at``."""
    windows = _KNOWN.setdefault(evaluator, _Windows())
    given = _by_stream(evaluator, contents)
    for key in given.keys() | windows.held.keys():
        live = windows.live.get(key)
        if live is None:
            live = windows.live[key] = evaluator.content_of(key[0])
        new, old = given.get(key, {}), windows.held.get(key, {})
        timed = isinstance(live, TimedContent)
        for quad, time in old.items():
            if quad not in new or (timed and new[quad] != time):
                live.remove(Element.of((quad,), time, 0))
        for quad, time in new.items():
            if quad not in old or (timed and old[quad] != time):
                live.add(Element.of((quad,), time, 0))
        windows.held[key] = dict(new)
    if windows.at is not None:
        evaluator.replan_filters(windows.at, windows.live.items())
    windows.at = at
    return evaluator.advance(at, windows.live.items())


def answer_of(evaluator: NativeEvaluator, at: int, contents: Contents) -> AnswerChange:
    """The whole answer over whole contents."""
    return move_to(evaluator, at, contents)


def recomputed(evaluator: ReferenceEvaluator, at: int, contents: Contents) -> RecomputedAnswer:
    """The answer by definition."""
    return evaluator.answer(at, _by_stream(evaluator, contents))


def refresh(evaluator: Evaluator) -> bool:
    """Read the static parts that do not follow the store; True when a row changed."""
    return evaluator.take(evaluator.statics.refresh())


def _by_stream(evaluator: Evaluator, contents: Contents) -> dict[WindowKey, WindowContent]:
    given: dict[WindowKey, WindowContent] = {}
    for declaration in evaluator.query.windows:
        content = contents.get(declaration.name, {})
        if isinstance(declaration.stream, Var):
            given |= {(declaration.name, stream): each for stream, each in content.items()}
        else:
            given[(declaration.name, None)] = content
    return given
