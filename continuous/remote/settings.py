"""Limits and defaults of what is fetched from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Limits and defaults of fetches from other servers.

    Attributes:
        every_ms: time between two fetches of a source where neither its query nor a description says it.
        timeout_ms: time that one fetch may take in all.
        max_bytes: longest answer, decompressed.
        max_rows: most rows or triples of one answer.
        retry_ms: time to the second attempt after a failure; it doubles with each further failure.
        longest_retry_ms: where that doubling ends, unless the source is fetched more seldom anyway.
    """

    every_ms: int = 300_000
    timeout_ms: int = 30_000
    max_bytes: int = 64 * 1024 * 1024
    max_rows: int = 1_000_000
    retry_ms: int = 5_000
    longest_retry_ms: int = 600_000
