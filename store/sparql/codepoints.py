r"""Code point escapes of SPARQL texts (``\u0078``, ``\U00000078``) outside of strings and IRIs.

Oxigraph decodes code point escapes only in strings and IRIs; SPARQL allows escapes anywhere.
`without_escapes` decodes code point escapes outside of strings and IRIs before any other module reads the
text. Source: SPARQL 1.1 Query, section 19.2.
"""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\"\"\"(?>[^\"\\]|\\.|\"(?!\"\"))*+\"\"\"|'''(?>[^'\\]|\\.|'(?!''))*+'''"
    r"|\"(?>[^\"\\\r\n]|\\.)*+\"|'(?>[^'\\\r\n]|\\.)*+'"
    r"|<[^<>\"{}|^`\x00-\x20]*+>|\#[^\r\n]*+"
    r"|(?P<name>(?:\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})[^\s\"'<>(){}\[\],;\\]*+(?>(?:\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})"
    r"[^\s\"'<>(){}\[\],;\\]*+)*+)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_MAY_HAVE = re.compile(r"\\[uU]")


def without_escapes(text: str) -> str:
    r"""Return a SPARQL text with all code point escapes decoded that stand outside of strings and IRIs.

    Spaces pad each name with decoded escapes to its old length, so that positions in error messages stay
    right.

    >>> without_escapes(r"SELECT (:e\u0078ample AS ?x) {}")
    'SELECT (:example      AS ?x) {}'
    """
    return _PIECE.sub(_replaced, text) if _MAY_HAVE.search(text) else text


def _replaced(match: re.Match[str]) -> str:
    name = match["name"]
    if name is None:
        return match[0]
    short = _ESCAPE.sub(_character, name)
    return short.ljust(len(name))


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    # A surrogate or a number beyond Unicode keeps its escape, so that Oxigraph refuses the text.
    return match[0] if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)
