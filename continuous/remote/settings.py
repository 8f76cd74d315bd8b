"""Limits and defaults of what is fetched from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Limits and defaults.

    Attributes:
        every_ms: time between two fetches of a source whose query names none, until fetches have told more.
        least_ms: the shortest time that they may lead to, but for ``every_ms``, which may be shorter.
        most_ms: the longest, but for ``every_ms``, which may be longer.
        timeout_ms: time that one fetch may take in all.
        max_bytes: longest answer, decompressed.
        max_rows: most rows or triples of one answer.
        retry_ms: time to the second attempt after a failure; it doubles with each further failure.
        longest_retry_ms: where that doubling ends, unless the source is fetched more seldom anyway.
    """

    every_ms: int = 300_000
    least_ms: int = 60_000
    most_ms: int = 3_600_000
    timeout_ms: int = 30_000
    max_bytes: int = 64 * 1024 * 1024
    max_rows: int = 1_000_000
    retry_ms: int = 5_000
    longest_retry_ms: int = 600_000

    def within(self, every_ms: int) -> int:
        """A measured time between two fetches, kept to the bounds."""
        shortest, longest = min(self.least_ms, self.every_ms), max(self.most_ms, self.every_ms)
        return min(max(every_ms, shortest), longest)
