"""Error messages for faults of a query text: position, excerpt with a caret, expected tokens and a hint."""

from __future__ import annotations

import re
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from quadrill.store.documents.similar import did_you_mean
from quadrill.store.errors import QueryTextError

from .context import NOISE, Context, TextFault
from .mistakes import KnownMistake, slips_of
from .recovery import EXTENSIONS, SyntaxRecovery, expected, found, keywords, plain
from .terms import WELL_KNOWN
from .window_mistakes import iri_without_brackets, window_slip

_TYPOGRAPHIC = "“”„‟«»‘’‚‛′″"
_WHOLE_STRING = re.compile(
    r'"""(?>[^"\\]++|\\[\s\S]|"(?!""))*+"""|\'\'\'(?>[^\'\\]++|\\[\s\S]|\'(?!\'\'))*+\'\'\''
    r'|"(?>[^"\n\r\\]++|\\.)*+"|\'(?>[^\'\n\r\\]++|\\.)*+\''
)
_SPACED_IRI = re.compile(r"<(?![<=])[^<>\n\s{}|^`]*[ {}|^`][^<>\n?$=]*>")
_TURTLE = re.compile(r"@(?:prefix|base)\b", re.IGNORECASE)
_SEEN = re.compile(r"\w+|\S")
_BARE_WORD = re.compile(r"[A-Za-z_][\w-]*")
_WORDS_FOR_OPERATORS = {"and": "&&", "or": "||", "not": "!", "is": "="}
_UPDATE = {"insert", "delete", "load", "clear", "drop", "create", "add", "move", "copy", "with"}
_MISSPELT = {
    "groupby": "GROUP BY",
    "orderby": "ORDER BY",
    "exist": "EXISTS",
    "order": "ORDER BY",
    "group": "GROUP BY",
}
_DIALECT_WORDS: dict[str, dict[str, str]] = {
    "stream": {
        "sparql": "STREAM belongs to CQELS-QL: register the text as a continuous query, POST /queries.",
        "rspql": "In RSP-QL* declare FROM NAMED WINDOW <w> ON <stream> […] and write WINDOW <w> {…}.",
        "csparql": "In C-SPARQL declare FROM STREAM <stream> […] before WHERE.",
    },
    "window": {
        "sparql": "WINDOW belongs to RSP-QL*: register the text as a continuous query, POST /queries.",
        "cqels": "In CQELS-QL write STREAM <stream> [RANGE 10s] {…}.",
        "csparql": "In C-SPARQL declare FROM STREAM <stream> […] before WHERE.",
    },
    "register": {
        "sparql": "REGISTER belongs to RSP-QL* and C-SPARQL: POST the text to /queries.",
        "cqels": "CQELS-QL has no REGISTER: give the name when you register, POST /queries?name=….",
    },
    "median": {"sparql": "Plain SPARQL has no MEDIAN: call <urn:quadrill:aggregate:median>(?x)."},
    "stddev": {"sparql": "Plain SPARQL has no STDDEV: call <urn:quadrill:aggregate:stddev>(?x)."},
    "variance": {"sparql": "Plain SPARQL has no VARIANCE: call <urn:quadrill:aggregate:variance>(?x)."},
    "percentile": {
        "sparql": "Plain SPARQL has no PERCENTILE: call <urn:quadrill:aggregate:percentile>(?x, 95)."
    },
    "lateral": {"*": "LATERAL is not SPARQL 1.1; write a sub-query."},
}


# --- the error


def place_of(text: str, at: int) -> dict[str, Any]:
    """Return line and column (from 1) of an offset, and the line's text with a caret below."""
    at = max(0, min(at, len(text)))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = at - start
    lead = "".join("\t" if char == "\t" else " " for char in line[:column]).ljust(column)
    if len(line) > 200:
        first = max(0, column - 100)
        line, lead = line[first : first + 200], lead[first:]
    return {"line": text.count("\n", 0, at) + 1, "column": column + 1, "excerpt": f"{line}\n{lead}^"}


def error_of(context: Context) -> QueryTextError:
    """Return one error for all faults of a text; its message describes the first fault in the text."""
    faults = sorted(context.faults, key=lambda fault: fault.at)
    described = tuple(_describe(context.text, fault) for fault in faults)
    first = described[0]
    message = f"line {first['line']}, column {first['column']}: {first['message']}"
    if len(described) > 1:
        message += f" (and {len(described) - 1} more)"
    return QueryTextError(
        message,
        line=first["line"],
        column=first["column"],
        excerpt=first["excerpt"],
        hint=first["hint"],
        code=faults[0].code or "query-text",
        faults=described,
    )


