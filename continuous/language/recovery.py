"""Error recovery of the parser, so that one error lists up to ten independent syntax faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy

from lark import Lark, Token
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser_state import ParserState

from .context import NOISE

_IRIS = {"IRIREF", "PNAME_LN", "PNAME_NS"}
_STRINGS = {"SHORT_STRING", "LONG_STRING"}
_NUMBERS = {"NUMBER", "SIGNED_NUMBER"}
_LITERALS = _STRINGS | _NUMBERS | {"BOOLEAN"}
_FUNCTIONS = {
    "BUILTIN",
    "EXISTS",
    "NOT",
    "COUNT",
    "AGGREGATE",
    "GROUP_CONCAT",
    "EXTENDED_AGGREGATE",
    "PERCENTILE",
    "TIMESTAMP",
}
_NODES = {"BLANK_NODE_LABEL", "LSQUARE", "LPAR", "TRIPLE_OPEN", "REIFIED_OPEN"}
_OPERATORS = {"COMPARE", "_OR", "_AND", "STAR", "SLASH", "PLUS", "MINUS_SIGN", "IN", "BANG"}
_BLOCKS = {"FILTER", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "BIND", "VALUES", "LBRACE"}

_WORDS = {
    "VAR": "a variable",
    "COMPACT_DURATION": "a duration such as 10s",
    "ISO_DURATION": "a duration such as PT10S",
    "UNIT": "a unit of time",
    "LANG_DIR": "a language tag",
    "BARE_NAME": "a name",
    "A": "a",
    "$END": "the end of the query",
    "PNAME_NS": "a prefix such as foaf:",
    "COMPARE": "a comparison",
    "SELECT_MODE": "DISTINCT or REDUCED",
    "REGISTER_KIND": "STREAM, RSTREAM, ISTREAM or DSTREAM",
    "STEP": "SLIDE or STEP",
    "REPORT_WORD": "ON_WINDOW_CLOSE, ON_CONTENT_CHANGE, NON_EMPTY_CONTENT or PERIODIC",
    "TICK_WORD": "TIME_DRIVEN",
    "BLANK_NODE_LABEL": "a blank node",
    "AGGREGATE": "an aggregate",
    "BUILTIN": "a function",
}
_KEYWORD = re.compile(r"(?<![A-Z\[])[A-Z][A-Z0-9_]+(?!\])")
MOST = 7
EXTENSIONS = {"AFTER", "EMIT", "INTO", "ONCE", "REFRESH"}
"""Keywords of clauses that SPARQL does not have, which a list of expected tokens leaves out."""
_RARE_WINDOWS = {"FROM", "LATEST", "SESSION"}
"""Keywords of rare windows, which a list of expected tokens leaves out in favour of common windows."""


def plain(terminal: str) -> str:
    """Return a grammar terminal's name without the prefix ``sparql__`` of the imported grammar."""
    return terminal.replace("sparql__", "", 1)


def expected(terminals: Iterable[str], patterns: dict[str, str]) -> str:
    """Describe at most `MOST` expected terminals, such as ``a variable, an IRI or FILTER``."""
    names = set(terminals)
    if "SLIDING" in names:
        names -= _RARE_WINDOWS
    names -= EXTENSIONS
    words: list[str] = []
    if {"VAR"} | _IRIS | _STRINGS <= names:
        words.append("a variable, an IRI or a literal" if not _OPERATORS & names else "a term")
        names -= {"VAR"} | _IRIS | _LITERALS | _NODES
    elif {"VAR"} | _IRIS <= names:
        words.append("a variable or an IRI")
        names -= {"VAR"} | _IRIS
        names -= _NODES if _NODES & names else set()
    if _IRIS <= names:
        words.append("an IRI")
        names -= _IRIS
    if _STRINGS | _NUMBERS <= names:
        words.append("a literal")
        names -= _LITERALS
    if _STRINGS <= names:
        words.append("a string")
        names -= _STRINGS
    if "NUMBER" in names:
        words.append("a number")
        names -= _NUMBERS
    if _BLOCKS <= names:
        words.append("a graph pattern such as OPTIONAL or FILTER")
        names -= _BLOCKS | {"STREAM", "WINDOW"}
    if "BUILTIN" in names and len(_FUNCTIONS & names) > 1:
        words.append("a function")
        names -= _FUNCTIONS
    if len(_OPERATORS & names) > 3:
        words.append("an operator")
        names -= _OPERATORS | {"SIGNED_NUMBER", "NOT"}
    rest = sorted(
        {_word(name, patterns) for name in names}, key=lambda word: (not word.startswith('"'), word)
    )
    shown = words + rest
    if len(shown) > MOST:
        shown = [*shown[:MOST], "…"]
    if len(shown) < 2:
        return "".join(shown) or "nothing more"
    return ", ".join(shown[:-1]) + " or " + shown[-1]


