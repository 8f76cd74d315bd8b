"""Limits and defaults of fetches from other servers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Limits and defaults of fetches from other servers.

    Attributes:
        every_ms: milliseconds between two fetches of a source whose query and description name no period.
        timeout_ms: maximum milliseconds of one fetch as a whole.
        max_bytes: maximum length of one answer in bytes, after decompression.
        max_rows: maximum number of rows or triples of one answer.
        retry_ms: milliseconds before the first retry after a failure; doubled after each further failure.
        longest_retry_ms: maximum milliseconds between two retries, unless the fetch period is longer.
    """

    every_ms: int = 300_000
    timeout_ms: int = 30_000
    max_bytes: int = 64 * 1024 * 1024
    max_rows: int = 1_000_000
    retry_ms: int = 5_000
    longest_retry_ms: int = 600_000
