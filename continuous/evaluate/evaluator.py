"""What keeps the answer of a query: it is told of the windows at each instant and says what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pyoxigraph import NamedNode, Quad

from ..element import Solution
from ..output.emission import ChangedAnswer
from ..static.facts import StaticPart
from ..static.static_inputs import StaticInputs
from ..static.steps import Changes
from ..windows.encoded import WindowKey
from ..windows.live import LiveContent
from .answer import Answer

Windows = Iterable[tuple[WindowKey, Any]]
"""The contents of the windows of a query, each of the kind that its evaluator gave (`content_of`)."""


class Evaluator(Protocol):
    """The evaluator of one continuous query; used by one thread at a time."""

    @property
    def engine(self) -> str:
        """The word for it in descriptions."""
        ...

    @property
    def vars(self) -> tuple[str, ...]:
        """The columns of its answers; none for ASK."""
        ...

    @property
    def explained(self) -> Explained | None:
        """The plan that keeps the answer by changes; None where the answer is computed anew."""
        ...

    # --- static parts ---------------------------------------------------------------------------

    @property
    def statics(self) -> StaticInputs | None:
        """Its static parts; None where it reads the store by itself."""
        ...

    @property
    def static_version(self) -> int:
        """The version of the dataset that the static parts reflect."""
        ...

    def begin(self) -> bool:
        """The query begins in this turn, with the rows of the parts that follow the store."""
        ...

    def take(self, changes: Changes) -> bool:
        """Take changes of parts that follow the store into the next step; True when any row changed."""
        ...

    def refresh(self) -> bool:
        """Read the other parts at the newest version; True when a row changed."""
        ...

    def static_parts(self) -> Sequence[StaticPart]:
        """What each static part is and how many rows it has."""
        ...

    def streams_of_variable(self, window_name: NamedNode) -> frozenset[NamedNode] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        ...

    # --- steps ----------------------------------------------------------------------------------

    def content_of(self, window: NamedNode) -> LiveContent:
        """An empty content of the kind that a window of the query is to hold."""
        ...

    def advance(self, at: int, windows: Windows) -> ChangedAnswer:
        """The answer at an instant (milliseconds), given what the windows hold now."""
        ...

    def go_on(self, at: int, windows: Windows, kept: Answer) -> ChangedAnswer:
        """The answer of the last evaluation before a restart, of which nothing is news.

        Args:
            at: its instant.
            windows: what they hold now, and what of that has changed since.
            kept: the `kept` rows and the boolean of then.
        """
        ...

    @property
    def kept(self) -> Sequence[Solution]:
        """The rows that a checkpoint must hold, where the answer does not follow from the windows."""
        ...

    def construct(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        """The template over some rows of an answer: distinct quads in the order of the rows."""
        ...

    def close(self) -> None:
        """The query has ended: let go of what is held now, not when memory is tidied."""
        ...


class Explained(Protocol):
    """A plan at work."""

    def explain(self, *, analyze: bool = False) -> str:
        """The operators with the rows that they keep; with ``analyze`` also what they did."""
        ...

    def measured(self) -> dict[str, Any]:
        """Live figures of the operators."""
        ...

    @property
    def code(self) -> str | None:
        """The generated function that runs the plan now, as text."""
        ...