def keywords(grammar: Lark, names: set[str]) -> set[str]:
    """Return the keywords in capital letters that the terminals with these names match."""
    texts = [_WORDS.get(name, "") for name in names]
    texts += [
        terminal.pattern.value
        for terminal in grammar.terminals
        if plain(terminal.name) in names and terminal.pattern.type == "re" and "i" in terminal.pattern.flags
    ]
    return {word for text in texts for word in _KEYWORD.findall(text)}


def _word(name: str, patterns: dict[str, str]) -> str:
    if name in patterns:
        return f'"{patterns[name]}"'
    return _WORDS.get(name) or name.lstrip("_")


def found(text: str) -> str:
    """Return the unexpected text of a syntax fault in quotes, shortened to 40 characters."""
    shown = text if len(text) <= 40 else text[:37] + "…"
    return f"“{shown}”" if '"' in shown else f'"{shown}"'


_MOST_FAULTS = 10
_GOOD_TOKENS = 2
_SYNC = re.compile(
    NOISE.pattern
    + r"|[{}()\]]|\.(?![0-9])"
    + r"|\b(?:FILTER|OPTIONAL|MINUS|GRAPH|SERVICE|BIND|VALUES|STREAM|WINDOW"
    + r"|WHERE|FROM|GROUP|HAVING|ORDER|LIMIT|OFFSET)\b",
    re.IGNORECASE,
)
_ELEMENTS = ("FILTER", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "BIND", "VALUES", "STREAM", "WINDOW")
_TERMINALS = {
    "WHERE": "_WHERE", "FROM": "FROM", "GROUP": "GROUP", "HAVING": "HAVING", "ORDER": "ORDER",
    "LIMIT": "_LIMIT", "OFFSET": "_OFFSET", "{": "LBRACE", "}": "RBRACE",
}  # fmt: skip


