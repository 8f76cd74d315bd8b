"""Answers of queries: solutions as rdflib terms, plain values or data frames; graphs as rdflib or lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .columns import Column
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
        """Return the solutions as a pandas data frame; requires pandas.

        A column of xsd:dateTime is datetime64[ns, UTC]; an xsd:decimal is a Decimal.
        """
        import pandas

        columns = {name: column.to_pandas() for name, column in self._columns().items()}
        return pandas.DataFrame(columns, index=range(len(self.bindings)), columns=self.variables)

    def to_polars(self) -> polars.DataFrame:
        """Return the solutions as a polars data frame; requires polars.

        A column of xsd:dateTime is Datetime in UTC, of xsd:decimal Decimal. Numbers of several types become
        the wider one; a column of other mixed types becomes strings.
        """
        import polars

        return polars.DataFrame({name: column.to_polars() for name, column in self._columns().items()})

    def to_arrow(self) -> pyarrow.Table:
        """Return the solutions as an Arrow table; columns are timestamp in UTC, decimal128 and so on.

        Columns of mixed types are converted as in `to_polars`; requires pyarrow.
        """
        import pyarrow

        return pyarrow.table({name: column.to_arrow() for name, column in self._columns().items()})

    def _columns(self) -> dict[str, Column]:
        bindings = self.bindings
        return {name: Column.of([row.get(name) for row in bindings]) for name in self.variables}

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
        kind: type of the event: ``insert``, ``delete``, ``answer``, ``resolved``, ``progress``, ``reset`` or
            ``error``.
        answer: rows and times of the event.
    """

    id: int | None
    kind: str
    answer: Answer