def _describe(text: str, fault: TextFault) -> dict[str, Any]:
    return {"message": fault.message, **place_of(text, fault.at), "hint": fault.hint}


# --- syntax faults


def explain(context: Context, grammar: Lark) -> None:
    """Record up to ten syntax faults of a text that the grammar rejects, and every undeclared prefix."""
    recovery = SyntaxRecovery(grammar, context.text)

    def report(error: UnexpectedInput, at: int) -> None:
        fault = _Explanation(context, grammar, recovery, at).of(error)
        context.fault(fault.message, fault.at, fault.hint, fault.code)

    recovery.run(report)
    _undeclared_prefixes(context, recovery.tokens)


class _Explanation:
    """Explanation of one syntax fault, created while the error-recovering parser is at the fault."""

    def __init__(self, context: Context, grammar: Lark, recovery: SyntaxRecovery, at: int) -> None:
        self.context = context
        self.grammar = grammar
        self.recovery = recovery
        self.at = at
        self.choices = recovery.expected()
        self.wanted = expected(self.choices, _patterns(grammar))

    def of(self, error: UnexpectedInput) -> TextFault:
        """Return the fault of the query text for a parser error, with message and hint."""
        special = self._special()
        if special is not None:
            return special
        window = window_slip(self.context.dialect, self.context.text, self.at, self.choices)
        if window is not None:
            seen = _SEEN.match(self.context.text, self.at)
            plain_message = f"unexpected {found(seen.group() if seen else '')}, expected {self.wanted}"
            return TextFault(window.message or plain_message, self.at, window.hint)
        if isinstance(error, UnexpectedCharacters):
            return self._character()
        assert isinstance(error, UnexpectedToken)
        token = error.token
        slip = self._slip(token)
        message = f"unexpected {found(str(token))}, expected {self.wanted}"
        if slip is not None:
            return TextFault(slip.message or message, self.at, slip.hint)
        if token.type == "$END":
            return self._end()
        return TextFault(
            message,
            self.at,
            _word_hint(self.context, str(token)) or self._token_hint(str(token)) or self._similar(str(token)),
        )

    def _special(self) -> TextFault | None:
        """Return the syntax fault if characters alone identify it, such as a typographic quote."""
        text, at = self.context.text, self.at
        char = text[at : at + 1]
        if char and char in _TYPOGRAPHIC:
            message = f"the typographic quote {char} is not a quotation mark"
            return TextFault(message, at, "Use straight quotes: \" or '.")
        if char == "\ufeff" or (char.isspace() and char not in " \t\r\n"):
            hint = "Editors and web pages leave it in texts: remove it, or write a plain space."
            return TextFault(f"the character U+{ord(char):04X} is no white space of SPARQL", at, hint)
        if char and char in "\"'":
            closing = f"Close it with {char}, or use {char * 3} for several lines."
            if not _WHOLE_STRING.match(text, at):
                return TextFault("this string is not closed on its line", at, closing)
        if char == "<" and _SPACED_IRI.match(text, at):
            hint = "Percent-encode them: %20 for a space."
            return TextFault("an IRI cannot contain spaces or any of { } | ^ `", at, hint)
        if char == "@" and _TURTLE.match(text, at):
            hint = "In a query write PREFIX p: <…> or BASE <…>, without @ and dot."
            return TextFault("this is the form of Turtle", at, hint)
        return None

    def _character(self) -> TextFault:
        text, at = self.context.text, self.at
        word = _BARE_WORD.match(text, at)
        if word is not None:
            return self._bare_word(word.group())
        message = f"unexpected {found(text[at])}, expected {self.wanted}"
        return TextFault(message, at, _char_hint(text, at))

    def _bare_word(self, word: str) -> TextFault:
        message = f'unexpected "{word}", expected {self.wanted}'
        hint = _word_hint(self.context, word)
        if hint is None and self.choices == {"PNAME_NS"}:
            hint = f"A prefix ends in a colon: {word}:"
        elif hint is None and re.search(rf"[?$]{re.escape(word)}\b", self.context.text):
            message = f'"{word}" is neither a keyword nor a variable'
            hint = f"Did you forget the question mark? Write ?{word}."
        elif hint is None and (meant := self._similar(word)):
            hint = meant
        elif hint is None and "VAR" in self.choices:
            hint = f"A variable begins with a question mark: ?{word}. A name has a colon: prefix:{word}."
        elif hint is None and "IRIREF" in self.choices:
            hint = f"A name has a colon (prefix:{word} or :{word}), an IRI stands in <…>."
        return TextFault(message, self.at, hint)

    def _similar(self, word: str) -> str | None:
        """Return a question that names the expected keywords that are similar to a word; None without any.

        A keyword of the language in a wrong place is not misspelt, so it has no similar keyword.
        """
        every = {plain(terminal.name) for terminal in self.grammar.terminals}
        if not _BARE_WORD.fullmatch(word) or word.upper() in keywords(self.grammar, every):
            return None
        choices = self.choices - EXTENSIONS if self.context.dialect == "sparql" else self.choices
        meant = did_you_mean(word, keywords(self.grammar, choices))
        if meant or self.context.dialect != "sparql" or "FILTER" not in choices:
            return meant or None
        if not did_you_mean(word, ["STREAM"]):
            return None
        return "Did you mean STREAM? It belongs to CQELS-QL, in continuous queries."

    def _end(self) -> TextFault:
        if not self.recovery.tokens:
            return TextFault("the query is empty", self.at, "Write SELECT, CONSTRUCT, ASK or DESCRIBE.")
        return TextFault(
            f"the query ends too early, expected {self.wanted}", self.at, _unclosed(self.context.text)
        )

    def _token_hint(self, token: str) -> str | None:
        if token == "=" and "COMPARE" not in self.choices and "VAR" in self.choices:
            return "Equality is a single =."
        if token == "{" and "LSQUARE" in self.choices and "VAR" not in self.choices:
            return "A window in square brackets stands before the brace."
        return None

    def _slip(self, token: Token) -> KnownMistake | None:
        """Return the known mistake whose sample text fails at the same token in the same parser state."""
        state = (self.recovery.position, token.type)
        error = UnexpectedToken(token, set(), state=state)  # type: ignore[no-untyped-call]

        def parse(sample: str) -> Tree[Token]:
            try:
                # The syntax node that the parser returns for a sample text is not used.
                return self.grammar.parse(sample)
            except UnexpectedToken as failed:
                position = failed.interactive_parser.parser_state.position
                failed.state = (position, failed.token.type)
                raise

        found: KnownMistake | None = error.match_examples(
            parse, slips_of(self.context.dialect), use_accepts=False
        )
        return found


