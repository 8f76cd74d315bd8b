"""Answers of queries: solutions as rdflib terms, plain values or data frames; graphs as rdflib or lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .terms import plain_value, rdflib_term

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from rdflib import Dataset
    from rdflib.term import Node


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query answers, or one event of a feed tells.

    Attributes:
        document: SPARQL results in JSON, with ``at`` and ``version`` in feeds; ``{"quads"}`` for a graph.
    """

    document: Mapping[str, Any]

    @property
    def variables(self) -> list[str]:
        """The names of the columns; none for a graph or a truth value."""
        return list(self.document.get("head", {}).get("vars", ()))

    @property
    def boolean(self) -> bool:
        """The answer of an ASK; raises KeyError for any other."""
        return bool(self.document["boolean"])

    @property
    def at(self) -> int | None:
        """In a feed: the event time of the answer in milliseconds."""
        return self.document.get("at")

    @property
    def version(self) -> int | None:
        """In a feed: the version of the store that the answer reflects."""
        return self.document.get("version")

    @property
    def bindings(self) -> list[dict[str, dict[str, Any]]]:
        """The solutions as SPARQL results in JSON have them."""
        return list(self.document.get("results", {}).get("bindings", ()))

    def __len__(self) -> int:
        """How many solutions or quads there are."""
        return self.quads.count("\n") if "quads" in self.document else len(self.bindings)

    def __iter__(self) -> Iterator[dict[str, Node]]:
        """The solutions, bound variables by name, as rdflib's terms."""
        for binding in self.bindings:
            yield {name: rdflib_term(term) for name, term in binding.items()}

    def rows(self) -> list[dict[str, Any]]:
        """The solutions as plain values, None for what is unbound."""
        return [
            {name: plain_value(binding[name]) if name in binding else None for name in self.variables}
            for binding in self.bindings
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of plain values; needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=self.variables)

    def to_polars(self) -> polars.DataFrame:
        """A data frame of plain values; needs polars. Columns of unlike values become texts."""
        import polars

        return polars.DataFrame(self._columns())

    def to_arrow(self) -> pyarrow.Table:
        """A table of plain values; needs pyarrow. Columns of unlike values become texts."""
        import pyarrow

        return pyarrow.table(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        rows = self.rows()
        for name in self.variables:
            values = [row[name] for row in rows]
            kinds = {type(value) for value in values if value is not None}
            if len(kinds) > 1:
                numbers = kinds <= {int, float}
                convert = float if numbers else str
                values = [None if value is None else convert(value) for value in values]
            columns[name] = values
        return columns

    # --- graphs ---------------------------------------------------------------------------------

    @property
    def quads(self) -> str:
        """A graph as N-Quads; raises KeyError for solutions."""
        return str(self.document["quads"])

    def to_rdflib(self) -> Dataset:
        """A graph as a dataset of rdflib."""
        from rdflib import Dataset

        found = Dataset()
        with warnings.catch_warnings():
            # Its own parser uses what it warns of.
            warnings.simplefilter("ignore", DeprecationWarning)
            found.parse(data=self.quads, format="nquads")
        return found


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event of a feed.

    Attributes:
        id: its number, None for ``progress`` and ``reset``.
        kind: ``insert``, ``delete``, ``answer``, ``progress``, ``reset`` or ``error``.
        answer: what it tells.
    """

    id: int | None
    kind: str
    answer: Answer
