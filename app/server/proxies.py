"""Trusted reverse proxies, whose header X-Forwarded-For names the address of the client."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from .wire import FORWARDED_FOR

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The trusted proxies: addresses and networks of the setting ``trusted_proxies``."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Parse the addresses and networks (in CIDR notation) of trusted proxies.

        Raises: ValueError when a text is neither an address nor a network.
        """
        self._networks = [_network(each) for each in networks]
        self._contains = lru_cache(maxsize=1024)(self._look_up)

    def __contains__(self, address: str) -> bool:
        """Return True if ``address`` belongs to a trusted proxy."""
        return bool(self._networks) and self._contains(address)

    def _look_up(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def client_behind(proxy: str, headers: Mapping[str, str]) -> str:
    """Return the client address that a trusted proxy names, or the address of the proxy if it names none.

    The client address is the last address in ``X-Forwarded-For``, because the trusted proxy has written it.
    Earlier addresses in ``X-Forwarded-For`` are claims of the client.
    """
    hop = (headers.get(FORWARDED_FOR) or "").rpartition(",")[2].strip()
    found = _address(_without_port(hop))
    return proxy if found is None else str(found)


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> _Address | None:
    """Parse an IP address; None for an invalid text. An IPv4-mapped IPv6 address becomes an IPv4 address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _network(text: str) -> _Network:
    return ipaddress.ip_network(text.strip(), strict=False)
