"""One source: its content, how old it is, and when it is fetched next."""

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
    """One source as it is known; ``value``, ``stale`` and ``stale_since`` change in turns of the engine.

    Attributes:
        spec: what is fetched.
        value: the newest content; it stays when a fetch fails.
        stale: why the content may be out of date, None when the last fetch was good.
        stale_since: wall clock time of the first failure since the last good fetch.
        failures: failed fetches since the last good one.
        checked_ms: wall clock time of the last good fetch, whether or not it brought something new.
        due_ms: wall clock time of the next fetch; None when it is fetched by hand only.
        took_ms: how long the last fetch took.
        etag, last_modified: the document's, for conditional requests.
        readers: the queries that read it, each with the time between two fetches that it or a description of
            the source asks for; None where neither says anything.
        fetching: held during a fetch, so that fetches of one source never overlap.
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
        """The shortest time of all readers; None when nobody reads it."""
        own = Period(settings.every_ms, "setting")
        return min(
            (each or own for each in self.readers.values()), key=lambda each: each.urgency, default=None
        )

    def every_ms(self, settings: RemoteSettings) -> int | None:
        """Milliseconds of `period`; None when it is fetched by hand only."""
        period = self.period(settings)
        return None if period is None else period.every_ms

    def next_due(self, now_ms: int, settings: RemoteSettings) -> int | None:
        """The time of the next fetch, after one that ended now.

        A failure is followed soon by another attempt, and by ever later ones. Some jitter keeps sources that
        began together from being fetched together.
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
        """The first fetch after a restart: as if the server had not been away, but not before now."""
        due = self.next_due(self.checked_ms or 0, settings)
        if due is None:
            return None
        soon = now_ms + round(random.uniform(0, min(self.every_ms(settings) or 0, settings.retry_ms)))
        return max(due, soon)

    def describe(self, now_ms: int, settings: RemoteSettings) -> dict[str, Any]:
        """The source as JSON, for descriptions of queries."""
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
        """The source for the journal, its content by digest."""
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
    """The content that a record names; None when its bytes are gone."""
    if not members["digest"]:
        return absent(spec)
    data = payloads.get(members["digest"])
    if data is None:
        return None
    return decode(spec, data, members["number"], members["at"], members["digest"])
