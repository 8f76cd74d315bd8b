"""The list of hosts that a store may reach over the network."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from .errors import NetworkRefusedError


class AllowedHosts:
    """The hosts that SERVICE and LOAD may reach: ``example.org`` (any port) or ``example.org:8080``.

    None by default. Only http and https IRIs are ever allowed.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def allows(self, iri: str) -> bool:
        """True when a request to ``iri`` may be made."""
        try:
            parts = urlsplit(iri)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not host:
            return False
        named = port or (443 if parts.scheme == "https" else 80)
        shown = f"[{host}]" if ":" in host else host
        return host in self._hosts or shown in self._hosts or f"{shown}:{named}" in self._hosts

    def require(self, iri: str, construct: str) -> None:
        """Check that ``iri`` may be reached.

        Raises:
            NetworkRefusedError: it may not.
        """
        if not self.allows(iri):
            raise NetworkRefusedError(
                f"{construct} <{iri}> is refused: the host is not on the list of allowed hosts",
                hint="an administrator can allow the host in the settings",
                iri=iri,
            )
