r"""The tokeniser of SPARQL texts, exact enough to find brackets, operations, templates and SERVICE calls.

The tokeniser of SPARQL refuses no text: Oxigraph's parser does. For every text that Oxigraph accepts, tokens
must begin and end at the same positions as in Oxigraph. Source: SPARQL 1.1 section 19.8 (terminals) and the
RDF 1.2 brackets of SPARQL 1.2. Oxigraph decodes ``\u`` escapes only inside IRIs and strings, never in
keywords, so no escape can hide a keyword or a bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

TOKENS_BETWEEN_CHECKS = 4096


class TokenKind(Enum):
    """The kinds of SPARQL tokens."""

    IRI = "iri"
    PNAME = "pname"
    VAR = "var"
    BLANK = "blank"
    STRING = "string"
    LANG = "lang"
    NUMBER = "number"
    WORD = "word"
    PUNCT = "punct"


class Token(NamedTuple):
    """A token and its position in the source: ``text`` is ``source[start:end]``."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The text of a word token in upper case; empty for every other kind of token."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""


# SPARQL names may have all characters except some of ASCII: a negated class compiles fast, Unicode ranges do
# not.
_NO_WORD = r"\x00-/:-@\[-^`{-\x7f"
_NAME = r"[^\x00-,./:-@\[-^`{-\x7f]"
_PREFIX = rf"[^\x00-@\[-`{{-\x7f](?>{_NAME}++|\.++(?={_NAME}))*+"
_LOCAL = rf"(?:{_NAME}|:|%[0-9A-Fa-f]{{2}}|\\[_~.\-!$&'()*+,;=/?#@%])"
_AFTER_COLON = rf":(?>{_LOCAL}(?>{_NAME}++|{_LOCAL}|\.++(?={_LOCAL}))*+)?+"


def _expression(prefixed: str) -> re.Pattern[str]:
    """Return the regular expression of a SPARQL token; ``prefixed`` has the alternatives for prefixed names.

    Possessive quantifiers of regular expressions never backtrack, so a match takes linear time and constant
    memory.
    """
    return re.compile(
        r"(?P<skip>(?>[ \t\r\n]++|\#[^\r\n]*+)++)"
        r"|(?P<iri><[^<>\"{}|^`\x00-\x20]*+>)"
        r"|(?P<quote>[\"'])"
        rf"|(?P<var>[?$][^{_NO_WORD}]++)"
        rf"|(?P<blank>_:{_NAME}(?>{_NAME}++|\.++(?={_NAME}))*+)"
        r"|(?P<lang>@[A-Za-z]++(?>-++[A-Za-z0-9]++)*+)"
        r"|(?P<number>[+-]?(?:[0-9]++(?>\.[0-9]*+)?+|\.[0-9]++)(?>[eE][+-]?[0-9]++)?+)"
        rf"|{prefixed}(?P<word>[A-Za-z_]\w*+)"
        r"|(?P<punct><<|>>|\{\||\|\}|\^\^|&&|\|\||!=|<=|>=|.)",
        re.DOTALL,
    )


_TOKEN = _expression(rf"(?P<pname>(?>{_PREFIX})?+{_AFTER_COLON})|(?P<loose>{_PREFIX})|")
_LOOSE_TOKEN = _expression(rf"(?P<pname>{_AFTER_COLON})|")
_SHORT, _LONG = r"(?>[^{0}\\\r\n]++|\\.)*+", r"(?>[^{0}\\]++|\\.|{0}(?!{0}{0}))*+"
_STRINGS = {
    opening: re.compile(f"{opening}{inside.format(opening[0])}(?>({opening})?)", re.DOTALL)
    for opening, inside in (('"""', _LONG), ("'''", _LONG), ('"', _SHORT), ("'", _SHORT))
}
_KINDS = {kind.value: kind for kind in TokenKind}
_OPERAND_ENDS = frozenset({TokenKind.VAR, TokenKind.NUMBER, TokenKind.STRING, TokenKind.LANG})
_EXPRESSION_STARTS = frozenset("?$(!+-0123456789")
_OPENERS = frozenset("([{") | {"<<", "{|"}
_CLOSERS = frozenset(")]}") | {">>", "|}"}


