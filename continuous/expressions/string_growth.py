"""Built-ins that can make long values from short ones (CONCAT, REPLACE, ENCODE_FOR_URI), within a budget.

A value doubles with each CONCAT: 25 calls turn one letter into 32 MB. Values with more than `LONG` characters
are counted in the evaluation's budget; REPLACE checks the limit of one value before the value is built.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode

from quadrill.store.terms import Term

from ..algebra.regex_text import Replacement, has_back_reference, pattern_text, read_replacement
from ..errors import BudgetError
from ..rows import Budget
from .functions import Tag, string_and_tag, tagged
from .oxigraph import ask
from .values import Maybe, Value

LONG = 4_096
"""Length in characters up to which a value does not count for the budget of made text."""
_FEW = 16


def take_text(budget: Budget, size: int, function: str) -> None:
    """Count a value of ``size`` characters, made by ``function``, in the budget.

    Raises:
        BudgetError: the value is too long, or all values of one evaluation together are.
    """
    limits, since = budget.limits, budget.since
    if 0 < limits.text < size:
        raise BudgetError(
            f"{function} makes a value of {size} characters, the limit is {limits.text} (max_text_length)",
            limit=limits.text,
        )
    made = size + (budget.text[0] if budget.text[1] == since else 0)
    budget.text = (made, since)
    if since and 0 < limits.bytes < made:
        raise BudgetError(
            f"the expressions of one evaluation make values of {made} characters together, the limit is "
            f"{limits.bytes} (max_evaluation_bytes)",
            limit=limits.bytes,
        )


def call_within(
    budget: Budget, iri: NamedNode, function: Callable[..., Term | None], *terms: Term
) -> Term | None:
    """Call a function of an extension; the result's length and the function's time count for the evaluation.

    Raises:
        BudgetError: the extension function's result is too long, or the evaluation has taken too long or was
            cancelled.
    """
    result = function(*terms)
    if isinstance(result, (Literal, NamedNode)) and len(result.value) > LONG:
        take_text(budget, len(result.value), str(iri))
    if budget.since:
        budget.check_stop(None)
        took_ms, limits = (time.monotonic() - budget.since) * 1000, budget.limits
        if 0 < limits.ms * budget.grace < took_ms:
            raise budget.too_slow(took_ms, budget.rows, None)
    return result


def concat(budget: Budget, *values: Value) -> Maybe:
    """CONCAT: the result has a language tag if all arguments have the same tag."""
    if len(values) <= _FEW and all([type(value) is str for value in values]):
        text = "".join(values)  # type: ignore[arg-type]
        if len(text) > LONG:
            take_text(budget, len(text), "CONCAT")
        return text
    parts: list[str] = []
    tags: set[Tag | None] = set()
    for value in values:
        found = string_and_tag(value)
        if found is None:
            return None
        parts.append(found[0])
        tags.add(found[1])
    size = sum(map(len, parts))
    if size > LONG:
        take_text(budget, size, "CONCAT")
    return tagged("".join(parts), tags.pop() if len(tags) == 1 else None)


def encode_for_uri(budget: Budget, value: Value) -> Maybe:
    """The built-in ENCODE_FOR_URI, which makes longer values from short ones."""
    found = string_and_tag(value)
    if found is None:
        return None
    text = quote(found[0], safe="")
    if len(text) > LONG:
        take_text(budget, len(text), "ENCODE_FOR_URI")
    return text


def corrected_replace(
    budget: Budget, value: Value, pattern: Value, replacement: Value, flags: Value = ""
) -> Maybe:
    """REPLACE in a corrected query text, whose replacement is already in Oxigraph's syntax."""
    if type(replacement) is not str:
        return None
    put = Replacement(replacement, len(replacement), replacement.count("$"))
    return _replaced(budget, value, pattern, put, flags)


def replace(budget: Budget, value: Value, pattern: Value, replacement: Value, flags: Value = "") -> Maybe:
    r"""REPLACE by XPath and XQuery Functions and Operators 3.1, section 5.6.4, with Oxigraph's syntax.

    A pattern of REPLACE that matches the empty string is an error. A ``\`` or ``$`` in the replacement of
    REPLACE that is no escape and no reference to a group is an error, too. With the flag ``q``, the
    replacement of REPLACE is a literal text.
    """
    if type(pattern) is not str or type(replacement) is not str or type(flags) is not str:
        return None
    short = len(pattern) + len(replacement) < LONG
    put = (_put if short else _put.__wrapped__)(replacement, pattern, flags)
    return None if put is None else _replaced(budget, value, pattern, put, flags)


def _replaced(budget: Budget, value: Value, pattern: Value, put: Replacement, flags: Value) -> Maybe:
    if type(pattern) is str and type(flags) is str:
        if has_back_reference(pattern, flags):
            return None
        pattern = pattern_text(pattern, flags)
    length, limit = _length(value), budget.limits.text
    if 0 < limit < length + (length + 1) * put.fixed + put.groups * length:
        # The number of matches of REPLACE is the difference between the lengths after replacing each match by
        # "" and by "x".
        rest, marked = [_length(ask("REPLACE", value, pattern, one, flags)) for one in ("", "x")]
        size = rest + (marked - rest) * put.fixed + put.groups * (length - rest)
        if size > limit:
            take_text(budget, size, "REPLACE")
    result = ask("REPLACE", value, pattern, put.text, flags)
    if _length(result) > LONG:
        take_text(budget, _length(result), "REPLACE")
    return result


def _length(value: Maybe) -> int:
    found = None if value is None else string_and_tag(value)
    return 0 if found is None else len(found[0])


@lru_cache(maxsize=64)
def _put(replacement: str, pattern: str, flags: str) -> Replacement | None:
    """Return REPLACE's replacement with groups in braces and dollar signs doubled; None for an error."""
    if ask("REGEX", "", pattern_text(pattern, flags), flags) is not False:
        return None
    return read_replacement(replacement, pattern, flags)


GROWING: dict[str, tuple[Callable[..., Maybe], range]] = {
    "CONCAT": (concat, range(1_000)),
    "ENCODE_FOR_URI": (encode_for_uri, range(1, 2)),
    "REPLACE": (replace, range(3, 5)),
}
"""The built-in functions that can make long values; each takes the budget as its first argument."""
