"""Reads the fields of a record as values of a mapping's variables.

    {"sensor": "a", "value": {"c": 21.5}}    ?sensor "a", ?value_c 21.5: names of nested fields are joined
    {"id": 1, "tag": ["x", "y"]}             two solutions; several arrays give their product

Fields of a record that the mapping does not use are ignored. The meaning of each key of records is cached.
Most records of a stream have the same keys, so a function is generated for each tuple of keys that reads
records without arrays.

    def row(record):
        a1 = record["value"]
        if type(a1) is not dict or tuple(a1) != ("c",): return None     # the record is read field by field
        p0 = record["sensor"]
        p1 = a1["c"]
        return (p0, p1) if ((kind := type(p0)) is str or ...) and ... else None
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import InputError, LimitError

from ...expressions.emitter import Emitter
from ...expressions.values import INTEGER_LIMIT, XSD, Maybe
from .limits import CELL_BYTES, ROW_BYTES

Row: TypeAlias = Sequence[Maybe]
"""A row of field values: one value for each variable that a mapping uses, in the order of the variables."""
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_INTEGER = NamedNode(f"{XSD}integer")
_IS_ONE = (
    "((kind := type({0})) is str or kind is float or (-{1} <= {0} < {1} if kind is int else is_one(kind)))"
)
"""Source text of a test that a local variable has a JSON value which needs no conversion."""
_Reader: TypeAlias = Callable[[Mapping[str, Any]], Row | None]
_MOST_KEYS = 10_000
_MOST_READERS = 100
_LONG = 1_000
"""Length in characters from which a key's meaning is not cached; names of fields are usually short."""


def variable_name(field: str) -> str:
    """Return the variable name for a record's field: characters but letters and digits become ``_``."""
    return _OTHER.sub("_", field)


class _FieldStep:
    """The meaning of a key within a JSON object: the key's column, and the meanings of nested keys."""

    __slots__ = ("below", "column", "name")

    def __init__(self, name: str, column: int | None) -> None:
        self.name = name
        self.column = column
        self.below: dict[str, _FieldStep | None] = {}


class FieldReader:
    """Reader of records' fields as rows; safe to use from any thread."""

    def __init__(
        self, names: Sequence[str], *, most_solutions: int = 10_000, most_bytes: int = 16 << 20
    ) -> None:
        """Create a reader of record fields for the variables ``names``, which are the columns of its rows."""
        self._columns = {name: column for column, name in enumerate(names)}
        self._empty: list[Maybe] = [None] * len(names)
        self._beginnings = {name[:end] for name in names for end, sign in enumerate(name) if sign == "_"}
        # A row of a record's fields has a cell for every variable, so memory grows with rows times variables.
        self._most_rows = max(1, most_bytes // (ROW_BYTES + CELL_BYTES * len(names)))
        self._most_bytes = most_bytes
        self._root = _FieldStep("", None)
        self._known = 0
        self._readers: dict[tuple[str, ...], _Reader | None] = {}
        self._most = most_solutions

    def rows(self, record: Mapping[str, Any]) -> list[Row]:
        """Return the rows of field values of a record, several if the record has arrays.

        Raises:
            InputError: two fields of the record have the same variable.
            LimitError: the record's arrays give too many solutions.
        """
        keys = tuple(record)
        reader = self._readers.get(keys)
        if reader is None and keys not in self._readers and len(self._readers) < _MOST_READERS:
            reader = self._readers[keys] = self._reader(record) if sum(map(len, keys)) < _LONG else None
        row = None if reader is None else reader(record)
        return self._solutions(record, self._root) if row is None else [row]

    def _reader(self, record: Mapping[str, Any]) -> _Reader | None:
        """Generate a function that reads records with the keys of ``record``.

        Returns None if records with these keys must be read field by field (`_solutions`).
        """
        parts: list[tuple[_FieldStep, Mapping[str, Any], str]] = [(self._root, record, "record")]
        out = Emitter({"is_one": _is_one})
        out.depth = 1
        locals_: dict[int, str] = {}
        for step, fields, source in parts:  # The loop appends the record's nested objects to ``parts``.
            for key, value in fields.items():
                found = step.below[key] if key in step.below else self._step(step, key)
                if found is None:
                    continue
                if type(value) is dict and step is self._root:
                    local, keys = f"a{len(parts)}", f"keys{len(parts)}"
                    parts.append((found, value, local))
                    out.names[keys] = tuple(value)
                    out.line(f"{local} = {source}[{key!r}]")
                    out.line(f"if type({local}) is not dict or tuple({local}) != {keys}: return None")
                elif found.column is None or found.column in locals_ or isinstance(value, dict | list):
                    return None
                else:
                    local = locals_[found.column] = f"p{found.column}"
                    out.line(f"{local} = {source}[{key!r}]")
        tests = [_IS_ONE.format(each, INTEGER_LIMIT) for each in locals_.values()]
        cells = "".join(f"{locals_.get(column)}, " for column in range(len(self._empty)))
        out.line(f"return ({cells}) if {' and '.join(tests) or 'True'} else None")
        made: _Reader = out.build("def row(record):", "row")
        return made

    def _solutions(self, fields: Mapping[str, Any], step: _FieldStep) -> list[Row]:
        row = self._empty.copy()
        arrays: list[list[Row]] = []
        self._object(fields, step, row, arrays)
        rows: list[Row] = [row]
        if not arrays:
            return rows
        for alternatives in arrays:
            if len(rows) * len(alternatives) > self._most:
                raise LimitError(
                    f"the arrays of the record give more than {self._most:,} solutions",
                    hint="Send them as records of their own.",
                    limit=self._most,
                )
            self._check_rows(len(rows) * len(alternatives))
            rows = [self._together(each, other) for each in rows for other in alternatives]
        return rows

    def _object(
        self, fields: Mapping[str, Any], step: _FieldStep, row: list[Maybe], arrays: list[list[Row]]
    ) -> None:
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

    def _members(self, values: list[Any], step: _FieldStep) -> list[Row]:
        """Return the solutions of an array in a record.

        Each item of a record's array gives one solution, or several if it contains arrays.
        """
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
            self._check_rows(len(found))
        return found

    def _check_rows(self, count: int) -> None:
        if count > self._most_rows:
            raise LimitError(
                f"the arrays of the record take more than {self._most_bytes:,} bytes (max_record_bytes)",
                hint="Send them as records of their own.",
                limit=self._most_bytes,
            )

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

    def _step(self, parent: _FieldStep, key: str) -> _FieldStep | None:
        name = f"{parent.name}_{variable_name(key)}" if parent.name else variable_name(key)
        column = self._columns.get(name)
        found = None
        if column is not None or name in self._beginnings:
            found = _FieldStep(name, column)
        # The meaning of further or longer keys is not cached but computed each time.
        if self._known < _MOST_KEYS and len(key) < _LONG:
            self._known += 1
            parent.below[key] = found
        return found


def _is_one(kind: type) -> bool:
    """Return True if a JSON value of type ``kind`` is the value of one variable: no object and no array."""
    return kind is not dict and kind is not list


def _value(value: Any) -> Maybe:
    if type(value) is int and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        return Literal(str(value), datatype=_INTEGER)
    return value  # type: ignore[no-any-return]  # expressions compute with the same str, int, float and bool
