"""Conversion of dicts and data frames to JSON records for mapped streams."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
_HINTS = {
    ("polars", "LazyFrame"): "collect() it first",
    ("pandas", "Series"): "use its to_frame()",
    ("polars", "Series"): "use its to_frame()",
}
"""What to do with types of the same libraries that are no frames, by library and name of the type."""


def is_frame(data: Any) -> bool:
    """Return True for a data frame of pandas or polars, and for a table or record batch of Arrow.

    Raises: TypeError for a column or a lazy frame; the message says how to make a data frame of it.
    """
    kind = _kind(data)
    if kind in _HINTS:
        raise TypeError(f"a {'.'.join(kind)} cannot be pushed; {_HINTS[kind]}")
    return kind in _FRAMES


def json_records(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame, or a dict, or an iterable of dicts, as JSON objects.

    None, NaN, NaT and pandas.NA are absent. Datetimes become text of RFC 3339, durations xsd:dayTimeDuration,
    Decimals floats.

    Raises:
        TypeError: a value has a type without a JSON form, or the data has no records.
        ValueError: a number is infinite, or two columns of a data frame have one name.
    """
    if isinstance(data, Mapping):
        rows: Any = (data,)
    else:
        rows = _rows(*_columns(data)) if is_frame(data) else data
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise TypeError(f"record {number} is a {type(row).__name__}, not a dict")
        yield _object(row, f"record {number}")


def _kind(value: Any) -> tuple[str, str]:
    """Return the library and the name of a value's type, such as pandas and DataFrame."""
    return type(value).__module__.partition(".")[0], type(value).__name__


def _columns(frame: Any) -> tuple[list[str], list[list[Any]]]:
    """Return the names and the values of a frame's columns, those of a pandas index with a name included."""
    if _kind(frame)[0] == "pandas":
        levels = [name for name in frame.index.names if name is not None]
        labels = [*levels, *frame.columns]
        index = [frame.index.get_level_values(name).tolist() for name in levels]
        columns = [*index, *(frame.iloc[:, place].tolist() for place in range(frame.shape[1]))]
    else:
        labels = list(frame.columns if _kind(frame)[0] == "polars" else frame.schema.names)
        listed = frame.iter_columns() if _kind(frame)[0] == "polars" else frame.columns
        columns = [each.to_list() if hasattr(each, "to_list") else each.to_pylist() for each in listed]
    names = ["_".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the data frame has two columns with the name {twice!r}; rename one")
    return names, columns


def _rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _object(row: Mapping[Any, Any], place: str) -> dict[str, Any]:
    found = {}
    for name, value in row.items():
        converted = _value(value, place, name)
        if converted is not None:
            found[str(name)] = converted
    return found


def _value(value: Any, place: str, field: Any) -> Any:
    """Return the JSON form of one value of a record, or None for a missing value."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return _object(value, place)
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(each, place, field) for each in value]
    library, name = _kind(value)
    if (library, name) == ("pandas", "NAType"):
        return None
    if library == "numpy" and name != "timedelta64":
        if name == "ndarray":
            return [_value(each, place, field) for each in value]
        # NaT is the only datetime64 without digits; a Python datetime has no nanoseconds.
        text = str(value)
        return _value(
            (text if text != "NaT" else None) if name == "datetime64" else value.item(), place, field
        )
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        if math.isinf(number):
            raise ValueError(f"{place}: {field} is {value}, which JSON cannot express; send it as text")
        return None if math.isnan(number) else number
    # Only NaT differs from itself.
    if isinstance(value, datetime | date | time):
        return value.isoformat() if value == value else None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{'-' if seconds < 0 else ''}PT{abs(seconds):f}S"
    if isinstance(value, UUID | PurePath):
        return str(value)
    raise TypeError(f"{place}: {field} is a {type(value).__name__}, which has no JSON form")
