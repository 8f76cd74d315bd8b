"""The current answer of a continuous query, computed from the events of its feed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .answers import Answer, FeedEvent
from .errors import QuadrillError

Binding: TypeAlias = Mapping[str, Any]
FAILED = "query-failed"
"""Error code of a query that has failed, as the server names it."""


def refusal(description: Mapping[str, Any]) -> str | None:
    """Return why the feed of a query does not give its current answer; None if the feed does.

    The ``description`` is the server's JSON object for the query.
    """
    name, form, output = description["name"], description["form"], description["output"]
    lead = f"the query {name} has no live data frame:"
    if form != "select":
        return f"{lead} it is {form.upper()}, and only SELECT has rows; read its feed, or current({name!r})"
    if output not in ("changes", "rstream"):
        lacking = "which rows leave its answer" if output == "istream" else "which rows enter its answer"
        return f'{lead} its output {output} does not say {lacking}; register it with output="changes"'
    if description.get("once_per"):
        return f"{lead} ONCE PER leaves rows out of its feed; register it without ONCE PER"
    if output == "rstream" and description.get("non_empty"):
        return (
            f"{lead} non_empty leaves empty answers out of its feed; "
            'register it without non_empty, or with output="changes"'
        )
    return None


class LiveAnswer:
    """The rows of a query's answer after the newest event of its feed; a multiset.

    Attributes:
        columns: names of the answer's columns.
        at: event time of the newest event in milliseconds; None before the first evaluation.
        last_id: id of the newest event of the feed that the rows contain; 0 before the first event.
        total: number of rows.
    """

    def __init__(self, name: str, max_rows: int) -> None:
        """Create an empty answer; an answer of more than ``max_rows`` rows raises an error."""
        self._name = name
        self._max_rows = max_rows
        self.columns: list[str] = []
        self.at: int | None = None
        self.last_id = 0
        self.total = 0
        # The number of each row, and one of its bindings, by the row's text.
        self._rows: dict[str, tuple[int, Binding]] = {}

    def take(self, event: FeedEvent) -> None:
        """Apply an event of the feed to the rows.

        Raises: QuadrillError if the query has failed, if the answer has too many rows, or if a deleted row is
            not there.
        """
        answer = event.answer
        match event.kind:
            case "answer":
                self._rows.clear()
                self.total = 0
                self._insert(answer.bindings)
            case "insert":
                self._insert(answer.bindings)
            case "delete":
                self._delete(answer.bindings)
            case "progress":
                self._skip(answer.document)
            case "error":
                raise self.failure(answer.document["error"])
        if event.kind in ("answer", "insert", "delete"):
            self.columns, self.at, self.last_id = answer.variables, answer.at, event.id or 0

    def failure(self, reason: str | None) -> QuadrillError:
        """Return the error of a query that has failed for a reason."""
        return self._error(FAILED, f"the query has failed: {reason}")

    def answer(self) -> Answer:
        """Return the rows as an answer."""
        rows = [binding for count, binding in self._rows.values() for _ in range(count)]
        return Answer({"head": {"vars": self.columns}, "results": {"bindings": rows}, "at": self.at})

    def _insert(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            text = json.dumps(binding, sort_keys=True)
            count, _ = self._rows.get(text, (0, binding))
            self._rows[text] = count + 1, binding
            self.total += 1
            if self.total > self._max_rows:
                raise self._error("max-rows", f"the answer has more than {self._max_rows} rows (max_rows)")

    def _delete(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            text = json.dumps(binding, sort_keys=True)
            count, _ = self._rows.pop(text, (0, binding))
            if count > 1:
                self._rows[text] = count - 1, binding
            elif count == 0:
                raise self._error("feed", f"the feed deletes a row that is not in the answer: {text}")
            self.total -= 1

    def _error(self, code: str, reason: str) -> QuadrillError:
        return QuadrillError(f"live data frame of {self._name}: {reason}", problem={"code": code})

    def _skip(self, document: Mapping[str, Any]) -> None:
        """Apply a run of reports of empty windows: unless the first was emitted, it had no rows."""
        if document.get("skipped") and document["from"] != self.at:
            self._rows.clear()
            self.total, self.at = 0, document["from"]
