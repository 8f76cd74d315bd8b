"""Solutions as SPARQL Results JSON, quads as N-Quads, each on one line of JSON.

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
"""A JSON document, or a value in one, on one line (JSON escapes every line break inside strings)."""
T = TypeVar("T", bound=tuple[Any, ...])
Row = TypeVar("Row")
_CHUNK = 4096
"""The number of rows or quads that are written between two calls of ``pause``."""


def term_json(term: Term) -> dict[str, Any]:
    """Return an RDF term as an object of SPARQL Results JSON."""
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
    """`term_json` as text; the same terms come again and again, in one answer after the other."""
    if isinstance(term, NamedNode):
        return f'{{"type":"uri","value":{_quoted(term.value)}}}'
    if isinstance(term, Literal) and term.language is None:
        return _literal_text(_quoted(term.value), term.datatype.value)
    return one_line(term_json(term))


def _literal_text(quoted: str, datatype: str) -> str:
    """`term_text` of a literal, given its value as a string of JSON."""
    return f'{{"type":"literal","value":{quoted}{_datatype_text(datatype)}'


@lru_cache(maxsize=1024)
def _datatype_text(datatype: str) -> str:
    """Return the JSON text after the value of a literal with this datatype."""
    return "}" if datatype == XSD_STRING else f',"datatype":{_quoted(datatype)}}}'


def _text_as_written(written: str) -> str | None:
    """Return the `term_text` of an N-Quads term; None if the term needs the slow path."""
    # Without escapes a string of N-Quads is one of JSON, and an IRI has no signs that need any.
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
    """Return the N-Quads text of an inline id's literal."""
    text, datatype = inline_text(term_id)
    return str(Literal(text)) if datatype is XSD_STRING else f'"{text}"^^<{datatype}>'


class TermTexts(dict[int, str]):
    """`term_text` by id, as long as the dictionary has the term; literals inside ids are not made terms.

    ``pause`` is called between chunks of long lists of rows.
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
        """Rows of ids as objects of JSON but for the outermost braces, in the order of `in_fixed_order`.

        ``names`` are those of the columns at ``places``; 0 is unbound, and so is a place below 0. ``ordered``
        rows stay in their order.
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
        """The texts of rows, each behind its terms as N-Quads writes them where they are not ``ordered``."""
        keys = [f"{_quoted(name)}:" for name, _ in columns]
        ids = [[row[place] for row in rows] for _, place in columns]
        written = []
        for column in () if ordered else ids:
            # Texts of compact terms are found only by subscription, not by ``get``.
            text_of = self._texts.__getitem__ if min(column, default=0) > 0 else self._texts.get
            texts = [*map(text_of, column)]
            if None in texts or "\n<<" in "\n" + "\n".join(texts):  # type: ignore[arg-type]  # no None in it
                # Unbound, a value that a query has made, or a triple term.
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
    """Merge sorted runs; ``pause`` is called between chunks of items."""
    for place, item in enumerate(merge(*runs)):
        if not place % _CHUNK:
            pause()
        yield item


def _lines(keys: Sequence[str], columns: Iterable[Iterable[str]]) -> list[str]:
    """Return the members of JSON objects from columns of their values."""
    pattern = ",".join([key.replace("%", "%%") + "%s" for key in keys])
    return [pattern % each for each in zip(*columns, strict=True)]


def columns_text(names: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """`TermTexts.listed` of rows whose terms, bound all, are given by columns, as N-Quads writes them."""
    keys = [f"{_quoted(name)}:" for name in names]
    rows = sorted(zip(*columns, strict=True))
    sorted_columns = zip(*rows, strict=True)
    cells = [[_text_as_written(each) or term_text(term_of(each)) for each in c] for c in sorted_columns]
    return "},{".join(_lines(keys, cells))


def rows_text(names: Sequence[str], rows: Iterable[Solution]) -> str:
    """The ``bindings`` of `solutions` as text, without the brackets around them."""
    keys = [f"{_quoted(name)}:" for name in names]
    found = []
    for row in rows:
        cells = zip(keys, row, strict=True)
        found.append(",".join([key + term_text(term) for key, term in cells if term is not None]))
    return "{" + "},{".join(found) + "}" if found else ""


def solutions(variables: Sequence[str], rows: Iterable[Solution]) -> dict[str, Any]:
    """The members ``head`` and ``results`` of a SELECT answer; a solution leaves unbound variables out."""
    bindings = [
        {name: term_json(term) for name, term in zip(variables, row, strict=True) if term is not None}
        for row in rows
    ]
    return {"head": {"vars": list(variables)}, "results": {"bindings": bindings}}


def in_fixed_order(rows: Sequence[Solution], pause: Callable[[], None] = lambda: None) -> Sequence[Solution]:
    """Rows without an order of their own, always in the same one: by their terms as N-Triples.

    A replay then gives the same bytes, whichever route its joins take. ``pause`` is called between chunks.
    """
    return rows if len(rows) < 2 else sort_rows(rows, _terms_written, pause)


def sort_rows(rows: Sequence[Row], key: Callable[[Row], list[str]], pause: Callable[[], None]) -> list[Row]:
    """Sort rows by a key; ``pause`` is called between chunks of long lists."""
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
    """Quads as N-Quads, each once, in order; ``pause`` is called between chunks."""
    distinct, written = list(dict.fromkeys(quads)), []
    for start in range(0, len(distinct), _CHUNK):
        data = serialize(distinct[start : start + _CHUNK], format=RdfFormat.N_QUADS)
        written.append((data or b"").decode())
        pause()
    return "".join(written)
