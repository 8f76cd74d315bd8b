"""Serialisation of solutions as SPARQL Results JSON on one line, and of quads as N-Quads.

Source: SPARQL 1.2 Query Results JSON Format (https://www.w3.org/TR/sparql12-results-json/), with the members
``at``, ``version``, ``window`` and ``revises`` of docs/http-api.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import chain
from json.encoder import encode_basestring as _quoted
from typing import Any, TypeVar

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, serialize

from .dictionary import XSD_STRING, TermDictionary, inline_text
from .documents.statements import term_of
from .terms import Solution, Term

one_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Serialise a value as JSON on one line; JSON escapes line breaks inside strings."""
T = TypeVar("T", bound=tuple[Any, ...])
Row = TypeVar("Row")
_CHUNK = 4096
"""The number of rows or quads of an answer that are written between two calls of ``pause``."""


def term_json(term: Term) -> dict[str, Any]:
    """Return an RDF term as a JSON object of SPARQL Results JSON."""
    match term:
        case NamedNode():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.value}
        case Literal():
            document: dict[str, Any] = {"type": "literal", "value": term.value}
            if term.language is not None:
                document["xml:lang"] = term.language
                if term.direction is not None:
                    document["its:dir"] = term.direction.value
            elif term.datatype.value != XSD_STRING:
                document["datatype"] = term.datatype.value
            return document
        case _:
            return {
                "type": "triple",
                "value": {
                    "subject": term_json(term.subject),
                    "predicate": term_json(term.predicate),
                    "object": term_json(term.object),
                },
            }


@lru_cache(maxsize=8192)
def term_text(term: Term) -> str:
    """Return the JSON text of a term, as of `term_json`; texts are cached, because terms recur in answers."""
    if isinstance(term, NamedNode):
        return f'{{"type":"uri","value":{_quoted(term.value)}}}'
    if isinstance(term, Literal) and term.language is None:
        return _literal_text(_quoted(term.value), term.datatype.value)
    return one_line(term_json(term))


def _literal_text(quoted: str, datatype: str) -> str:
    """Return the JSON text of a literal without language, given its value as a quoted JSON string."""
    return f'{{"type":"literal","value":{quoted}{_datatype_text(datatype)}'


@lru_cache(maxsize=1024)
def _datatype_text(datatype: str) -> str:
    """Return the end of a literal's JSON text, which follows its value and names this datatype."""
    return "}" if datatype == XSD_STRING else f',"datatype":{_quoted(datatype)}}}'


def _text_as_written(written: str) -> str | None:
    """Return the JSON text of an N-Quads term; None if only the slower `term_text` can make it."""
    # A string of N-Quads without escapes is also a JSON string, and IRIs contain no characters that JSON
    # escapes.
    if "\\" in written:
        return None
    if written[:5] == "<http":
        return f'{{"type":"uri","value":"{written[1:-1]}"}}'
    if written[0] == '"':
        value, typed, datatype = written.rpartition('"^^<')
        if typed:
            return f'{{"type":"literal","value":{value}"{_datatype_text(datatype[:-1])}'
        if written[-1] == '"':
            return f'{{"type":"literal","value":{written}}}'
    return None


def inline_written(term_id: int) -> str:
    """Return the N-Quads text of the literal that an inline id contains."""
    text, datatype = inline_text(term_id)
    return str(Literal(text)) if datatype is XSD_STRING else f'"{text}"^^<{datatype}>'


class TermTexts(dict[int, str]):
    """A map from term ids to JSON texts, which are created on first access.

    The dictionary deletes the text of an id together with the term. Inline ids, which contain their literals,
    are serialised without creating a term. The function ``pause`` is called between chunks of long lists of
    rows.
    """

    def __init__(self, dictionary: TermDictionary, pause: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._pause = pause
        self._terms, self._texts, self._met = dictionary.terms, dictionary.text_of, dictionary.met_inline
        dictionary.forget_with(self)

    def __missing__(self, term_id: int) -> str:
        written = self._texts[term_id] if term_id > 0 else self._texts.get(term_id)
        if written is not None:
            text = _text_as_written(written) or term_text(self._terms[term_id])
        elif term_id < 0:
            value, datatype = inline_text(term_id)
            text = _literal_text(_quoted(value) if datatype is XSD_STRING else f'"{value}"', datatype)
            self._met(term_id)
        else:
            text = term_text(self._terms[term_id])
        self[term_id] = text
        return text

    def listed(
        self,
        names: Sequence[str],
        places: Sequence[int],
        rows: Sequence[Sequence[int]],
        *,
        ordered: bool = False,
    ) -> str:
        """Return rows of term ids as JSON objects separated by commas, without the first and last brace.

        The rows of term ids are sorted as by `in_fixed_order`, unless ``ordered`` is True. The argument
        ``names`` has the variables of the columns at the indexes ``places``. The term id 0 is an unbound
        variable; a negative index omits the variable in all rows.
        """
        columns = [each for each in zip(names, places, strict=True) if each[1] >= 0]
        if len(rows) <= _CHUNK:
            lines = self._lines(columns, rows, ordered=ordered)
            return "},{".join([line for *_, line in (lines if ordered else sorted(lines))])
        runs = []
        for start in range(0, len(rows), _CHUNK):
            run = self._lines(columns, rows[start : start + _CHUNK], ordered=ordered)
            runs.append(run if ordered else sorted(run))
            self._pause()
        merged = chain.from_iterable(runs) if ordered else merge_runs(runs, self._pause)
        return "},{".join([line for *_, line in merged])

    def _lines(
        self, columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[int]], *, ordered: bool
    ) -> list[tuple[str, ...]]:
        """Return a tuple per row: the N-Quads terms to sort the row by, then the row's JSON text.

        With ``ordered``, the tuples contain only the rows' JSON texts.
        """
        keys = [f"{_quoted(name)}:" for name, _ in columns]
        ids = [[row[place] for row in rows] for _, place in columns]
        written = []
        for column in () if ordered else ids:
            # The method ``get`` of the dictionary's mapping does not find the texts of static tables' terms;
            # subscription does.
            text_of = self._texts.__getitem__ if min(column, default=0) > 0 else self._texts.get
            texts = [*map(text_of, column)]
            if None in texts or "\n<<" in "\n" + "\n".join(texts):  # type: ignore[arg-type]  # no None in it
                # A value of the answer's column is unbound, was computed by a query, or is a triple term.
                terms = self._terms
                texts = [
                    inline_written(each) if each < 0 else str(terms[each]) if each else "" for each in column
                ]
            written.append(texts)
        if not columns:
            lines = [""] * len(rows)
        elif any([0 in column for column in ids]):
            cells = [[k + self[each] if each else "" for each in c] for k, c in zip(keys, ids, strict=True)]
            lines = [",".join(filter(None, each)) for each in zip(*cells, strict=True)]
        else:
            lines = _lines(keys, [[self[each] for each in column] for column in ids])
        return list(zip(*written, lines, strict=True))


