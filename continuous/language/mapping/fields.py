"""The fields of a record as values of variables: names of nested ones are joined, arrays give solutions.

    {"sensor": "a", "value": {"c": 21.5}}    ?sensor "a", ?value_c 21.5
    {"id": 1, "tag": ["x", "y"]}             two solutions; several arrays give their product

Only what a mapping asks for is looked at; how a key is understood is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import LimitError

from ...errors import InputError
from ...expressions.values import INTEGER_LIMIT, XSD, Maybe

Row: TypeAlias = list[Maybe]
"""The values of the variables that a mapping asks for, in their order."""
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_INTEGER = NamedNode(f"{XSD}integer")
_MOST_KEYS = 10_000


def variable_name(field: str) -> str:
    """The variable of a field."""
    return _OTHER.sub("_", field)


class _Step:
    """What a key means at its place: the column that it gives, and what may stand below it."""

    __slots__ = ("below", "column", "name")

    def __init__(self, name: str, column: int | None) -> None:
        self.name = name
        self.column = column
        self.below: dict[str, _Step | None] = {}


class FieldReader:
    """Reads records; safe to use from any thread."""

    def __init__(self, names: Sequence[str], *, most_solutions: int = 10_000) -> None:
        """Make one for the variables of these names."""
        self._columns = {name: column for column, name in enumerate(names)}
        self._empty: Row = [None] * len(names)
        self._root = _Step("", None)
        self._known = 0
        self._most = most_solutions

    def rows(self, record: Mapping[str, Any]) -> list[Row]:
        """The solutions of a record.

        Raises:
            InputError: two of its fields are one variable.
            LimitError: its arrays have too many solutions.
        """
        return self._solutions(record, self._root)

    def _solutions(self, fields: Mapping[str, Any], step: _Step) -> list[Row]:
        row = self._empty.copy()
        arrays: list[list[Row]] = []
        self._object(fields, step, row, arrays)
        rows = [row]
        if not arrays:
            return rows
        for alternatives in arrays:
            if len(rows) * len(alternatives) > self._most:
                raise LimitError(
                    f"the arrays of the record give more than {self._most:,} solutions",
                    hint="Send them as records of their own.",
                    limit=self._most,
                )
            rows = [self._together(each, other) for each in rows for other in alternatives]
        return rows

    def _object(self, fields: Mapping[str, Any], step: _Step, row: Row, arrays: list[list[Row]]) -> None:
        below = step.below
        for key, value in fields.items():
            try:
                found = below[key]
            except KeyError:
                found = self._step(step, key)
            if found is None or value is None:
                continue
            kind = type(value)
            if kind is dict:
                self._object(value, found, row, arrays)
            elif kind is list:
                alternatives = self._members(value, found)
                if alternatives:
                    arrays.append(alternatives)
            elif (column := found.column) is not None:
                if row[column] is not None:
                    raise self._collision(column)
                small = kind is not int or -INTEGER_LIMIT <= value < INTEGER_LIMIT
                row[column] = value if small else _value(value)

    def _members(self, values: list[Any], step: _Step) -> list[Row]:
        """A solution for each member of an array, or several."""
        found: list[Row] = []
        for value in values:
            if type(value) is dict:
                found += self._solutions(value, step)
            elif type(value) is list:
                found += self._members(value, step)
            else:
                row = self._empty.copy()
                if step.column is not None and value is not None:
                    row[step.column] = _value(value)
                found.append(row)
            if len(found) > self._most:
                raise LimitError(
                    f"an array of the record has more than {self._most:,} members", limit=self._most
                )
        return found

    def _together(self, row: Row, other: Row) -> Row:
        for column, (left, right) in enumerate(zip(row, other, strict=True)):
            if left is not None and right is not None:
                raise self._collision(column)
        return [left if right is None else right for left, right in zip(row, other, strict=True)]

    def _collision(self, column: int) -> InputError:
        name = next(name for name, place in self._columns.items() if place == column)
        return InputError(
            f"two fields of the record are both ?{name}",
            hint="Nested names are joined by _, as are other characters than letters and digits: rename one.",
        )

    def _step(self, parent: _Step, key: str) -> _Step | None:
        name = f"{parent.name}_{variable_name(key)}" if parent.name else variable_name(key)
        column = self._columns.get(name)
        beneath = f"{name}_"
        found = None
        if column is not None or any(each.startswith(beneath) for each in self._columns):
            found = _Step(name, column)
        if self._known < _MOST_KEYS:  # others are understood anew each time
            self._known += 1
            parent.below[key] = found
        return found


def _value(value: Any) -> Maybe:
    if type(value) is int and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        return Literal(str(value), datatype=_INTEGER)
    return value  # type: ignore[no-any-return]  # a string, a number or a truth value: as expressions have them
