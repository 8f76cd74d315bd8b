"""Typed columns of the mirror: the kind of each object, and its value if a column can hold it exactly.

    kind   iri blank triple string language boolean integer decimal double dateTime date other
    n      xsd:integer and xsd:decimal as decimal(38,18)
    d      xsd:double, finite
    t      zoned xsd:dateTime in microseconds since 1970, unzoned xsd:date in days

A literal has the kind ``other`` if its datatype is not listed or its value does not fit the column (an
integer with more than 20 digits, a year without exactly four digits). Comparisons of a predicate that has
objects of kind ``other`` do not use the typed columns.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyoxigraph import Literal

XSD = "http://www.w3.org/2001/XMLSchema#"
DATE_TIME, DATE = "dateTime", "date"
DECIMAL_LIMIT = 10**20
"""The least absolute value of a number with more than 20 digits before the decimal point."""

COLUMNS = "kind string, n decimal(38,18), d double, t long"
_NUMBER = r"^[+-]?\d{1,20}(\.\d{1,18})?$"
_DATE_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def with_types(data: Any) -> Any:
    """Return a DataFrame of quads with the added columns kind, n, d and t, computed from the column o."""
    from pyspark.sql import functions as f

    o = f.col("o")
    datatype = f.regexp_extract(o, r'"\^\^<([^<>"]*)>$', 1)
    text = f.regexp_extract(o, r'^"(.*)"\^\^<[^<>"]*>$', 1)

    def typed(name: str, pattern: str | None, kind: str) -> Any:
        column = text if pattern is None else f.when(text.rlike(pattern), text)
        return f.when(datatype == XSD + name, column.try_cast(kind))

    number = f.coalesce(
        typed("integer", _NUMBER, "decimal(38,18)"), typed("decimal", _NUMBER, "decimal(38,18)")
    )
    double = typed("double", None, "double")
    double = f.when(~f.isnan(double) & (f.abs(double) != float("inf")), double)
    moment = f.unix_micros(typed("dateTime", _DATE_TIME, "timestamp"))
    day = f.unix_date(typed("date", _DATE, "date")).cast("long")
    kind = (
        f.when(o.startswith("<<"), "triple")
        .when(o.startswith("<"), "iri")
        .when(o.startswith("_:"), "blank")
        .when(o.endswith('"'), "string")
        .when((datatype == XSD + "integer") & number.isNotNull(), "integer")
        .when((datatype == XSD + "decimal") & number.isNotNull(), "decimal")
        .when((datatype == XSD + "double") & double.isNotNull(), "double")
        .when((datatype == XSD + "dateTime") & moment.isNotNull(), DATE_TIME)
        .when((datatype == XSD + "date") & day.isNotNull(), DATE)
        .when(datatype == XSD + "boolean", "boolean")
        .when(o.rlike(r'"@[A-Za-z0-9-]+$'), "language")
        .otherwise("other")
    )
    return data.withColumns({"kind": kind, "n": number, "d": double, "t": f.coalesce(moment, day)})


def moment_number(literal: Literal) -> int | None:
    """Return the value of a date or time literal for the column ``t``; None if the column cannot hold it."""
    if literal.datatype.value == XSD + DATE_TIME and re.search(_DATE_TIME, literal.value):
        try:
            moment = datetime.fromisoformat(literal.value)
        except ValueError:
            return None
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if literal.datatype.value == XSD + DATE and re.search(_DATE, literal.value):
        try:
            return (date.fromisoformat(literal.value) - _EPOCH.date()).days
        except ValueError:
            return None
    return None
