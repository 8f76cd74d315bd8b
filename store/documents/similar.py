"""Suggestions for misspelt words."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def did_you_mean(given: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return a question that names up to two known words similar to ``given``; empty if none is similar.

    Upper and lower case are equal. ``shown`` returns the text of a known word in the question.
    """
    # The library is imported here, because only misspelt words need it.
    from difflib import get_close_matches

    by_small = {each.lower(): each for each in known}
    near = get_close_matches(given.lower(), by_small, n=2, cutoff=0.6)
    return f"Did you mean {' or '.join(shown(by_small[each]) for each in near)}?" if near else ""
