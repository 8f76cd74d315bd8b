"""Regular expressions that Python matches as Oxigraph does, and in bounded time.

A call of Oxigraph takes about 100 µs for each new text, Python's matcher less than one. Python's matcher
backtracks, so only short patterns without groups and alternatives are taken, with at most two repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

LONGEST_TEXT = 500
"""Number of characters of a text; two repetitions make at most its square of steps, about a millisecond."""
_MOST_REPETITIONS = 2
_MOST_OPTIONAL = 3
_LONGEST_PATTERN = 200
_LITERAL = r"[A-Za-z0-9 _:/@,;!%&=~'\"<>#-]"
_ESCAPED = r"\\[.\-+*?()\[\]{}|^$\\]"
_RANGE = r"(?:[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9])"
_CLASS = rf"\[\^?(?:{_RANGE}|[A-Za-z0-9 _:/@,.;!%=+*?()$](?!-)|\\[.\-\]\[\\])+\]"
_QUANTIFIER = r"[?*+]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}"
_PART = re.compile(rf"(?:{_LITERAL}|{_ESCAPED}|\.|{_CLASS})(?P<quantifier>{_QUANTIFIER})?")


@lru_cache(maxsize=1_024)
def plain_search(pattern: str) -> Callable[[str], object] | None:
    r"""Return the search of a pattern in texts of at most `LONGEST_TEXT` characters; None for others.

    >>> search = plain_search("^[0-9]{3}$")
    >>> search("123") is not None, search("123\n") is not None, plain_search("(a+)+") is None
    (True, False, True)
    """
    if len(pattern) > _LONGEST_PATTERN:
        return None
    start, end = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[1 if start else 0 : -1 if end else None]
    place = 0
    repetitions, optional = 0 if start else 1, 0
    while place < len(body):
        part = _PART.match(body, place)
        if part is None:
            return None
        place = part.end()
        quantifier = part["quantifier"] or ""
        optional += quantifier == "?"
        repetitions += quantifier in ("*", "+") or "," in quantifier
    if repetitions > _MOST_REPETITIONS or optional > _MOST_OPTIONAL:
        return None
    try:
        return re.compile((r"\A" if start else "") + body + (r"\Z" if end else "")).search
    except re.error:
        return None
