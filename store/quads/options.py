"""Options of a quad store, chosen when the store is opened."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..hosts import NO_HOSTS, AllowedHosts
from ..logs.history import Retention
from ..remote import Fetcher
from ..sparql.guard import TextLimits
from ..sparql.update_plan_cache import AnalyseUpdate, no_analysis


def system_clock_ms() -> int:
    """Return the time of the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _no_crash_point(point: str) -> None:
    """Do nothing: the default hook that is called with each step of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The options with which a quad store is opened.

    Attributes:
        durable: True if acknowledged commits survive a power failure (one fsync per group of commits); False
            if commits survive only a killed process.
        clock_ms: the wall clock, for the time of commits and the age of history.
        limits: limits on the size and nesting of SPARQL texts.
        retention: how much of the change log is kept.
        allowed_hosts: hosts that SERVICE and LOAD may reach, with their limits; none by default.
        analyse_update: analyses an update text, so that updates that differ only in constants share a plan.
        fetcher: fetches documents for LOAD; by default over HTTP from the allowed hosts.
        reached: called with the name of each step of a commit; for crash tests.
        checkpoint_commits: number of commits after which the database is flushed to disk.
        checkpoint_quads: number of added and removed quads after which the database is flushed to disk.
        renew_removed: minimum number of removed quads before a store in memory is copied to free memory.
    """

    durable: bool = True
    clock_ms: Callable[[], int] = system_clock_ms
    limits: TextLimits = TextLimits()
    retention: Retention = Retention()
    allowed_hosts: AllowedHosts = NO_HOSTS
    analyse_update: AnalyseUpdate = no_analysis
    fetcher: Fetcher | None = None
    reached: Callable[[str], None] = _no_crash_point
    checkpoint_commits: int = 5_000
    checkpoint_quads: int = 100_000
    renew_removed: int = 50_000
