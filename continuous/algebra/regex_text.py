r"""Translates regular expressions and replacements of XPath to the syntax of Oxigraph's matcher.

Source: XPath and XQuery Functions and Operators 3.1, sections 5.6.1 and 5.6.4; the classes ``\i`` and ``\c``
are those of XML Schema Part 2, appendix G (start and characters of an XML name).
"""

from __future__ import annotations

import re
from typing import NamedTuple

BACK_REFERENCE = "a back-reference in a regular expression"
"""The name of the rejected construct: back-references, as Oxigraph's matcher does not backtrack."""
_START = (
    r":A-Z_a-z\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{2FF}\x{370}-\x{37D}\x{37F}-\x{1FFF}\x{200C}-\x{200D}"
    r"\x{2070}-\x{218F}\x{2C00}-\x{2FEF}\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}"
)
_NAME = _START + r"\-.0-9\x{B7}\x{300}-\x{36F}\x{203F}-\x{2040}"
_CLASSES = {"i": f"[{_START}]", "I": f"[^{_START}]", "c": f"[{_NAME}]", "C": f"[^{_NAME}]"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NO_GROUP = re.compile(r"\\.|\[\^?\]?(?>\\.|[^\]\\])*+\]", re.DOTALL)
_GROUP = re.compile(r"\((?!\?)")
_REPLACEMENT = re.compile(r"(?>[^\\$]|\\[\\$]|\$[0-9])*+")
_REFERENCE = re.compile(r"\\([\\$])|\$([0-9]{1,6})")


def has_back_reference(pattern: str, flags: str = "") -> bool:
    r"""Return True for a regular expression with a reference to the text that one of its groups matched.

    >>> has_back_reference(r"(a)\1"), has_back_reference(r"\\1"), has_back_reference(r"(a)\1", "q")
    (True, False, False)
    """
    return "q" not in flags and any("1" <= sign <= "9" for sign in _ESCAPE.findall(pattern))


def pattern_text(pattern: str, flags: str = "") -> str:
    r"""Return a regular expression with the character classes of XML names written out.

    >>> pattern_text("\\d+"), pattern_text("\\i\\c*").startswith("[:A-Z_a-z"), pattern_text("\\i", "q")
    ('\\d+', True, '\\i')
    """
    if "q" in flags or "\\" not in pattern:
        return pattern
    return _ESCAPE.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)


def groups_of(pattern: str) -> int:
    """Return the number of groups of a regular expression."""
    return len(_GROUP.findall(_NO_GROUP.sub("", pattern)))


def digits_of_group(digits: str, groups: int) -> str:
    """Return the longest prefix of the digits after a ``$`` that is the number of a group."""
    while len(digits) > 1 and int(digits) > groups:
        digits = digits[:-1]
    return digits


class Replacement(NamedTuple):
    """A replacement of REPLACE in Oxigraph's syntax, with its counts of fixed characters and groups."""

    text: str
    fixed: int
    groups: int


def read_replacement(replacement: str, pattern: str, flags: str = "") -> Replacement | None:
    r"""Translate a replacement string of XPath's REPLACE; return None for an invalid replacement.

    In a replacement of REPLACE, a ``\`` or ``$`` that neither escapes a character nor names a group is
    invalid. With the flag ``q`` of REPLACE, the replacement is taken literally. Group references of a
    replacement are written in braces, so that a following digit is not read as part of the number.
    """
    if "q" in flags:
        return Replacement(replacement.replace("$", "$$"), len(replacement), 0)
    if "$" not in replacement and "\\" not in replacement:
        return Replacement(replacement, len(replacement), 0)
    if not _REPLACEMENT.fullmatch(replacement):
        return None
    groups = groups_of(pattern)
    named, fixed = 0, len(replacement)

    def written(match: re.Match[str]) -> str:
        nonlocal named, fixed
        escaped, digits = match.groups()
        if escaped is not None:
            fixed -= 1
            return "$$" if escaped == "$" else escaped
        digits = digits_of_group(digits, groups)
        named += 1
        fixed -= 1 + len(digits)
        return f"${{{digits}}}{match[2][len(digits) :]}"

    text = _REFERENCE.sub(written, replacement)
    return Replacement(text, fixed, named)


def replacement_text(replacement: str, pattern: str, flags: str = "") -> str | None:
    r"""Return a replacement of XPath's REPLACE in Oxigraph's syntax; None for an invalid replacement.

    >>> replacement_text("$10", "(a)"), replacement_text("$2T$1", "(a)(b)"), replacement_text("\\$1", "a")
    ('${1}0', '${2}T${1}', '$$1')
    """
    found = read_replacement(replacement, pattern, flags)
    return None if found is None else found.text
