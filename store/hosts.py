"""The list of hosts that a store may reach over the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from .errors import NetworkRefusedError

WEB: Mapping[str, int] = {"http": 80, "https": 443}
"""The URL schemes that SERVICE and LOAD accept, with their default ports."""


class AllowedHosts:
    """The hosts that this server may reach: ``example.org`` (any port) or ``example.org:8080``.

    By default, the list of hosts that this server may reach is empty.

    Attributes:
        seconds: the default time limit of a `RemoteClient` for one call, redirects and body included.
        max_bytes: the maximum size of a SERVICE call's decompressed answer.
    """

    def __init__(
        self, hosts: Iterable[str] = (), *, seconds: float = 30.0, max_bytes: int = 64 << 20
    ) -> None:
        self.seconds = seconds
        self.max_bytes = max_bytes
        self._hosts = frozenset(host.lower() for host in hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def allows(self, iri: str, ports: Mapping[str, int] = WEB) -> bool:
        """Return True if ``iri`` may be requested; ``ports`` maps accepted URL schemes to default ports."""
        try:
            parts = urlsplit(iri)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if parts.scheme not in ports or not host:
            return False
        named = port or ports[parts.scheme]
        shown = f"[{host}]" if ":" in host else host
        return host in self._hosts or shown in self._hosts or f"{shown}:{named}" in self._hosts

    def require(self, iri: str, construct: str, ports: Mapping[str, int] = WEB) -> None:
        """Raise an error unless the host of ``iri`` may be reached.

        Raises:
            NetworkRefusedError: the host is not allowed.
        """
        if not self.allows(iri, ports):
            raise NetworkRefusedError(
                f"{construct} <{iri}> is refused: the host is not on the list of allowed hosts",
                hint="an administrator can allow the host in the setting remote_hosts",
                iri=iri,
            )


NO_HOSTS = AllowedHosts()
