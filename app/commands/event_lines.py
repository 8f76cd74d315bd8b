"""Lines that `quadrill watch` and `quadrill run` print for the events of a feed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quadrill.store.documents.times import format_instant

from .tables import printable, term_text

SIGNS = {"insert": "+", "delete": "-", "answer": "=", "resolved": "~"}
"""Sign at the start of a printed row, by the kind of the row's event."""
UNBOUND = "UNDEF"
"""Text of a row's cell without a value, as VALUES of SPARQL writes it."""
_PREFIX = re.compile(r"\bPREFIX\s+([^\s:<>]*):\s*<([^<>\s]+)>", re.IGNORECASE)


class EventLines:
    """Format of printed events: ``rows``, ``events`` or ``json``.

    The form ``rows`` has one line per row: sign, event time and terms, with IRIs shortened by ``prefixes``,
    which has namespaces by prefix. Before the first row, the names of the columns are printed on standard
    error. ``events`` has one line per event: kind and unchanged data. ``json`` has one object per event.
    """

    def __init__(
        self, form: str, prefixes: Mapping[str, str] | None = None, *, with_ids: bool = False
    ) -> None:
        self.form = form
        self._prefixes = prefixes or {}
        self._with_ids = with_ids
        self._columns: Sequence[str] = ()

    def lines(self, number: int | None, kind: str, data: str) -> Iterator[str]:
        """Yield the lines of one event with the id ``number``; an event without rows has one line."""
        before = f"{'-' if number is None else number} " if self._with_ids else ""
        if self.form == "json":
            event = {"id": number, "event": kind, "data": json.loads(data)}
            yield json.dumps(event, ensure_ascii=False)
        elif self.form == "events":
            yield f"{before}{kind} {data}"
        else:
            for line in self._rows(kind, json.loads(data)):
                yield before + line

    def _rows(self, kind: str, document: Mapping[str, Any]) -> Iterator[str]:
        if kind not in SIGNS:
            yield "  ".join([kind, *(f"{name} {value}" for name, value in document.items())])
            return
        if "quads" in document:
            rows = [[line] for line in document["quads"].splitlines()]
        elif "boolean" in document:
            rows = [["true" if document["boolean"] else "false"]]
        else:
            names = document["head"]["vars"]
            self._name_columns(names)
            rows = [
                [term_text(row[name], self._prefixes) or '""' if name in row else UNBOUND for name in names]
                for row in document["results"]["bindings"]
            ]
        for row in rows or [[]]:
            yield "  ".join([SIGNS[kind], format_instant(document["at"]), *map(printable, row)])

    def _name_columns(self, names: Sequence[str]) -> None:
        """Print the columns of rows on standard error, if they differ from those of the rows before."""
        if names != self._columns:
            self._columns = names
            ids = ["id"] if self._with_ids else []
            print(
                "  ".join(["#", *ids, "time", *(f"?{name}" for name in names)]), file=sys.stderr, flush=True
            )


def prefixes_of(query: str) -> dict[str, str]:
    """Return the namespaces that a query text declares, by prefix."""
    return {found[1]: found[2] for found in _PREFIX.finditer(query)}
