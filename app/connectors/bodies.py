"""Templates of request bodies: JSON in which ``{{name}}`` stands for a value of an event or of a row.

    {"text": "{{sensor}} has {{celsius}} degrees", "value": {{celsius}}}

Within a JSON string a name becomes the escaped text of its value; anywhere else it becomes a JSON value: a
number, true, false or a text. An unbound variable is null, also as ``"{{name}}"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from quadrill.store.errors import InputError
from quadrill.store.feeds.subscription import StoredEvent

from .rows import records_of

EVENT_NAMES = ("query", "event", "id", "at", "action", "rows", "count")
"""Names that a template has besides the columns of its query, unless a column has the same name."""
_HOLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_STRING_OR_HOLE = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{\s*\w+\s*\}\}', re.DOTALL)
_ROWS = ("insert", "delete", "answer", "resolved")
"""The kinds of events that have rows; a template makes no body of other events."""
_MOST_CHARACTERS = 65_536


def read_template(value: Any, name: str) -> str:
    """Return a template as JSON text, from a text or from JSON whose strings have the names.

    Raises:
        InputError: the template without its names is no JSON, or is too long.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"{name} has {len(text):,} characters, at most {_MOST_CHARACTERS:,}", code="member")
    try:
        json.loads(_filled(text, {}))
    except ValueError as error:
        raise InputError(
            f"{name} is no JSON: {error}",
            code="member",
            hint='Write a JSON object, such as {"text": "{{sensor}} is hot"}.',
        ) from None
    return text


def check_names(template: str, columns: Sequence[str]) -> None:
    """Raise InputError if a template has a name that is neither a column nor one of `EVENT_NAMES`."""
    known = [*columns, *(each for each in EVENT_NAMES if each not in columns)]
    for name in _HOLE.findall(template):
        if name not in known:
            raise InputError(
                f"body has {{{{{name}}}}}, but the query has no column ?{name}",
                code="member",
                hint=f"Names are {', '.join(known)}.",
            )


@dataclass(frozen=True, slots=True)
class BodyTemplate:
    """A template for the requests of a sink; ``by_row`` makes one body of each row, not of each event."""

    text: str
    by_row: bool

    def bodies(self, event: StoredEvent, query: str) -> list[bytes]:
        """Return the bodies of the requests for an event; none for an event without rows."""
        if event.kind not in _ROWS:
            return []
        document = json.loads(event.data)
        records = list(_records(document))
        common = {
            "query": query,
            "event": event.kind,
            "id": event.id,
            "at": _moment(document.get("at")),
            "action": "resolve" if event.kind in ("resolved", "delete") else "trigger",
            "rows": records,
            "count": len(records),
        }
        chosen: Iterable[Mapping[str, Any]] = records if self.by_row else records[:1]
        return [_filled(self.text, common | dict(record)).encode() for record in chosen]


def _records(document: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    if "quads" in document:
        return [{"quads": document["quads"]}] if document["quads"] else []
    # The member ``at`` that `records_of` adds to each row is no column of the query.
    return records_of({name: value for name, value in document.items() if name != "at"}, {})


def _moment(at: Any) -> str | None:
    """Return the instant of an event as RFC 3339 text; None without an instant or beyond the year 9999."""
    if not isinstance(at, int) or not -62_135_596_800_000 <= at < 253_402_300_800_000:
        return None
    moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _filled(text: str, values: Mapping[str, Any]) -> str:
    """Return a template with its names replaced; a name without a value becomes null."""
    return "".join(_put(piece, values) for piece in _pieces(text))


@lru_cache(maxsize=256)
def _pieces(text: str) -> tuple[str, ...]:
    """Cut a template into strings, names outside of strings, and the text between them."""
    found, place = [], 0
    for match in _STRING_OR_HOLE.finditer(text):
        found += [text[place : match.start()], match[0]]
        place = match.end()
    return (*found, text[place:])


def _put(piece: str, values: Mapping[str, Any]) -> str:
    whole = _HOLE.fullmatch(piece)
    if whole is not None:
        return json.dumps(values.get(whole[1]), ensure_ascii=False)
    if not piece.startswith('"') or "{{" not in piece:
        return piece
    alone = _HOLE.fullmatch(piece[1:-1])
    if alone is not None and values.get(alone[1]) is None:
        return "null"
    return _HOLE.sub(lambda each: json.dumps(_text(values.get(each[1])), ensure_ascii=False)[1:-1], piece)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
