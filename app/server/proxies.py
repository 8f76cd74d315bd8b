"""Reverse proxies before the server: whose word about the address of a client is believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from .wire import FORWARDED_FOR

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The addresses of the setting ``trusted_proxies``."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Take addresses and networks in CIDR notation.

        Raises: ValueError when one is neither.
        """
        self._networks = [_network(each) for each in networks]
        self._contains = lru_cache(maxsize=1024)(self._look_up)

    def __contains__(self, address: str) -> bool:
        """True for the address of a trusted proxy."""
        return bool(self._networks) and self._contains(address)

    def _look_up(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def client_behind(proxy: str, headers: Mapping[str, str]) -> str:
    """The address of the client that a trusted proxy names; the proxy's own when it names none.

    It is the last hop of ``X-Forwarded-For``, which the proxy itself has written. Earlier hops are what its
    client says.
    """
    hop = (headers.get(FORWARDED_FOR) or "").rpartition(",")[2].strip()
    found = _address(_without_port(hop))
    return proxy if found is None else str(found)


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> _Address | None:
    """An address; None for anything else. One of IPv4 within IPv6 is one of IPv4."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _network(text: str) -> _Network:
    return ipaddress.ip_network(text.strip(), strict=False)
