"""Where a token stands, and how deep expressions are nested."""

from __future__ import annotations

from lark import Token


def at(token: Token) -> int:
    """The offset of a token's first character."""
    position = token.start_pos
    return 0 if position is None else position


def depth(*nodes: object) -> int:
    """One more than the deepest of the nodes; terms have no depth of their own."""
    return 1 + max((getattr(node, "depth", 0) for node in nodes), default=0)
