"""Columns of data frames, made from the solutions of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from .terms import DATE_TIME, instant_ns, plain_value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_INT64 = range(-(2**63) + 1, 2**63)
"""Whole numbers that a column of 64 bits holds; its least number means a missing time."""
_DIGITS = 38
"""Maximum number of digits of a decimal in Arrow's decimal128 and in polars."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer.

    Attributes:
        values: plain Python values, None where the variable is unbound; see `plain_value`.
        instants: nanoseconds since 1970, None where unbound, if each bound value is an xsd:dateTime in the
            years 1 to 9999; else None.
    """

    values: Sequence[Any]
    instants: Sequence[int | None] | None

    @classmethod
    def of(cls, terms: Sequence[Mapping[str, Any] | None]) -> Column:
        """Make a column from one variable's terms in the form of SPARQL Results JSON."""
        bound = [term for term in terms if term is not None]
        if bound and all(term.get("datatype") == DATE_TIME for term in bound):
            instants = [None if term is None else instant_ns(term["value"]) for term in terms]
            if instants.count(None) == len(terms) - len(bound):
                return cls((), instants)
        return cls([None if term is None else plain_value(term) for term in terms], None)

    def to_pandas(self) -> pandas.Series:
        """Return the column as a series: times are datetime64[ns, UTC], or [us, UTC] outside 1677 to 2262."""
        import numpy
        import pandas

        if self.instants is None:
            return pandas.Series(self.values, dtype=None if self.values else object)
        unit, numbers = self._times()
        missing = -(2**63)
        array = numpy.array([missing if each is None else each for each in numbers], dtype="int64")
        return pandas.Series(array.view(f"M8[{unit}]")).dt.tz_localize("UTC")

    def to_polars(self) -> polars.Series:
        """Return the column as a series: times are Datetime in UTC, decimals Decimal."""
        import polars

        if self.instants is None:
            return polars.Series(values=self._of_one_type(), strict=False)
        unit, numbers = self._times()
        return polars.Series(values=numbers, dtype=polars.Int64).cast(polars.Datetime(unit, "UTC"))

    def to_arrow(self) -> pyarrow.Array:
        """Return the column as an array: times are timestamp in UTC, decimals decimal128."""
        import pyarrow

        if self.instants is None:
            return pyarrow.array(self._of_one_type())
        unit, numbers = self._times()
        return pyarrow.array(numbers, pyarrow.timestamp(unit, tz="UTC"))

    def _times(self) -> tuple[Literal["ns", "us"], list[int | None]]:
        """Return the unit, ns or us, in which 64 bits hold all times of the column, and the times."""
        instants = self.instants or ()
        if all(each is None or each in _INT64 for each in instants):
            return "ns", list(instants)
        return "us", [None if each is None else each // 1000 for each in instants]

    def _of_one_type(self) -> list[Any]:
        """Return the values with one type.

        Whole numbers of more than 64 bits become Decimals, as do ints among Decimals; ints and Decimals among
        floats become floats. Values of other mixed types, and decimals of more than 38 digits, become text.
        """
        values = list(self.values)
        kinds = {type(value) for value in values if value is not None}
        convert: Any = None
        if kinds <= {int, Decimal}:
            if Decimal in kinds or any(value is not None and value not in _INT64 for value in values):
                convert = Decimal if _digits(values) <= _DIGITS else str
        elif len(kinds) > 1:
            convert = float if kinds <= {int, float, Decimal} else _text
        return values if convert is None else [None if each is None else convert(each) for each in values]


def _digits(values: Sequence[Any]) -> int:
    """Return the greatest number of digits before the decimal point plus that after the decimal point."""
    whole = fraction = 0
    for value in values:
        if value is not None:
            _, digits, exponent = Decimal(value).as_tuple()
            assert isinstance(exponent, int)
            whole, fraction = max(whole, len(digits) + exponent), max(fraction, -exponent)
    return whole + fraction


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
