"""Counters for limits per minute: wrong tokens of one address, and requests of one token."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from .errors import HttpError

_SPAN_S = 60.0
_MOST_SENDERS = 10_000


class MinuteCounter:
    """Counts of events per sender and minute; only the newest 10 000 senders are kept."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Make counts per sender, all of them 0.

        Args:
            most: maximum count of one sender per minute; 0 for no limit.
            clock: returns the monotonic time in seconds.
        """
        self._most = most
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, sender: str) -> float:
        """Return the seconds that a sender at the limit has to wait; 0 for a sender below the limit."""
        if not self._most:
            return 0.0
        began, count = self._counts.get(sender, (0.0, 0))
        return max(0.0, began + _SPAN_S - self._clock()) if count >= self._most else 0.0

    def count(self, sender: str) -> None:
        """Increment the number of events that a sender caused in the current minute."""
        if not self._most:
            return
        now = self._clock()
        with self._lock:
            began, count = self._counts.pop(sender, (now, 0))
            self._counts[sender] = (began, count + 1) if now - began < _SPAN_S else (now, 1)
            if len(self._counts) > _MOST_SENDERS:
                self._counts.popitem(last=False)


def network_of(address: str) -> str:
    """Return the sender for whom an address is counted: the address, or an IPv6 address's /64 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)


def too_many(what: str, wait_s: float) -> HttpError:
    """Return the HTTP error 429 for a sender over a limit, with the header Retry-After."""
    seconds = max(1, int(wait_s + 0.999))
    return HttpError(
        429,
        f"{what}; wait {seconds} seconds",
        code="too-many-requests",
        headers={"Retry-After": str(seconds)},
    )
