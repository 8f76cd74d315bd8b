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
    """Result of a query, or the rows of one event of a feed.

    Attributes:
        document: SPARQL results in JSON, in feeds with ``at`` and ``version``; a graph is ``{"quads":
            text}``.
    """

    document: Mapping[str, Any]

    @property
    def variables(self) -> list[str]:
        """Names of the result's columns; an empty list for a graph or a boolean."""
        return list(self.document.get("head", {}).get("vars", ()))

    @property
    def boolean(self) -> bool:
        """Result of an ASK query; raises KeyError for all other queries."""
        return bool(self.document["boolean"])

    @property
    def at(self) -> int | None:
        """Event time of a feed's answer in milliseconds; None outside feeds."""
        return self.document.get("at")

    @property
    def version(self) -> int | None:
        """Version of the store that a feed's answer reflects; None outside feeds."""
        return self.document.get("version")

    @property
    def bindings(self) -> list[dict[str, dict[str, Any]]]:
        """Solutions in the form of SPARQL 1.1 Query Results JSON."""
        return list(self.document.get("results", {}).get("bindings", ()))

    def __len__(self) -> int:
        """Return the number of solutions or quads of the result."""
        return self.quads.count("\n") if "quads" in self.document else len(self.bindings)

    def __iter__(self) -> Iterator[dict[str, Node]]:
        """Yield each solution as a dict from bound variables to rdflib terms."""
        for binding in self.bindings:
            yield {name: rdflib_term(term) for name, term in binding.items()}

    def rows(self) -> list[dict[str, Any]]:
        """Return the solutions as dicts of plain Python values, with None for unbound variables."""
        return [
            {name: plain_value(binding[name]) if name in binding else None for name in self.variables}
            for binding in self.bindings
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the solutions as a pandas data frame of plain values; requires pandas."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=self.variables)

    def to_polars(self) -> polars.DataFrame:
        """Return the solutions as a polars data frame.

        A column of ints and floats becomes floats; any other column of mixed types becomes strings.
        """
        import polars

        return polars.DataFrame(self._columns())

    def to_arrow(self) -> pyarrow.Table:
        """Return the solutions as an Arrow table; columns of mixed types are converted as in `to_polars`."""
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
        """The resulting graph as N-Quads; raises KeyError for solutions."""
        return str(self.document["quads"])

    def to_rdflib(self) -> Dataset:
        """Return the resulting graph as an rdflib dataset."""
        from rdflib import Dataset

        found = Dataset()
        with warnings.catch_warnings():
            # Warnings are ignored, because rdflib's N-Quads parser calls deprecated functions of rdflib.
            warnings.simplefilter("ignore", DeprecationWarning)
            found.parse(data=self.quads, format="nquads")
        return found


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event of a continuous query's feed.

    Attributes:
        id: sequence number of the event, or None for ``progress`` and ``reset``.
        kind: type of the event: ``insert``, ``delete``, ``answer``, ``progress``, ``reset`` or ``error``.
        answer: rows and times of the event.
    """

    id: int | None
    kind: str
    answer: Answer