def _char_hint(text: str, at: int) -> str | None:
    if text[at] == ",":
        return "Variables and patterns are separated by spaces and dots, not by commas."
    if text[at] in "&|" and text[at : at + 2] not in ("&&", "||"):
        return "Logical operators are && and ||."
    if text[at] == "\\":
        return "Escapes \\uXXXX stand only in strings and IRIs."
    return None


def _word_hint(context: Context, word: str) -> str | None:
    lower = word.lower()
    by_dialect = _DIALECT_WORDS.get(lower, {})
    hint = by_dialect.get(context.dialect) or by_dialect.get("*")
    if hint is not None:
        return hint
    if lower in _WORDS_FOR_OPERATORS:
        return f"Write {_WORDS_FOR_OPERATORS[lower]} instead of {word}."
    if lower in _UPDATE:
        return "This is an update, not a query: POST it to /update."
    if lower in _MISSPELT:
        return f"Write {_MISSPELT[lower]}."
    return None


def _unclosed(text: str) -> str | None:
    open_at: list[tuple[str, int]] = []
    pairs = {"}": "{", ")": "(", "]": "["}
    for mark in re.finditer(NOISE.pattern + r"|[{}()\[\]]", text):
        char = mark.group()
        if char in "{([":
            open_at.append((char, mark.start()))
        elif char in pairs and open_at and open_at[-1][0] == pairs[char]:
            open_at.pop()
    if not open_at:
        return None
    char, at = open_at[-1]
    place = place_of(text, at)
    return f"The {char} of line {place['line']}, column {place['column']} is not closed."


def _patterns(grammar: Lark) -> dict[str, str]:
    """Return the text of each grammar terminal that is a plain string, by the terminal's name."""
    return {
        plain(terminal.name): terminal.pattern.value
        for terminal in grammar.terminals
        if terminal.pattern.type == "str"
    }


def _undeclared_prefixes(context: Context, tokens: list[Token]) -> None:
    declared: set[str] = set()
    previous = ""
    for token in tokens:
        kind = plain(token.type)
        if kind == "PNAME_NS" and previous == "_PREFIX":
            declared.add(str(token[:-1]))
        elif kind in ("PNAME_NS", "PNAME_LN"):
            prefix = token.partition(":")[0]
            if prefix not in declared:
                declared.add(prefix)
                at = token.start_pos or 0
                hint = iri_without_brackets(prefix, context.text, at)
                hint = hint or f"Add PREFIX {prefix}: <{WELL_KNOWN.get(prefix, '…')}>"
                context.fault(f"the prefix {prefix}: is not declared", at, hint)
        previous = kind
