"""The tokens of texts: the one place where they are read, and what is asked of them.

Every text is measured on its way to Oxigraph (guard.py); the outer form of an update is read from the tokens
that pass by then. The other questions are those that must be answered for texts that no parser reads.
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
_LITERAL = rf'"(?:[^"\\\r\n]++|\\[^\r\n])*+"(?:@[A-Za-z0-9-]+|\^\^{_IRI})?'
_TERM = rf"(?:{_IRI}|{_LITERAL})"
_ROW = re.compile(rf"\({_TERM}(?: {_TERM})*\)")
_TERMS = re.compile(_TERM)
_HOLE = "()"
_MOST_READ = 100_000
"""Tokens that are looked through for a better explanation than the parser's."""
_SCHEME = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:")
_DECLARATIONS = {"BASE": 1, "PREFIX": 2, "VERSION": 1}
"""So many tokens follow the word of a declaration."""


def inspect_text(text: str, limits: TextLimits, check: Callable[[], None] = lambda: None) -> TextFacts:
    """Measure a query or update text; ``check`` as for `Inspection`.

    Raises:
        LimitError: the text is too long or nests too deeply.
        UnsupportedError: SERVICE with a variable; the host could not be checked.
        NetworkRefusedError: the text may hide a SERVICE or LOAD from this check.
    """
    if needs_no_scan(text, limits):
        return _SHORT
    check_length(text, limits)
    inspection = Inspection(text, limits, check)
    for _token in inspection.tokens():
        pass
    return inspection.facts()


def needs_no_scan(text: str, limits: TextLimits) -> bool:
    """True for a text that is too short to be high, since each step needs a character, and calls nobody."""
    return len(text) <= limits.inline_height and len(text) <= limits.height and not may_call(text)


class Inspection:
    """Reads the tokens of a text, and measures it while they pass by on their way to somebody else."""

    def __init__(self, text: str, limits: TextLimits, check: Callable[[], None] = lambda: None) -> None:
        """Nothing is read yet; ``check`` is called now and then, and ends the reading by an error."""
        self._text = text
        self._check = check
        self._limits = limits
        self._height = HeightMeter(text, limits.height)
        self._calls = CallFinder(text) if may_call(text) else None
        self._doubtful = False

    def tokens(self) -> Iterator[Token]:
        """All tokens of the text, each measured before it is given.

        Raises:
            LimitError, UnsupportedError, QueryTextError: as `inspect_text`.
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
        """What was found, when all have passed.

        Raises:
            LimitError, NetworkRefusedError: as `inspect_text`.
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
    """Texts that differ in rows of inline data alone, as the program writes them: judged once, not each time.

        SELECT ... WHERE { VALUES (?x) { (<a>) (<b>) } ?x <p> ?y }        judged:  SELECT ... { (<a>) } ...
        SELECT ... WHERE { VALUES (?x) { (<c>) ("d"@en) } ?x <p> ?y }     known

    A row whose every term is one token by the strict forms here opens nothing, closes nothing and calls
    nothing, and rows stand side by side, so the height of a text and the calls in it do not depend on them.
    Not thread-safe.
    """

    def __init__(
        self,
        limits: TextLimits,
        most: int = 500,
        inspect: Callable[[str, TextLimits], TextFacts] = inspect_text,
    ) -> None:
        """Know nothing yet.

        Args:
            limits: of each text.
            most: how many texts without their rows are remembered.
            inspect: judges a text.
        """
        self._limits = limits
        self._most = most
        self._inspect = inspect
        self._known: dict[str, TextFacts] = {}

    def facts_of(self, text: str, rows: Sequence[str]) -> TextFacts | None:
        """What `inspect_text` tells of a text; None when it must be asked for this very text.

        Args:
            text: a query.
            rows: rows of inline data, as they stand in it one behind the other with a space between.

        Raises:
            LimitError, UnsupportedError, NetworkRefusedError: as `inspect_text`.
        """
        if not rows or len(text) > self._limits.characters or not all(map(_ROW.fullmatch, rows)):
            return None
        block = " ".join(rows)
        frame = text.replace(block, _HOLE)
        facts = self._known.get(frame)
        if facts is None:
            if len(self._known) >= self._most:
                self._known.clear()
            # No term makes a row higher than an IRI does.
            highest = "(" + " ".join(["<x:x>"] * len(_TERMS.findall(rows[0]))) + ")"
            facts = self._known[frame] = self._inspect(text.replace(block, highest), self._limits)
        return facts


def query_form(source: str) -> str:
    """The form of a query by its first keyword that names one, of a text that nobody can parse, too."""
    forms = ("SELECT", "CONSTRUCT", "ASK", "DESCRIBE")
    return next((token.word.lower() for token in tokens(source) if token.word in forms), "select")


def query_prologue(text: str) -> str:
    """The declarations that a query begins with, as they stand there."""
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
    """How often each variable occurs in a text, in its order; and whether a SELECT shows all of its own."""
    counts: Counter[str] = Counter()
    select = everything = False
    for token in tokens(text):
        if token.kind is TokenKind.VAR:
            counts[token.text[1:]] += 1
        everything = everything or (select and token.text == "*")
        select = token.word == "SELECT" or (select and token.word in ("DISTINCT", "REDUCED"))
    return counts, everything


def first_mistake(text: str, base: bool, prefixes: Iterable[str]) -> tuple[Token, str, str] | None:
    """The first token that is wrong whatever stands around it, what it is, and how to mend it."""
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
