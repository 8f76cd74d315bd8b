"""The sender of a request, and the roles that access tokens have."""

from __future__ import annotations

from dataclasses import dataclass

ROLES: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "push": frozenset({"push"}),
    "write": frozenset({"read", "push", "write"}),
    "admin": frozenset({"read", "push", "write", "admin"}),
}
PUBLIC = "public"
"""The role of requests that need no access token."""
PUBLIC_BODY_BYTES = 4096
"""Default maximum in bytes of a body on a route that needs no token, since anybody may send one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: role and label of its access token.

    Attributes:
        role: the role of the sender's access token; empty for a request without a token.
        label: the label of the sender's access token, for logs.
    """

    role: str
    label: str = ""

    def may(self, needed: str) -> bool:
        """Return True if the role of the sender includes the role ``needed``."""
        return needed == PUBLIC or needed in ROLES.get(self.role, ())


NOBODY = Caller("")
LOCAL = Caller("admin", "local")
"""The sender of every request to a server without tokens."""
