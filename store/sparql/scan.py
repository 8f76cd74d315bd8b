"""Scans of the tokens of SPARQL texts: the guard's inspection, and facts about texts that no parser reads.

Every SPARQL text is inspected on its way to Oxigraph (guard.py). The splitter of updates reads the same token
stream, so that an update is tokenised once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from ..errors import LimitError
from .guard import CallFinder, TextFacts, TextLimits, check_length, may_call
from .height import HeightMeter, too_high
from .tokens import TOKENS_BETWEEN_CHECKS, Token, TokenKind, is_doubtful, tokens

_STRUCTURE = "{([.;,|&+-*/"
_SHORT = TextFacts(0, ())
_IRI = r'<[^\x00-\x20<>"{}|^`\\]*>'
_LITERAL = rf'"(?>[^"\\\r\n]++|\\[^\r\n])*+"(?:@[A-Za-z0-9-]+|\^\^{_IRI})?'
_TERM = rf"(?:{_IRI}|{_LITERAL})"
_ROW = re.compile(rf"\({_TERM}(?: {_TERM})*\)")
_TERMS = re.compile(_TERM)
_HOLE = "()"
_MOST_READ = 100_000
"""Maximum number of a text's tokens that are searched for a better error message than the parser's."""
_SCHEME = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:")
_DECLARATIONS = {"BASE": 1, "PREFIX": 2, "VERSION": 1}
"""The number of tokens that follow the keyword of a prologue declaration (PREFIX, BASE, VERSION)."""


def inspect_text(text: str, limits: TextLimits, check: Callable[[], None] = lambda: None) -> TextFacts:
    """Return the guard's findings about a query or update text.

    The function ``check`` is called between tokens now and then, and may raise an error to end the
    inspection.

    Raises:
        LimitError: the text is too long or nests too deeply.
        UnsupportedError: SERVICE has a variable, so that its host cannot be checked.
        QueryTextError: Oxigraph would read a SERVICE call inside a longer word.
        NetworkRefusedError: the text may hide a SERVICE or LOAD call from the guard.
    """
    if needs_no_scan(text, limits):
        return _SHORT
    check_length(text, limits)
    inspection = Inspection(text, limits, check)
    for _token in inspection.tokens():
        pass
    return inspection.facts()


def needs_no_scan(text: str, limits: TextLimits) -> bool:
    """Return True if a text has no SERVICE or LOAD and at most as many characters as levels are allowed.

    Each level of a syntax tree needs at least one character, so a short text cannot be too high.
    """
    return len(text) <= limits.inline_height and len(text) <= limits.height and not may_call(text)


class Inspection:
    """Passes the tokens of a SPARQL text on to a caller, and inspects each token on the way."""

    def __init__(self, text: str, limits: TextLimits, check: Callable[[], None] = lambda: None) -> None:
        """Prepare the inspection of a SPARQL text.

        Args:
            text: a SPARQL query or update.
            limits: limits on the text.
            check: called every `TOKENS_BETWEEN_CHECKS` tokens; an error that it raises ends the inspection.
        """
        self._text = text
        self._check = check
        self._limits = limits
        self._height = HeightMeter(text, limits.height)
        self._calls = CallFinder(text) if may_call(text) else None
        self._doubtful = False

    def tokens(self) -> Iterator[Token]:
        """Iterate over all tokens of the SPARQL text; each token is inspected before it is yielded.

        Raises:
            LimitError: the text nests too deeply or has too many tokens.
            UnsupportedError: SERVICE has a variable.
            QueryTextError: Oxigraph would read a SERVICE call inside a longer word.
        """
        token_stream = tokens(self._text)
        return token_stream if needs_no_scan(self._text, self._limits) else self._measured(token_stream)

    def _measured(self, token_stream: Iterator[Token]) -> Iterator[Token]:
        height, calls, previous = self._height, self._calls, None
        for number, token in enumerate(token_stream):
            if not number % TOKENS_BETWEEN_CHECKS:
                self._check()
                if number > self._limits.tokens:
                    raise LimitError(
                        f"the text has more than {self._limits.tokens:,} tokens",
                        hint="send large data as RDF to the graph store, not inside an update",
                    )
            height.add_token(token)
            if calls is not None:
                calls.add_token(token)
            self._doubtful = self._doubtful or is_doubtful(self._text, token, previous)
            previous = token
            yield token

    def facts(self) -> TextFacts:
        """Return the guard's findings about the text, after the caller has read all tokens.

        Raises:
            LimitError: the text may nest too deeply.
            NetworkRefusedError: the text may hide a SERVICE or LOAD call from the guard.
        """
        text, limit, measured = self._text, self._limits.height, self._height.measured()
        if self._doubtful:
            if self._calls is not None:
                self._calls.require_nothing_hidden()
            if sum(map(text.count, _STRUCTURE)) > limit:
                raise too_high(text, limit, 0)
            measured = max(measured, min(len(text), limit))
        calls = () if self._calls is None else tuple(self._calls.services)
        return TextFacts(measured, tuple(call.token for call in calls), calls)


class SimilarTexts:
    """A cache of the guard's findings for generated texts that differ only in their rows of inline data.

        SELECT ... WHERE { VALUES (?x) { (<a>) (<b>) } ?x <p> ?y }        inspected:  SELECT ... { (<a>) } ...
        SELECT ... WHERE { VALUES (?x) { (<c>) ("d"@en) } ?x <p> ?y }     found in the cache

    A text's rows of inline data are ignored by the cache only if each of their terms is one token of a strict
    form: such a row opens no bracket and calls no service, so the height and the calls of a text do not
    depend on its rows. The cache of findings is not thread-safe.
    """

    def __init__(
        self,
        limits: TextLimits,
        most: int = 500,
        inspect: Callable[[str, TextLimits], TextFacts] = inspect_text,
    ) -> None:
        """Create an empty cache of the guard's findings.

        Args:
            limits: limits on each text.
            most: maximum number of cached texts (without their rows).
            inspect: the function that inspects a text.
        """
        self._limits = limits
        self._most = most
        self._inspect = inspect
        self._known: dict[str, TextFacts] = {}

    def facts_of(self, text: str, rows: Sequence[str]) -> TextFacts | None:
        """Return the guard's findings about a text; None if the caller must inspect this very text.

        Args:
            text: a query.
            rows: the rows of inline data; the text contains them in this order, with one space between rows.

        Raises:
            LimitError, UnsupportedError, QueryTextError, NetworkRefusedError: the errors of `inspect_text`.
        """
        if not rows or len(text) > self._limits.characters or not all(map(_ROW.fullmatch, rows)):
            return None
        block = " ".join(rows)
        frame = text.replace(block, _HOLE)
        facts = self._known.get(frame)
        if facts is None:
            if len(self._known) >= self._most:
                self._known.clear()
            # A row of IRIs is as high as a row of any other terms, so one inspection holds for all rows of
            # inline data.
            highest = "(" + " ".join(["<x:x>"] * len(_TERMS.findall(rows[0]))) + ")"
            facts = self._known[frame] = self._inspect(text.replace(block, highest), self._limits)
        return facts


def query_form(source: str) -> str:
    """Return the query form of a SPARQL text (``select``, ``construct`` ...), even of a malformed text.

    The first keyword that names a query form decides; a text without such a keyword is a ``select``.
    """
    forms = ("SELECT", "CONSTRUCT", "ASK", "DESCRIBE")
    return next((token.word.lower() for token in tokens(source) if token.word in forms), "select")


def query_prologue(text: str) -> str:
    """Return the prologue of a query: the text before its first token that is no declaration."""
    left = 0
    for token in tokens(text):
        if left:
            left -= 1
        elif token.word in _DECLARATIONS:
            left = _DECLARATIONS[token.word]
        else:
            return text[: token.start]
    return text


def occurrences(text: str) -> tuple[Counter[str], bool]:
    """Return how often each variable occurs in a text, in order, and whether the text has a ``SELECT *``."""
    counts: Counter[str] = Counter()
    select = everything = False
    for token in tokens(text):
        if token.kind is TokenKind.VAR:
            counts[token.text[1:]] += 1
        everything = everything or (select and token.text == "*")
        select = token.word == "SELECT" or (select and token.word in ("DISTINCT", "REDUCED"))
    return counts, everything


def template_graphs(text: str) -> tuple[dict[str, None], bool]:
    """Return the graph names in an update's template, as written, and whether triples stand outside of GRAPH.

    The argument ``text`` is the template with its outer braces.
    """
    named: dict[str, None] = {}
    outside = after_graph = False
    depth = 0
    for token in tokens(text):
        if token.kind is TokenKind.PUNCT and token.text in "{}":
            depth += 1 if token.text == "{" else -1
        elif depth == 1 and after_graph:
            after_graph = False
            if token.kind in (TokenKind.IRI, TokenKind.PNAME):
                named[token.text] = None
        elif depth == 1 and token.word == "GRAPH":
            after_graph = True
        elif depth == 1 and token.text != ".":
            outside = True
    return named, outside


def first_mistake(text: str, base: bool, prefixes: Iterable[str]) -> tuple[Token, str, str] | None:
    """Return a text's first undeclared prefix or relative IRI without base: token, mistake and hint.

    Return None if the first `_MOST_READ` tokens have no such mistake.
    """
    declared = set(prefixes)
    previous: Token | None = None
    for token in islice(tokens(text), _MOST_READ):
        before = previous.word if previous is not None else ""
        previous = token
        if token.kind is TokenKind.PNAME:
            prefix = token.text.partition(":")[0]
            if before == "PREFIX":
                declared.add(prefix)
            elif prefix not in declared:
                return (
                    token,
                    f"the prefix {prefix}: is not declared",
                    f"add PREFIX {prefix}: <...> at the beginning",
                )
        elif token.kind is TokenKind.IRI and before == "BASE":
            base = True
        elif token.kind is TokenKind.IRI and not base and not _SCHEME.match(token.text):
            return token, f"the relative IRI {token.text} has no base", "write the full IRI, or declare BASE"
    return None
