"""The records of a push: JSON objects, or lines of CSV with names of columns.

A malformed record becomes an error with its position, so that the other records of the push can be processed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from ..documents.contents import guard_nesting
from ..errors import InputError, LimitError, RdfSyntaxError, ReportedError

_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
_TOGETHER = 100
"""Number of lines of records that are parsed together; one by one if a line is irregular."""
_PLAIN = "Write one JSON object a record."
MEDIA_TYPES = {
    "application/json": "json",
    "text/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/x-jsonlines": "ndjson",
    "text/csv": "csv",
}
"""The kind of a push's records by media type."""


class PushRecord(NamedTuple):
    """A record of a push: ``content`` is the parsed record, or the error of a malformed one.

    The attribute ``text`` is the record's original text, or empty if ``content`` suffices to write the record
    again. The text of a malformed CSV record includes the header line and ends with a line feed, as the text
    of a JSON record never does.
    """

    place: str
    line: int | None
    content: Mapping[str, Any] | ReportedError
    text: str

    def excerpt(self, most: int = 10_000) -> str:
        """Return the first ``most`` characters of the record's text, for a dead letter."""
        known = self.text or not isinstance(self.content, dict)
        return (self.text if known else json.dumps(self.content, ensure_ascii=False))[:most]


def type_of_record(excerpt: str) -> str:
    """Return the media type of a dead letter's text, the result of `PushRecord.excerpt`."""
    return "text/csv" if excerpt.endswith("\n") else "application/x-ndjson"


_made = partial(tuple.__new__, PushRecord)


def read_records(
    text: str, kind: str, *, header: bool = True, max_nesting: int = 100, max_characters: int = 1_000_000
) -> Iterable[PushRecord]:
    """Return the records of the body of a push; ``kind`` is a value of `MEDIA_TYPES`.

    Raises:
        RdfSyntaxError, InputError, LimitError: the body of the push is malformed as a whole.
    """
    if kind == "csv":
        return _of_csv(text, header, max_characters)
    if kind == "ndjson":
        return _of_lines(text, max_nesting, max_characters)
    guard_nesting(text, max_nesting + 1, json_text=True)
    return records_of_value(_json(text, None, _has_long_number(text)))


def read_document(text: str, max_nesting: int = 102) -> Any:
    """Return the JSON value of a text, parsed as strictly as the records of a push.

    Raises: RdfSyntaxError for malformed JSON, LimitError for too deep nesting.
    """
    guard_nesting(text, max_nesting, json_text=True)
    return _json(text, None, _has_long_number(text))


def records_of_value(document: Any) -> Iterator[PushRecord]:
    """Yield the records of a JSON value: an object, or an array of objects."""
    values = document if isinstance(document, list) else [document]
    for number, value in enumerate(values, start=1):
        place = f"record {number}"
        if isinstance(value, dict):
            yield _made((place, None, value, ""))
        else:
            error = InputError(f"{place} is not a JSON object", hint=_PLAIN)
            yield PushRecord(place, None, error, json.dumps(value, ensure_ascii=False))


def _of_lines(text: str, max_nesting: int, max_characters: int) -> Iterator[PushRecord]:
    long, lines = _has_long_number(text), text.rstrip().split("\n")
    for begin in range(0, len(lines), _TOGETHER):
        some = lines[begin : begin + _TOGETHER]
        longest = max(map(len, some))
        content = None
        # Each level of JSON nesting takes two brackets, so shorter lines cannot nest too deeply.
        if not long and longest <= max_characters and (longest < 2 * max_nesting or _flat(some, max_nesting)):
            content = _objects(some)
        numbers = range(begin + 1, begin + 1 + len(some))
        if content is not None:
            yield from map(
                _made, zip([f"line {each}" for each in numbers], numbers, content, some, strict=True)
            )
            continue
        for number, line in zip(numbers, some, strict=True):
            if line and not line.isspace():
                yield _of_line(number, line, long, max_nesting, max_characters)


def _flat(lines: Sequence[str], most: int) -> bool:
    """Return True if no line has more than ``most`` opening brackets, so that no line nests deeper."""
    return max(line.count("{") + line.count("[") for line in lines) <= most


