r"""Regular expressions and replacements of XPath as Oxigraph's matcher reads them.

Source: XPath and XQuery Functions and Operators 3.1, sections 5.6.1 and 5.6.4; the classes ``\i`` and ``\c``
are those of XML Schema Part 2, appendix G (start and characters of an XML name).
"""

from __future__ import annotations

import re

BACK_REFERENCE = "a back-reference in a regular expression"
"""What is refused: it needs a matcher that goes back, and Oxigraph's does not."""
_START = (
    r":A-Z_a-z\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{2FF}\x{370}-\x{37D}\x{37F}-\x{1FFF}\x{200C}-\x{200D}"
    r"\x{2070}-\x{218F}\x{2C00}-\x{2FEF}\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}"
)
_NAME = _START + r"\-.0-9\x{B7}\x{300}-\x{36F}\x{203F}-\x{2040}"
_CLASSES = {"i": f"[{_START}]", "I": f"[^{_START}]", "c": f"[{_NAME}]", "C": f"[^{_NAME}]"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NO_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]", re.DOTALL)
_GROUP = re.compile(r"\((?!\?)")
_REFERENCE = re.compile(r"\$([0-9]{1,6})")


def has_back_reference(pattern: str, flags: str = "") -> bool:
    r"""True for a pattern that refers to what one of its groups matched.

    >>> has_back_reference(r"(a)\1"), has_back_reference(r"\\1"), has_back_reference(r"(a)\1", "q")
    (True, False, False)
    """
    return "q" not in flags and any("1" <= sign <= "9" for sign in _ESCAPE.findall(pattern))


def pattern_text(pattern: str, flags: str = "") -> str:
    r"""The pattern with the classes of XML names written out.

    >>> pattern_text("\\d+"), pattern_text("\\i\\c*").startswith("[:A-Z_a-z"), pattern_text("\\i", "q")
    ('\\d+', True, '\\i')
    """
    if "q" in flags or "\\" not in pattern:
        return pattern
    return _ESCAPE.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)


def groups_of(pattern: str) -> int:
    """The number of groups of a pattern."""
    return len(_GROUP.findall(_NO_GROUP.sub("", pattern)))


def digits_of_group(digits: str, groups: int) -> str:
    """The digits behind a ``$`` that name a group: as many as there are groups of that number."""
    while len(digits) > 1 and int(digits) > groups:
        digits = digits[:-1]
    return digits


def replacement_text(replacement: str, pattern: str, flags: str = "") -> str:
    """The replacement with the numbers of its groups in braces, so that no text behind them belongs to them.

    >>> replacement_text("$10", "(a)"), replacement_text("$2T$1", "(a)(b)")
    ('${1}0', '${2}T${1}')
    """
    if "$" not in replacement or "q" in flags:
        return replacement
    groups = groups_of(pattern)

    def written(match: re.Match[str]) -> str:
        digits = digits_of_group(match[1], groups)
        return f"${{{digits}}}{match[1][len(digits) :]}"

    return _REFERENCE.sub(written, replacement)
