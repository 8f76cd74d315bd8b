"""What the parser expected and found, in words."""

from __future__ import annotations

from collections.abc import Iterable

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
MOST = 7


def plain(terminal: str) -> str:
    """A terminal's name without the name space of the grammar that it was imported from."""
    return terminal.replace("sparql__", "", 1)


def expected(terminals: Iterable[str], patterns: dict[str, str]) -> str:
    """``a variable, an IRI or FILTER``: at most a handful, the general before the special."""
    # FROM NOW - … is parsed only to be refused by its name: nobody is to be led to it.
    names = set(terminals) - {"PAST_WINDOW"}
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


def _word(name: str, patterns: dict[str, str]) -> str:
    if name in patterns:
        return f'"{patterns[name]}"'
    return _WORDS.get(name) or name.lstrip("_")


def found(text: str) -> str:
    """The unexpected text as the message quotes it."""
    shown = text if len(text) <= 40 else text[:37] + "…"
    return f"“{shown}”" if '"' in shown else f'"{shown}"'
