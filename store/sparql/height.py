"""The height of the syntax tree that a recursive parser and evaluator build for a SPARQL text."""

from __future__ import annotations

from ..errors import LimitError
from .tokens import Token, TokenKind, excerpt_at, line_and_column

_CHAINS = frozenset({"||", "&&", "+", "-", "*", "/", "|", "^", "!", "=", "!=", "<", ">", "<=", ">="})
_CHAIN_WORDS = frozenset(
    {"UNION", "OPTIONAL", "MINUS", "BIND", "FILTER", "VALUES", "LATERAL", "EXISTS", "AS"}
)
_OPERANDS = frozenset(
    {TokenKind.IRI, TokenKind.PNAME, TokenKind.VAR, TokenKind.BLANK, TokenKind.STRING, TokenKind.NUMBER}
)
_PAIRS = {"(": ")", "[": "]", "{": "}", "<<": ">>", "{|": "|}"}
_CLOSERS = frozenset(_PAIRS.values())


class HeightMeter:
    """Measures the height of a SPARQL text's syntax tree, from brackets and chains of operators.

    height(group) = 1 + links of the group's own chain + the greatest height among its inner groups.

    Raises:
        LimitError: `add_token` raises the error as soon as the height exceeds the limit.
    """

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._links = [0]
        self._inner_heights = [0]
        self._brackets = [""]
        self._open_height = 0  # nesting depth of the text's open groups plus the links of their chains
        self._last: Token | None = None
        # Bracket depth at INSERT DATA and DELETE DATA, whose triples add no height.
        self._data_depth: int | None = None

    def add_token(self, token: Token) -> None:
        """Add the next token of the SPARQL text to the measurement of its height."""
        kind, text = token.kind, token.text
        if kind is TokenKind.PUNCT:
            if text in _PAIRS:
                self._open(text)
            elif text in _CLOSERS:
                self._close()
            elif self._data_depth is None and (text in _CHAINS or self._separates_patterns(text)):
                self._link()
        elif self._data_depth is None and self._lengthens(token):
            self._link()
        if self._open_height + self._inner_heights[-1] > self._limit:
            raise too_high(self._text, self._limit, token.start)
        self._last = token

    def measured(self) -> int:
        """Return the height of the whole SPARQL text; call once, after the last token."""
        while len(self._links) > 1:  # brackets that are never closed count for the height as well
            self._close()
        return self._links[0] + self._inner_heights[0]

    def _separates_patterns(self, text: str) -> bool:
        # Oxigraph joins the triple patterns of a group to one side, so each adds a level of height; arguments
        # and IN lists are flat.
        return text in (".", ";") or (text == "," and self._brackets[-1] in ("{", "["))

    def _lengthens(self, token: Token) -> bool:
        if token.word in _CHAIN_WORDS:
            return True
        # Each member of an RDF collection becomes triples, and so adds a level of height. In ?a-1 the minus
        # sign is part of the number token, so two operands in a row are a subtraction.
        last = self._last
        return (
            self._brackets[-1] == "("
            and token.kind in _OPERANDS
            and last is not None
            and last.kind in _OPERANDS
        )

    def _open(self, bracket: str) -> None:
        # Oxigraph joins consecutive groups to one side, so each group adds a level of height; other brackets
        # do not.
        if bracket == "{" and self._data_depth is None:
            if self._last is not None and self._last.word == "DATA":
                self._data_depth = len(self._links)
            else:
                self._link()
        self._links.append(0)
        self._inner_heights.append(0)
        self._brackets.append(bracket)
        self._open_height += 1

    def _close(self) -> None:
        if len(self._links) == 1:
            return
        links, inner_height = self._links.pop(), self._inner_heights.pop()
        self._brackets.pop()
        self._open_height -= links + 1
        self._inner_heights[-1] = max(self._inner_heights[-1], links + inner_height + 1)
        if self._data_depth == len(self._links):
            self._data_depth = None

    def _link(self) -> None:
        self._links[-1] += 1
        self._open_height += 1


def too_high(text: str, limit: int, offset: int) -> LimitError:
    """Return the error for a SPARQL text whose height exceeds ``limit`` at the character ``offset``."""
    line, column = line_and_column(text, offset)
    return LimitError(
        f"the text nests deeper than {limit:,} levels at line {line}, column {column}",
        hint="split the query, or write long lists of alternatives as VALUES",
        line=line,
        column=column,
        excerpt=excerpt_at(text, line, column),
    )
