"""Statements: quads as the text of their terms, read from N-Triples and N-Quads without making terms.

Only lines in canonical form are read here, with each term written as the store writes it: two spellings of
one quad would be two statements. All texts but lines in canonical form (comments, other white space, triple
terms, values that the store would change, unusual IRIs and labels, syntax errors) are left to Oxigraph's
parser. For lines in canonical form, Oxigraph's parser gives the same quads as this reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import repeat
from typing import TypeAlias

from pyoxigraph import Quad, RdfFormat, serialize

from quadrill.store.terms import CANONICAL, XSD_DECIMAL, Term

from .element_shapes import ElementShapes
from .stored_lines import parse_stored_quads, plain_term
from .subject_columns import MOST_KNOWN, PredicateList, Statement, Statements, SubjectColumns, predicates_of

_CHARACTER = r"A-Za-z0-9\-._~!$&'()*+,;=:@/\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_PATH = rf"[{_CHARACTER}]*+(?>{_ESCAPED}[{_CHARACTER}]*+)*+"
_BEHIND = rf"[{_CHARACTER}?]*+(?>{_ESCAPED}[{_CHARACTER}?]*+)*+"
_SERVER = r"(?://[A-Za-z0-9\-._~]*+(?>:[0-9]*+)?+(?=[/?#>])|(?!//))"
_IRI = rf"<[A-Za-z][A-Za-z0-9+.\-]*+:{_SERVER}{_PATH}(?>\?{_BEHIND})?+(?>\#{_BEHIND})?+>"
_PLAIN = r'[^"\\\x00-\x1f\x7f\ufffe\uffff]*+'
_STRING = rf'{_PLAIN}(?>\\[tbnrf"\\]{_PLAIN})*+"'
_LANGUAGE = r"@[a-z]{2,3}(?>-(?:[a-z]{2}|[0-9]{3}|[a-z]{4}))?+(?= )"
_VALUE = "|".join(rf'{pattern}"\^\^<{re.escape(datatype)}>' for datatype, pattern in CANONICAL.items())
_NODE = rf"{_IRI}|_:[A-Za-z0-9_][A-Za-z0-9_\-]*+"
_OBJECT = rf'"(?:{_VALUE}|{_STRING}(?:{_LANGUAGE}|(?= )))'

LINE_FORMATS = (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS)
"""The RDF formats whose lines in canonical form are read without Oxigraph's parser."""


_Columns: TypeAlias = tuple[PredicateList | tuple[str, ...], tuple[str, ...]]


class _Lines(dict[RdfFormat, re.Pattern[str]]):
    """Regular expressions by RDF format for a line in canonical form; their groups are the terms.

    The regular expression for lines is compiled at its first use, because this takes 50 ms and few processes
    need it.
    """

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def __missing__(self, rdf_format: RdfFormat) -> re.Pattern[str]:
        node = self._node
        triple = rf"^({node}) ({_IRI}) ({node}|{_OBJECT})"
        graph = "()" if rdf_format is RdfFormat.N_TRIPLES else f"(?> ({node}))?+"
        pattern = self[rdf_format] = re.compile(rf"{triple}{graph} \.(?:\n|\Z)", re.MULTILINE)
        return pattern


PLAIN_LINE = _Lines(_IRI)
"""Expressions for lines without blank nodes; an alternative for blank nodes would cost a tenth more time."""
_LINE = _Lines(_NODE)


class _Predicates(dict[str, str]):
    """Cache of predicate IRIs by their text, so that equal predicates are one string object."""

    def __init__(self) -> None:
        super().__init__()
        self._is_iri = re.compile(_IRI).fullmatch
        # Matches IRIs and literals, each followed by a space and a line break.
        self._objects = re.compile(rf"(?>(?:{_IRI}|{_OBJECT}) \n)++").fullmatch
        self.shapes = ElementShapes(self._is_iri, _PLAIN, CANONICAL)
        # The predicate list of the last statements read, by first predicate.
        self._behind: dict[str, PredicateList] = {}

    def __missing__(self, text: str) -> str:
        if self._is_iri(text) is None:
            raise KeyError(text)
        if len(self) >= MOST_KNOWN:
            self.clear()
            self._behind.clear()
        self[text] = text
        return text

    def line_by_line(self, text: str, subject: str) -> _Columns | None:
        """Return predicates and objects of lines about the subject; None if a line does not match."""
        parts = text[len(subject) + 1 : -2].split(f" .\n{subject} ")
        if text[-2:] != " ." or text.count("\n") >= len(parts):
            return None
        try:
            predicates, objects = self._cut(parts)
        except KeyError:
            return None
        if not self._objects(" \n".join([subject, *objects, ""])):
            return None
        if isinstance(predicates, PredicateList):
            self.shapes.learn(predicates, objects)
        return predicates, objects

    def _cut(self, parts: list[str]) -> _Columns:
        """Return predicates and objects of lines without subject; short predicate lists are shared objects.

        Raises:
            KeyError: a predicate in the lines is not an IRI.
        """
        first = parts[0][: parts[0].find(" ")]
        known = self._behind.get(first)
        if (
            known is not None
            and len(parts) == len(known.line_starts)
            and all(map(str.startswith, parts, known.line_starts))
        ):
            return known, tuple(map(str.removeprefix, parts, known.line_starts))
        cut = [part.partition(" ") for part in parts]
        texts = tuple([self[predicate] for predicate, _, _ in cut])
        objects = tuple([object_ for _, _, object_ in cut])
        known = predicates_of(texts)
        if known is None:
            return texts, objects
        self._behind[first] = known
        return known, objects