def _objects(lines: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the JSON objects on the lines of a push; None if a line is no JSON object."""
    try:
        content = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        return None
    return content if set(map(type, content)) == {dict} else None


def _of_line(number: int, line: str, long: bool, max_nesting: int, max_characters: int) -> PushRecord:
    content: Mapping[str, Any] | ReportedError
    try:
        if len(line) > max_characters:
            raise _too_long(f"line {number}", max_characters)
        if not _flat([line], max_nesting):
            guard_nesting(line, max_nesting, json_text=True)
        content = _json(line, number, long)
        if type(content) is not dict:
            content = InputError(f"line {number} is not a JSON object", hint=_PLAIN)
    except ReportedError as error:
        content = error
    return PushRecord(f"line {number}", number, content, line)


def _has_long_number(text: str) -> bool:
    """Return True if a JSON text has 19 digits in a row; faster than a regular expression."""
    return _LONG_NUMBER in text.encode(errors="replace").translate(_DIGITS_ALIKE)


def _json(text: str, line: int | None, long: bool) -> Any:
    """Parse a JSON value; if ``long`` is True, integers of more than 18 digits stay exact.

    Raises: RdfSyntaxError with line and column for malformed JSON.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno if line is None else line}"
        raise RdfSyntaxError(
            f"{place}, column {error.colno}: it is not JSON: {error.msg}",
            line=error.lineno if line is None else line,
            column=error.colno,
        ) from None
    # the JSON library orjson would turn integers over 64 bits into doubles
    return json.loads(text) if long else value


def _of_csv(text: str, header: bool, max_characters: int) -> Iterator[PushRecord]:
    """Yield the records of CSV (RFC 4180); empty fields are absent; unnamed columns are a, b, c ..."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, strict=True)
    names: list[str] | None = None
    first, pieces = 0, _TextLines(text)
    while True:
        number = reader.line_num + 1
        place = f"line {number}"
        cells: list[str] = []
        content: Mapping[str, Any] | ReportedError
        try:
            cells = next(reader)
            if not cells:
                continue
            if names is None:
                names = _names(cells, place) if header else [_letters(each) for each in range(len(cells))]
                if header:
                    first = reader.line_num
                    continue
            if len(cells) != len(names):
                columns = f"there are {len(names)} columns"
                raise InputError(f"{place} has {len(cells)} fields, {columns}", line=number)
            if sum(map(len, cells)) > max_characters:
                raise _too_long(place, max_characters)
            content = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
            excerpt = ""
        except StopIteration:
            return
        except csv.Error as error:
            content = RdfSyntaxError(f"{place} is not CSV: {error}", line=number)
            if names is None:
                raise content from None  # without the header line of CSV no record can be read
            excerpt = pieces.of(0, first) + pieces.of(number - 1, reader.line_num)
        except ReportedError as error:
            if names is None:
                raise
            content, excerpt = error, pieces.of(0, first) + pieces.of(number - 1, reader.line_num)
        yield PushRecord(place, number, content, excerpt)


class _TextLines:
    """The lines of a CSV text, which are split at the first use."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[str] | None = None

    def of(self, begin: int, end: int) -> str:
        """Return the lines ``begin`` to ``end`` (exclusive) as one text that ends with a line feed."""
        if self._lines is None:
            self._lines = list(io.StringIO(self._text, newline=""))
        content = "".join(self._lines[begin:end])
        return content if content.endswith("\n") or not content else f"{content}\n"


def _names(cells: list[str], place: str) -> list[str]:
    # A data frame writes an index without a name as a column without a name, which no mapping can use.
    twice = next((name for name in cells if name and cells.count(name) > 1), None)
    if twice is not None:
        hint = "Give each column a name of its own."
        raise InputError(f"{place}: the column {twice!r} is there twice", hint=hint)
    return [cell.strip() for cell in cells]


def _letters(column: int) -> str:
    """Return the name of an unnamed CSV column by its position: a to z, then aa, ab ..."""
    name = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        name = chr(ord("a") + letter) + name
    return name


def _too_long(place: str, most: int) -> LimitError:
    return LimitError(f"{place} has more than {most:,} characters", limit=most)