def merge_runs(runs: list[list[T]], pause: Callable[[], None]) -> Iterator[T]:
    """Merge sorted runs of rows; ``pause`` is called between chunks of items."""
    for place, item in enumerate(merge(*runs)):
        if not place % _CHUNK:
            pause()
        yield item


def _lines(keys: Sequence[str], columns: Iterable[Iterable[str]]) -> list[str]:
    """Return the JSON text of each row's members, without braces, from columns of JSON values."""
    pattern = ",".join([key.replace("%", "%%") + "%s" for key in keys])
    return [pattern % each for each in zip(*columns, strict=True)]


def columns_text(names: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """Return rows as `TermTexts.listed` does, given columns of N-Quads terms without unbound values."""
    keys = [f"{_quoted(name)}:" for name in names]
    rows = sorted(zip(*columns, strict=True))
    sorted_columns = zip(*rows, strict=True)
    cells = [[_text_as_written(each) or term_text(term_of(each)) for each in c] for c in sorted_columns]
    return "},{".join(_lines(keys, cells))


def rows_text(names: Sequence[str], rows: Iterable[Solution]) -> str:
    """Return the elements of the JSON array ``bindings`` of SPARQL results as text, without the brackets."""
    keys = [f"{_quoted(name)}:" for name in names]
    found = []
    for row in rows:
        cells = zip(keys, row, strict=True)
        found.append(",".join([key + term_text(term) for key, term in cells if term is not None]))
    return "{" + "},{".join(found) + "}" if found else ""


def solutions(variables: Sequence[str], rows: Iterable[Solution]) -> dict[str, Any]:
    """Return a SELECT answer as SPARQL Results JSON; the bindings omit unbound variables."""
    bindings = [
        {name: term_json(term) for name, term in zip(variables, row, strict=True) if term is not None}
        for row in rows
    ]
    return {"head": {"vars": list(variables)}, "results": {"bindings": bindings}}


def in_fixed_order(rows: Sequence[Solution], pause: Callable[[], None] = lambda: None) -> Sequence[Solution]:
    """Return the rows of an unordered answer, sorted by the N-Triples texts of their terms.

    In a fixed order, a replay of the journal produces the same bytes, even if its joins return rows in
    another order. The function ``pause`` is called between chunks of rows.
    """
    return rows if len(rows) < 2 else sort_rows(rows, _terms_written, pause)


def sort_rows(rows: Sequence[Row], key: Callable[[Row], list[str]], pause: Callable[[], None]) -> list[Row]:
    """Sort rows of an answer by a key; ``pause`` is called between chunks of long lists."""
    if len(rows) <= _CHUNK:
        return sorted(rows, key=key)
    runs = []
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        runs.append(sorted([(key(row), start + at) for at, row in enumerate(some)]))
        pause()
    return [rows[place] for _, place in merge_runs(runs, pause)]


def _terms_written(row: Solution) -> list[str]:
    return ["" if term is None else str(term) for term in row]


def quads_text(quads: Iterable[Quad], pause: Callable[[], None] = lambda: None) -> str:
    """Return distinct quads as N-Quads in the given order; ``pause`` is called between chunks."""
    distinct, written = list(dict.fromkeys(quads)), []
    for start in range(0, len(distinct), _CHUNK):
        data = serialize(distinct[start : start + _CHUNK], format=RdfFormat.N_QUADS)
        written.append((data or b"").decode())
        pause()
    return "".join(written)
