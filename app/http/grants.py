"""The permission of a long-lived connection, which ends when its access token is removed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("quadrill.app")

CHECK_SECONDS = 5.0
"""Seconds between permission checks of an open connection, which must end 15 s after token removal."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The access token or session by which a connection was opened, and the role that it needs.

    Connections of one token have equal grants, so that many connections cost one look-up in the registry.

    Attributes:
        permits: returns True if a grant is still valid.
        needed: the role that the opened connection needs.
        digest: the digest of the access token; empty for a session and for a server without tokens.
        session: the digest of the session cookie of the page; empty without a session.
    """

    permits: Callable[[Grant], bool]
    needed: str
    digest: str = ""
    session: str = ""

    def holds(self) -> bool:
        """Return False if the permission has ended; True if the registry cannot be read."""
        try:
            return self.permits(self)
        except Exception as error:
            log.warning("The tokens of open connections could not be checked: %s", error)
            return True