@cache
def _predicates() -> _Predicates:
    """Return the cache of predicate IRIs, which is created at its first use."""
    return _Predicates()


STORED_VALUE = re.compile(rf'"(?:{_VALUE})').fullmatch
"""Matches typed literals that are certainly in the store's canonical form."""
# Prices and coordinates often end with zeros, which the canonical form of decimals lacks.
_ROUND = f'0"^^{XSD_DECIMAL}'
_WHOLE = "-?(?:0|[1-9][0-9]{0,8}+)"
_ROUND_DECIMAL = re.compile(
    rf' "({_WHOLE}\.[0-9]{{0,8}}[1-9](?=0)|{_WHOLE}(?=\.0))\.?0++"\^\^{re.escape(str(XSD_DECIMAL))}'
)
_WRITTEN = re.compile(
    r'([^ ]++) ([^ ]++) ("[^"\\]*+(?>\\.[^"\\]*+)*+"[^ ]*+|<<.*\)>>|[^ ]++) (?:([^ .][^ ]*+) )?\.\n'
)
"""Matches a line of N-Quads as Oxigraph writes it: only strings and triple terms contain spaces."""


def may_have_blank(text: str) -> bool:
    """Return True if an N-Quads text may contain a blank node."""
    return "_" in text and "_:" in text  # the search for the one character _ is a hundred times as fast


def read_statements(
    text: str, rdf_format: RdfFormat, *, exact: bool = False
) -> tuple[Statements, bool] | None:
    """Return the statements of lines in their order, and whether a blank node may be among their terms.

    The result None means that Oxigraph's parser has to read the text. With ``exact``, the result is None also
    for values that are not in the store's canonical form.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    columns = _of_one_subject(text)
    if columns is not None:
        return columns, False
    if not exact and _has_round(text):
        text = _ROUND_DECIMAL.sub(_shortened, text)
    statements = _lines_of(text, PLAIN_LINE[rdf_format])
    if statements is not None:
        return statements, False
    statements = _lines_of(text, _LINE[rdf_format]) if may_have_blank(text) else None
    return None if statements is None else (statements, True)


def _lines_of(text: str, line: re.Pattern[str]) -> Statements | None:
    """Return the statements of a text whose lines all have the canonical form; None for another text."""
    match = line.match(text)
    if match is None:
        return None
    if match.end() == len(text):
        return (match.groups(""),)  # type: ignore[return-value]  # it has four groups
    statements: list[Statement] = line.findall(text)
    # A regular expression search skips lines that do not match: then there are fewer statements than lines.
    lines = text.count("\n") + (text[-1] != "\n")
    return tuple(statements) if len(statements) == lines else None


def _of_one_subject(text: str) -> Statements | None:
    """Return the statements of several lines about one IRI; None for another text."""
    subject = text[: text.find(" ")]
    if text[:1] != "<" or not text.startswith(f"{subject} ", text.find("\n") + 1 or len(text)):
        return None
    text, known = text.rstrip("\n"), _predicates()
    columns = known.shapes.read(text, subject) or known.line_by_line(text, subject)
    if columns is None:
        return None
    predicates, objects = columns
    if isinstance(predicates, PredicateList):
        # A line of a statement has three spaces, a dot and, except for the last line, a line break.
        return SubjectColumns(subject, predicates, objects, len(text) - 5 * len(objects) + 1)
    return tuple(zip(repeat(subject), predicates, objects, repeat("")))


def _has_round(text: str) -> bool:
    """Return True if a decimal ends with a zero after its point; whole numbers such as "10" are canonical."""
    end = text.find(_ROUND)
    while end >= 0:
        if "." in text[text.rfind('"', 0, end) : end]:
            return True
        end = text.find(_ROUND, end + 1)
    return False


def _shortened(match: re.Match[str]) -> str:
    return f' "{match[1]}"^^{XSD_DECIMAL}'


def statements_of(quads: Iterable[Quad]) -> tuple[Statement, ...]:
    """Return each quad as a statement, the N-Quads texts of its terms."""
    # Oxigraph serialises all quads faster than Python reads the terms of one quad.
    text = to_lines(quads).decode()
    statements: list[Statement] = _WRITTEN.findall(text)
    assert len(statements) == text.count("\n"), "a line that Oxigraph writes otherwise"
    return tuple(statements)


def quads_of(statements: Iterable[Statement]) -> list[Quad]:
    """Return the quads of statements (the texts of their terms), in order."""
    return parse_stored_quads(lines_of(statements).encode())


def to_lines(quads: Iterable[Quad]) -> bytes:
    """Return quads as N-Quads lines, in their order."""
    written = serialize(quads, format=RdfFormat.N_QUADS)
    assert written is not None
    return written


def read_lines(lines: bytes) -> tuple[Statement, ...]:
    """Return the statements of the N-Quads lines that `lines_of` wrote."""
    text = lines.decode()
    parsed = read_statements(text, RdfFormat.N_QUADS, exact=True) if text else ((), False)
    return statements_of(parse_stored_quads(lines)) if parsed is None else tuple(parsed[0])


def lines_of(statements: Iterable[Statement]) -> str:
    """Return statements as N-Quads, one line each."""
    return "".join(
        [f"{s} {p} {o} {g} .\n" if g else f"{s} {p} {o} .\n" for s, p, o, g in statements],
    )


def term_of(text: str) -> Term:
    """Return the RDF term of an N-Quads text."""
    if text.startswith("<<"):
        return quads_of([("<urn:s>", "<urn:p>", text, "")])[0].object
    return plain_term(text)
