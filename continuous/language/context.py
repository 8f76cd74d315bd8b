"""The context of one translation: text, dialect, limits, parameters and the faults found so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.nodes import Service, Var
from ..algebra.query import Dialect

# Words in comments, strings and IRIs are no keywords, so these parts of a query text are blanked before
# keywords are searched. An unclosed string is matched up to the end of its line or text, so that no part of
# the text is scanned twice.
NOISE = re.compile(
    r'"""(?>[^"\\]++|\\[\s\S]|"(?!""))*+(?>""")?+|\'\'\'(?>[^\'\\]++|\\[\s\S]|\'(?!\'\'))*+(?>\'\'\')?+'
    r'|"(?>[^"\n\r\\]++|\\.)*+"?+|\'(?>[^\'\n\r\\]++|\\.)*+\'?+|<[^\x00-\x20<>"{}|^`]*+>|#[^\n\r]*+'
)
_WORD = r"(?:<>|[^\s<>\[\]{}()?$:]{0,200}+:[^\s\[\]{}()]{0,2000}+)"
_WINDOW_WORD = r"(?:RANGE|NOW|TRIPLES|ALL|LATEST|SESSION)\b"
_RULES: tuple[tuple[Dialect, str], ...] = (
    ("rspql", r"\bFROM\s++NAMED\s++WINDOW\b"),
    ("csparql", r"\bFROM\s++STREAM\b"),
    ("cqels", rf"(?<![\w?$:])STREAM\s*+(?:{_WORD}|[?$]\w{{1,200}}+)\s*+\["),
    ("cqels", r"(?<![\w?$:])STREAM\s*+\["),
    ("cqels", rf"\bFROM\s++NAMED\s*+{_WORD}\s*+\["),
    ("rspql", r"\bREGISTER\s++[RID]STREAM\b"),
    ("csparql", r"\bREGISTER\s++QUERY\b"),
    ("rspql", rf"(?<![\w?$:])WINDOW\s*+(?:{_WORD}|[?$]\w{{1,200}}+)\s*+\{{"),
    ("rspql", rf"\bREGISTER\s++STREAM\s*+{_WORD}"),
    ("csparql", r"\bREGISTER\s++STREAM\b"),
    ("rspql", r"\bREGISTER\b"),
    # A STREAM block without a window is taken for CQELS-QL, too, because the error "the window is missing"
    # helps more than "STREAM is no word of SPARQL".
    ("cqels", rf"(?<![\w?$:])STREAM\s*+(?:{_WORD}|[?$]\w{{1,200}}+)\s*+\{{"),
    # A stream's name without a colon, or a window in round or missing brackets, also makes a text CQELS-QL.
    ("cqels", rf"(?<![\w?$:])STREAM\s++(?:[^\s\[\](){{}}]{{1,2000}}+\s*+|)(?:[\[({{]|{_WINDOW_WORD})"),
)


def detect_dialect(text: str) -> Dialect:
    """Return the dialect of a text by its keywords; ``sparql`` if it has no window and no REGISTER."""
    words = NOISE.sub(_blank, text)
    for dialect, pattern in _RULES:
        if re.search(pattern, words, re.IGNORECASE):
            return dialect
    return "sparql"


def _blank(found: re.Match[str]) -> str:
    return "<>" if found.group().startswith("<") else " "


@dataclass(frozen=True, slots=True)
class LanguageLimits:
    """Limits on the size of a query text.

    Attributes:
        characters: maximum length of the text.
        nesting: maximum number of brackets of all kinds that are open at the same time.
        patterns: maximum number of triple patterns, paths and groups together.
        operators: maximum nesting depth of operators in expressions and in the algebra, which also bounds the
            recursion of all code that traverses them.
    """

    characters: int = 200_000
    nesting: int = 64
    patterns: int = 5_000
    operators: int = 200


_MOST_FAULTS = 100


@dataclass(frozen=True, slots=True)
class TextFault:
    """One fault of a query text at an offset.

    ``of_scope`` is True if the fault breaks a scope rule of variables or labels.
    """

    message: str
    at: int
    hint: str | None = None
    code: str | None = None
    of_scope: bool = False


@dataclass(slots=True)
class Context:
    """State that the steps of a query text's translation share; it is discarded after the translation."""

    text: str
    dialect: Dialect
    base_iri: str
    parameters: Mapping[str, Any]
    limits: LanguageLimits
    faults: list[TextFault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unsupported: list[TextFault] = field(default_factory=list)
    found_parameters: dict[str, None] = field(default_factory=dict)
    named_aliases: dict[str, None] = field(default_factory=dict)
    window_variables: dict[str, NamedNode] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    patterns: int = 0
    _hidden: int = 0
    _labels: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._labels = frozenset(re.findall(r"_:[\w.]+", self.text)) if "_:" in self.text else frozenset()

    @property
    def continuous(self) -> bool:
        """True if the dialect of the query text has windows."""
        return self.dialect != "sparql"

    def fault(
        self,
        message: str,
        at: int,
        hint: str | None = None,
        code: str | None = None,
        *,
        of_scope: bool = False,
    ) -> None:
        """Record a fault of the query text without raising it, so that many faults are reported together.

        Up to a hundred faults of a query text are reported together.
        """
        if len(self.faults) < _MOST_FAULTS and not any(
            known.at == at and known.message == message for known in self.faults
        ):
            self.faults.append(TextFault(message, at, hint, code, of_scope))

    def missing(self, construct: str, at: int, hint: str | None = None) -> None:
        """Record a construct of the query text that is correct but unsupported.

        After recorded unsupported constructs, `parse` raises UnsupportedError if the text has no faults.
        """
        self.unsupported.append(TextFault(construct, at, hint))

    def warn(self, sentence: str) -> None:
        """Record a warning for the user, unless the same sentence is already recorded."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def hidden(self) -> Var:
        """Return a new hidden variable for a blank node or an intermediate value of the query."""
        while True:
            self._hidden += 1
            name = f"_:q{self._hidden}"
            if name not in self._labels:
                return Var(name)

    def count_pattern(self, at: int) -> None:
        """Count one pattern of the text, and add a fault if the text has too many patterns."""
        self.patterns += 1
        if self.patterns == self.limits.patterns + 1:
            self.fault(
                f"the query has more than {self.limits.patterns} patterns",
                at,
                "Split it into several queries.",
                "limit",
            )


_MARK = re.compile(NOISE.pattern + r"|<<|>>|[{}()\[\]]")
_OPENERS = ("{", "(", "[", "<<")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_size(context: Context) -> None:
    """Add a fault if the text is too long, nests too deeply or contains unpaired surrogates.

    Deep nesting of a query would exhaust the stack of code that traverses the query later. Oxigraph's parser,
    which receives parts of the query, overflows at about 2,200 nested groups.
    """
    text, limits = context.text, context.limits
    if len(text) > limits.characters:
        context.fault(
            f"the query has {len(text)} characters, at most {limits.characters} are allowed",
            limits.characters,
            "Load long lists of values into a graph and query that.",
            "limit",
        )
        return
    found = _SURROGATE.search(text)
    if found is not None:
        context.fault(f"U+{ord(found.group()):04X} is half a character, not one", found.start())
        return
    depth = 0
    for mark in _MARK.finditer(text):
        word = mark.group()
        if word in _OPENERS or _is_open(word):
            # The grammar reads an unclosed long string as an empty short string followed by more tokens, so
            # the brackets inside the unclosed string count.
            depth += 1 if word in _OPENERS else sum(map(word.count, _OPENERS))
            if depth > limits.nesting:
                context.fault(
                    f"brackets are nested more than {limits.nesting} deep",
                    mark.start(),
                    "Flatten the query or split it.",
                    "limit",
                )
                return
        elif word in ("}", ")", "]", ">>"):
            depth = max(0, depth - 1)


def _is_open(word: str) -> bool:
    return word[:3] in ('"""', "'''") and (len(word) < 6 or word[-3:] != word[:3])
