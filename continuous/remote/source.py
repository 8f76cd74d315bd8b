"""One remote source: its content, the age of the content, and the time of the next fetch."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

from quadrill.store.payloads import Payloads

from .periods import Period
from .settings import RemoteSettings
from .spec import SourceSpec
from .value import SourceValue, absent, decode

_JITTER = 0.1


@dataclass(slots=True, eq=False)
class RemoteSource:
    """One remote source; ``value``, ``stale`` and ``stale_since`` change in engine tasks only.

    Attributes:
        spec: the specification of the source.
        value: the newest content; a failed fetch does not change the content.
        stale: why the content may be out of date; None if the last fetch succeeded.
        stale_since: wall-clock time of the first failure since the last successful fetch.
        failures: number of failed fetches since the last successful fetch.
        checked_ms: wall-clock time of the last successful fetch, even if the content had not changed.
        due_ms: wall-clock time of the next fetch; None if the source is fetched on request only.
        took_ms: duration of the last fetch in milliseconds.
        etag: the document's ETag for conditional requests.
        last_modified: the document's Last-Modified date for conditional requests.
        readers: the names of the reading queries, each with the fetch period that the query or a description
            of the source asks for; None if neither names a period.
        fetching: a lock that is held during a fetch, so that fetches of one source never overlap.
    """

    spec: SourceSpec
    value: SourceValue
    stale: str | None = None
    stale_since: int | None = None
    failures: int = 0
    checked_ms: int | None = None
    due_ms: int | None = None
    took_ms: int | None = None
    etag: str | None = None
    last_modified: str | None = None
    readers: dict[str, Period | None] = field(default_factory=dict)
    fetching: threading.Lock = field(default_factory=threading.Lock)

    def period(self, settings: RemoteSettings) -> Period | None:
        """Return the shortest fetch period of all reading queries; None if no query reads the source."""
        own = Period(settings.every_ms, "setting")
        return min(
            (each or own for each in self.readers.values()), key=lambda each: each.urgency, default=None
        )

    def every_ms(self, settings: RemoteSettings) -> int | None:
        """Return the fetch period in milliseconds; None if the source is fetched on request only."""
        period = self.period(settings)
        return None if period is None else period.every_ms

    def next_due(self, now_ms: int, settings: RemoteSettings) -> int | None:
        """Return the wall-clock time of the next fetch, after a fetch that ended at ``now_ms``.

        Failed fetches of a source are retried with exponential back-off. Jitter spreads the fetches of
        sources that were registered at the same time.
        """
        every = self.every_ms(settings)
        if every is None:
            return None
        wait = every
        if self.failures:
            first = min(settings.retry_ms, every)
            longest = max(settings.longest_retry_ms, every)
            wait = min(first * 2 ** min(self.failures - 1, 30), longest)
        return now_ms + round(wait * random.uniform(1 - _JITTER, 1 + _JITTER))

    def due_after_restart(self, now_ms: int, settings: RemoteSettings) -> int | None:
        """Return a source's first fetch time after a restart; an overdue fetch starts within `retry_ms`."""
        due = self.next_due(self.checked_ms or 0, settings)
        if due is None:
            return None
        soon = now_ms + round(random.uniform(0, min(self.every_ms(settings) or 0, settings.retry_ms)))
        return max(due, soon)

    def describe(self, now_ms: int, settings: RemoteSettings) -> dict[str, Any]:
        """Return the remote source as JSON for descriptions of queries."""
        period = self.period(settings)
        return {
            "source": self.spec.iri,
            "kind": self.spec.kind,
            "refresh_version": self.value.number,
            "rows": self.value.size,
            "refreshed": self.value.at_ms or None,
            "checked": self.checked_ms,
            "age_ms": None if self.checked_ms is None else max(0, now_ms - self.checked_ms),
            "every_ms": None if period is None else period.every_ms,
            "every_by": None if period is None else period.by,
            "next_refresh": self.due_ms,
            "took_ms": self.took_ms,
            "stale": self.stale is not None,
            "stale_reason": self.stale,
            "stale_since": self.stale_since,
            "failures": self.failures,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the remote source as JSON for the journal, with the digest in place of the content."""
        return {
            "spec": self.spec.to_json(),
            "number": self.value.number,
            "at": self.value.at_ms,
            "digest": self.value.digest,
            "stale": self.stale,
            "since": self.stale_since,
            "checked": self.checked_ms,
            "etag": self.etag,
            "modified": self.last_modified,
        }


def value_of(spec: SourceSpec, members: dict[str, Any], payloads: Payloads) -> SourceValue | None:
    """Return the content that a journal record names; None if the content's bytes are no longer stored."""
    if not members["digest"]:
        return absent(spec)
    data = payloads.get(members["digest"])
    if data is None:
        return None
    return decode(spec, data, members["number"], members["at"], members["digest"])
