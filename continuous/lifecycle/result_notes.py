"""Notes about changed results of shapes, from which `ShapeFeeds` creates events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quadrill.store.results import one_line, rows_text

from ..shapes.kept_results import KeptResults, ResultChange
from ..shapes.report import COLUMNS, result_row
from ..shapes.result import Result

_HEAD = f',"head":{one_line({"vars": COLUMNS})},"results":{{"bindings":['


@dataclass(frozen=True, slots=True)
class Changed:
    """A commit changed results.

    Attributes:
        before: the results of the changed focus nodes before the commit.
        after: their results after the commit.
    """

    before: Sequence[tuple[Result, ...]]
    after: Sequence[tuple[Result, ...]]

    def difference(self) -> Counter[str]:
        """Return how many more times the report has each row after the commit; the number may be negative."""
        found = rows_of(self.after)
        found.subtract(rows_of(self.before))
        return found


@dataclass(frozen=True, slots=True)
class Computed:
    """All results were computed: at a PUT or at the start; ``results`` has those of each focus node."""

    results: Sequence[tuple[Result, ...]]


@dataclass(frozen=True, slots=True)
class Failed:
    """Shapes have failed; ``error`` is the reason."""

    error: str


@dataclass(frozen=True, slots=True)
class Removed:
    """Shapes were removed."""


@dataclass(slots=True)
class ResultNote:
    """A change of the results of shapes at one version.

    Attributes:
        name: the name of the shapes.
        version: the version of the dataset.
        what: the kind of the change, with its details.
        at_ms: the time of the commit, in milliseconds since 1970; None until the commit is durable.
    """

    name: str
    version: int
    what: Changed | Computed | Failed | Removed
    at_ms: int | None = None


def changed(kept: KeptResults, change: ResultChange) -> Changed:
    """Return the note about a change of the results ``kept``, which do not include the change yet."""
    return Changed([kept.of(key) for key in change], list(change.values()))


def rows_of(results: Iterable[tuple[Result, ...]]) -> Counter[str]:
    """Return results as rows: JSON objects of SPARQL Results JSON, with the number of occurrences of each."""
    return Counter(rows_text(COLUMNS, [result_row(each)]) for some in results for each in some)


def results_line(at_ms: int | None, version: int, rows: Counter[str]) -> str:
    """Return rows as one line of SPARQL Results JSON; ``rows`` has the number of occurrences of each."""
    at = "null" if at_ms is None else at_ms
    return f'{{"at":{at},"version":{version}{_HEAD}{",".join(sorted(rows.elements()))}]}}}}'