def tokens(source: str, start: int = 0) -> Iterator[Token]:
    """Iterate over the tokens of a query or an update from ``start`` on, without white space and comments.

    In SPARQL texts, the sign ``<`` opens an IRI or compares. Usually the longest match decides whether ``<``
    opens an IRI or compares, and the longest match is an IRI. Inside the parentheses of an expression, the
    ``<`` of ``(?a<?b&&?c>?d)`` is a comparison: an operand stands before the sign, and the next character
    cannot begin an absolute IRI.
    """
    at = start
    brackets = bytearray()  # 1 for each open bracket of the text that is a parenthesis, else 0
    previous: Token | None = None
    loose_until = 0
    hopeless: dict[str, int] = {}
    while at < len(source):
        match = (_TOKEN if at >= loose_until else _LOOSE_TOKEN).match(source, at)
        # This cannot happen: the last alternative of the token expression matches any character.
        if match is None:
            raise AssertionError(f"no token at {at}")
        group = match.lastgroup or "punct"
        end = match.end()
        if group == "skip":
            at = end
            continue
        if group == "loose":
            # No colon follows the name at this position, so no part of the name is a prefix.
            loose_until = end
            continue
        text = match.group()
        if group == "quote":
            end = _string_end(source, at, hopeless)
            group, text = ("string", source[at:end]) if end > at + 1 else ("punct", text)
        elif group == "iri" and _compares(text, previous, brackets):
            group, text, end = "punct", "<", at + 1
        token = Token(_KINDS[group], text, at, end)
        if group == "punct":
            if text in _OPENERS:
                brackets.append(text == "(")
            elif text in _CLOSERS and brackets:
                brackets.pop()
        yield token
        previous = token
        at = end


def _string_end(source: str, at: int, hopeless: dict[str, int]) -> int:
    """Return the end of the string literal that begins at ``at``; ``at + 1`` if the quote opens no literal.

    For an unclosed quote, the search goes to its limit, and the same quote within that range is unclosed too.
    The map ``hopeless`` stores the end of the searched range for each kind of quote, so that no text is
    searched twice.
    """
    quote = source[at]
    for opening in (quote * 3, quote):
        if at >= hopeless.get(opening, 0) and (match := _STRINGS[opening].match(source, at)):
            if match.end(1) > 0:
                return match.end()
            hopeless[opening] = match.end()
    return at + 1


_IRI = re.compile(r"<[^<>\"{}|^`\x00-\x20]*+>")
_HIERARCHICAL = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*://")


def is_doubtful(source: str, token: Token, previous: Token | None, signs: str = "'#") -> bool:
    """Return True for a ``<`` that may open an IRI or compare, if a misreading would hide a sign.

    Oxigraph decides by its grammar whether ``<`` opens an IRI, the tokeniser by the neighbouring tokens. A
    hostile text could use the difference between tokeniser and grammar to hide brackets and keywords from the
    guard. The sign in ``<scheme://`` is never doubtful: it opens an IRI.
    """
    if token.text[:1] != "<" or previous is None:
        return False
    if previous.kind is TokenKind.PUNCT and previous.text not in (")", "}", ">>"):
        return False
    if previous.kind is TokenKind.WORD and previous.word not in ("TRUE", "FALSE"):
        return False
    # In ``?a<<x:y>`` the first sign compares and the second opens an IRI.
    match = _IRI.match(source, token.start + (token.text == "<<"))
    if match is None or _HIERARCHICAL.match(match.group()):
        return False
    return any([sign in match.group() for sign in signs])


def _compares(text: str, previous: Token | None, brackets: bytearray) -> bool:
    if previous is None or not brackets or not brackets[-1]:
        return False
    operand = previous.kind in _OPERAND_ENDS or previous.text == ")"
    return operand and text[1:2] in _EXPRESSION_STARTS


def line_and_column(source: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of a character offset, both counted from 1."""
    before = source[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def excerpt_at(source: str, line: int, column: int) -> str | None:
    """Return a line of the source with a caret under the column; at most 120 characters around the column.

    Return None if the source has no such line.
    """
    lines = source.split("\n")
    if not 1 <= line <= len(lines):
        return None
    text = lines[line - 1].rstrip("\r").replace("\t", " ")
    begin = max(0, column - 1 - 60)
    shown = text[begin : begin + 120]
    return f"{shown}\n{' ' * max(0, column - 1 - begin)}^"
