"""The permission of a connection that stays open: it ends when its token is removed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("quadrill.app")

CHECK_SECONDS = 5.0
"""Seconds between two checks of an open connection: the contract allows it 15 s after a token is removed."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The token or session by which a connection was opened, and the role that the connection needs.

    Connections of one token have equal grants, so that many of them cost one look-up.

    Attributes:
        permits: returns whether a grant is still valid.
        needed: the role that the connection needs.
        digest: the digest of the token; empty for a session and for a server without tokens.
        session: digest of the page's cookie, or empty.
    """

    permits: Callable[[Grant], bool]
    needed: str
    digest: str = ""
    session: str = ""

    def holds(self) -> bool:
        """True unless the token is known to be gone; a registry that cannot be read ends no connection."""
        try:
            return self.permits(self)
        except Exception as error:
            log.warning("The tokens of open connections could not be checked: %s", error)
            return True