class SyntaxRecovery:
    """One run of the recovering parser over a wrong text."""

    def __init__(self, grammar: Lark, text: str) -> None:
        self._text = text
        self._names = {plain(terminal.name): terminal.name for terminal in grammar.terminals}
        self._interactive: InteractiveParser = grammar.parse_interactive(text)
        conf = copy(self._interactive.parser_state.parse_conf)
        conf.callbacks = {}
        self._interactive.parser_state.parse_conf = conf
        self._good = _GOOD_TOKENS
        self._last: Token | None = None
        self.tokens: list[Token] = []

    @property
    def _state(self) -> ParserState[int]:
        return self._interactive.parser_state

    @property
    def position(self) -> int:
        """The number of the parser's current state."""
        return self._state.position

    def expected(self) -> set[str]:
        """Return the terminals that the parser accepts next, without the prefix of imported grammars."""
        return {name for name in self._choices() if self._accepts(name)}

    def _choices(self) -> set[str]:
        choices = {plain(name) for name in self._interactive.choices()}  # type: ignore[no-untyped-call]
        return {name for name in choices if name in self._names or name == "$END"}

    def run(self, report: Callable[[UnexpectedInput, int], None]) -> None:
        """Call ``report`` for at most ten syntax faults, while the parser is in the state of the fault."""
        for _ in range(_MOST_FAULTS):
            error = self._advance()
            if error is None:
                return
            at = self._offset(error)
            if self._good >= _GOOD_TOKENS:
                report(error, at)
            self._good = 0
            if not self._resume(at):
                return

    def _advance(self) -> UnexpectedInput | None:
        try:
            for token in self._interactive.lexer_thread.lex(self._state):  # type: ignore[no-untyped-call]
                self._state.feed_token(token)
                self._last = token
                self.tokens.append(token)
                self._good += 1
            end = Token("$END", "", start_pos=len(self._text))
            self._state.feed_token(end, is_end=True)
        except UnexpectedInput as error:
            return error
        return None

    def _offset(self, error: UnexpectedInput) -> int:
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            last = self._last
            return 0 if last is None or last.end_pos is None else last.end_pos
        return error.pos_in_stream or 0

    # --- recovery

    def _resume(self, at: int) -> bool:
        braces, parens, grouped = 0, self._open_parens(), self._inside_braces()
        for mark in _SYNC.finditer(self._text, at):
            word = mark.group().upper()
            if word == "{":
                if braces == parens == 0 and self._cut("{", inside_group=grouped):
                    return self._go_on(mark.start())
                braces += 1
            elif word == "}":
                if braces == 0:
                    return (self._cut_to_element() or self._cut("}", inside_group=True)) and self._go_on(
                        mark.start()
                    )
                braces -= 1
            elif braces:
                continue
            elif word == "(":
                parens += 1
            elif word == ")":
                parens -= 1
                if parens == 0 and self._cut_to_element():
                    return self._go_on(mark.end())
            elif parens > 0:
                continue
            elif word == "." and self._cut_to_element():
                self._feed("_DOT")
                return self._go_on(mark.end())
            elif word == "]" and self._cut_window():
                return self._go_on(mark.end())
            elif word in _ELEMENTS and mark.start() > at and self._cut_to_element():
                return self._go_on(mark.start())
            elif word in _TERMINALS and mark.start() > at and self._cut(word, inside_group=False):
                return self._go_on(mark.start())
        return False

    def _open_parens(self) -> int:
        """Return the number of parentheses that are open at the fault, inside the innermost braces."""
        depth = 0
        for value in reversed(self._state.value_stack):
            if isinstance(value, Token):
                if value == "{":
                    break
                depth += (value == "(") - (value == ")")
        return max(depth, 0)

    def _inside_braces(self) -> bool:
        return any(isinstance(value, Token) and value == "{" for value in self._state.value_stack)

    def _go_on(self, at: int) -> bool:
        lexer = self._interactive.lexer_thread.state
        assert lexer is not None
        lexer.line_ctr.char_pos = at
        return True

    def _cut_to_element(self) -> bool:
        """After a syntax fault, pop the parser's stack until an element of the current group can begin."""
        return self._cut_while(lambda: self._accepts("FILTER"), inside_group=True)

    def _cut(self, word: str, *, inside_group: bool) -> bool:
        terminal = _TERMINALS[word]
        if self._cut_while(lambda: self._accepts(terminal), inside_group=inside_group):
            return True
        if self._cut_while(lambda: self._accepts("VAR", terminal), inside_group=inside_group):
            return self._feed("VAR")
        return False

    def _cut_window(self) -> bool:
        """Replace a window with a syntax fault by [NOW], so that parsing can continue."""
        if self._cut_while(lambda: self._accepts("NOW", "RSQB"), inside_group=True):
            return self._feed("NOW") and self._feed("RSQB")
        return False

    def _cut_while(self, good: Callable[[], bool], *, inside_group: bool) -> bool:
        states, values = list(self._state.state_stack), list(self._state.value_stack)
        while True:
            if good():
                return True
            top = self._state.value_stack[-1] if self._state.value_stack else None
            at_brace = isinstance(top, Token) and top == "{"
            if top is None or (inside_group and at_brace):
                self._state.state_stack[:], self._state.value_stack[:] = states, values
                return False
            self._state.state_stack.pop()
            self._state.value_stack.pop()

    def _accepts(self, *terminals: str) -> bool:
        """Return True if the parser would accept these terminals one after the other."""
        trial = self._state.copy(deepcopy_values=False)
        return all(self._try(trial, terminal) for terminal in terminals)

    def _feed(self, terminal: str) -> bool:
        return self._accepts(terminal) and self._try(self._state, terminal)

    def _try(self, state: ParserState[int], terminal: str) -> bool:
        try:
            state.feed_token(Token(self._names.get(terminal, terminal), ""), is_end=terminal == "$END")
        except UnexpectedToken:
            return False
        return True
