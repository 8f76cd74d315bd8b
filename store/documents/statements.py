"""Statements: quads as the text of their terms, read from N-Triples and N-Quads without making terms.

Only lines of the plainest form are read here, each term written as the store itself writes it: two spellings
of one quad would be two statements. Whatever else there is (comments, other white space, blank nodes, triple
terms, values that the store would change, IRIs of odd servers, mistakes) belongs to Oxigraph's parser. What
is read here that parser reads as well, and gives the same quads for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.store.terms import CANONICAL, XSD_DECIMAL, Term, term_text

Statement: TypeAlias = tuple[str, str, str, str]
"""Subject, predicate, object and graph of a quad, each as N-Quads writes it; the default graph is empty."""
Statements: TypeAlias = tuple[Statement, ...]

_CHARACTER = r"A-Za-z0-9\-._~!$&'()*+,;=:@/\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_PATH = rf"[{_CHARACTER}]*+(?:{_ESCAPED}[{_CHARACTER}]*+)*+"
_BEHIND = rf"[{_CHARACTER}?]*+(?:{_ESCAPED}[{_CHARACTER}?]*+)*+"
_SERVER = r"(?://[A-Za-z0-9\-._~]*+(?::[0-9]*+)?+(?=[/?#>])|(?!//))"
_IRI = rf"<[A-Za-z][A-Za-z0-9+.\-]*+:{_SERVER}{_PATH}(?:\?{_BEHIND})?+(?:\#{_BEHIND})?+>"
_PLAIN = r'[^"\\\x00-\x1f\x7f\ufffe\uffff]*+'
_STRING = rf'{_PLAIN}(?:\\[tbnrf"\\]{_PLAIN})*+"'
_LANGUAGE = r"@[a-z]{2,3}(?:-(?:[a-z]{2}|[0-9]{3}|[a-z]{4}))?+(?= )"
_VALUE = "|".join(rf'{pattern}"\^\^<{re.escape(datatype)}>' for datatype, pattern in CANONICAL.items())
_TRIPLE = rf'({_IRI}) ({_IRI}) ({_IRI}|"(?:{_VALUE}|{_STRING}(?:{_LANGUAGE}|(?= ))))'
_LINES = {
    False: re.compile(rf"{_TRIPLE}() \.\n"),
    True: re.compile(rf"{_TRIPLE}(?: ({_IRI}))?+ \.\n"),
}
# Prices and coordinates end with zeros again and again.
_ROUND = f'0"^^{XSD_DECIMAL}'
_WHOLE = "-?(?:0|[1-9][0-9]{0,8}+)"
_ROUND_DECIMAL = re.compile(
    rf' "({_WHOLE}\.[0-9]{{0,8}}[1-9](?=0)|{_WHOLE}(?=\.0))\.?0++"\^\^{re.escape(str(XSD_DECIMAL))}'
)
_ESCAPE = re.compile(r"\\(.)")
_MEANT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def read_statements(text: str, *, graphs: bool, exact: bool = False) -> Sequence[Statement] | None:
    """The statements of a text in their order; None when all of it is to be given to a parser.

    Args:
        text: whole lines; the last one may do without its end.
        graphs: the text is N-Quads, not N-Triples.
        exact: values that are not in the store's form are not to be changed.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if not text.endswith("\n"):
        text += "\n"
    if not exact and _ROUND in text:
        text = _ROUND_DECIMAL.sub(_shortened, text)
    line = _LINES[graphs]
    match = line.match(text)
    if match is None:
        return None
    if match.end() == len(text):
        return (match.groups(""),)  # type: ignore[return-value]  # it has four groups
    found: list[Statement] = line.findall(text)
    # A search passes over what does not fit: then the lines found do not add up to the text.
    named = sum([1 for each in found if each[3]]) if graphs else 0
    size = sum(map(len, chain.from_iterable(found))) + 5 * len(found) + named
    return found if size == len(text) else None


def _shortened(match: re.Match[str]) -> str:
    return f' "{match[1]}"^^{XSD_DECIMAL}'


def statements_of(quads: Iterable[Quad]) -> Statements:
    """Each of some quads as the text of its terms."""
    found = []
    for subject, predicate, value, graph in quads:
        about = term_text(subject) if type(subject) is Triple else str(subject)
        told = term_text(value) if type(value) is Triple else str(value)
        found.append((about, str(predicate), told, "" if type(graph) is DefaultGraph else str(graph)))
    return tuple(found)


def quads_of(statements: Iterable[Statement]) -> list[Quad]:
    """The quads of some statements, in their order."""
    text = lines_of(statements)
    return list(parse(text, RdfFormat.N_QUADS, lenient=True, rename_blank_nodes=False)) if text else []


def lines_of(statements: Iterable[Statement]) -> str:
    """Statements as N-Quads, a line each."""
    return "".join(
        [f"{s} {p} {o} {g} .\n" if g else f"{s} {p} {o} .\n" for s, p, o, g in statements],
    )


def term_of(text: str) -> Term:
    """The term that is written so."""
    first = text[0]
    if first == "<" and text[1] != "<":
        return NamedNode(text[1:-1])
    if first == "_":
        return BlankNode(text[2:])
    if first != '"':
        return quads_of([("<urn:s>", "<urn:p>", text, "")])[0].object
    value, kind = literal_parts(text)
    if not kind:
        return Literal(value)
    if kind[0] == "@":
        language, _, direction = kind[1:].partition("--")
        if direction:
            return quads_of([("<urn:s>", "<urn:p>", text, "")])[0].object
        return Literal(value, language=language)
    return Literal(value, datatype=NamedNode(kind[3:-1]))


def literal_parts(text: str) -> tuple[str, str]:
    """The value of a literal, and what stands behind its quotation marks."""
    end = text.rindex('"')
    value = text[1:end]
    if "\\" in value:
        value = _ESCAPE.sub(_meant, value)
    return value, text[end + 1 :]


def _meant(match: re.Match[str]) -> str:
    return _MEANT.get(match[1], match[1])
