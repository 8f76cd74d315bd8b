"""Limits that are checked before any parser sees the text."""

from __future__ import annotations

import re

from .context import Context
from .detect import NOISE

_MARK = re.compile(NOISE.pattern + r"|<<|>>|[{}()\[\]]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_size(context: Context) -> None:
    """Note a fault when the text is too long, nests too deeply or holds half characters.

    Deep nesting would exhaust the stack of whatever walks the query later; Oxigraph's own parser, which
    gets parts of it, overflows near 2,200 nested groups.
    """
    text, limits = context.text, context.limits
    if len(text) > limits.characters:
        context.fault(
            f"the query has {len(text)} characters, at most {limits.characters} are allowed",
            limits.characters,
            "Load long lists of values into a graph and query that.",
            "limit",
        )
        return
    found = _SURROGATE.search(text)
    if found is not None:
        context.fault(f"U+{ord(found.group()):04X} is half a character, not one", found.start())
        return
    depth = 0
    for mark in _MARK.finditer(text):
        word = mark.group()
        if word in ("{", "(", "[", "<<"):
            depth += 1
            if depth > limits.nesting:
                context.fault(
                    f"brackets are nested more than {limits.nesting} deep",
                    mark.start(),
                    "Flatten the query or split it.",
                    "limit",
                )
                return
        elif word in ("}", ")", "]", ">>"):
            depth = max(0, depth - 1)
