"""Parsing of RDF texts in any format into statements, with values in the canonical form of the store."""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from pyoxigraph import RdfFormat

from quadrill.store.errors import LimitError, RdfSyntaxError

from .element_terms import as_stored
from .nesting import deep_line_of_json, deep_line_of_turtle
from .parsing import parse_quads
from .rdf_xml import XmlLimits, check_rdf_xml
from .statements import LINE_FORMATS, read_statements, statements_of
from .stored_lines import term_too_long
from .subject_columns import Statements


class TextPosition(NamedTuple):
    """The position of a part of a document within the document, for error messages.

    The position says that the text begins in line ``first_line`` after ``lead`` added characters, or is a
    string within line ``within``.
    """

    first_line: int = 1
    lead: int = 0
    within: int | None = None


WHOLE = TextPosition()


class Content(NamedTuple):
    """The quads of a text, whether they may contain blank nodes, and the quads with values as written.

    A value and its canonical form may differ in whether they are a valid instant, so readers of times need
    both.
    """

    statements: Statements
    blank: bool
    as_written: Statements

    def by_graph(self) -> dict[str, Content]:
        """Return the quads by graph; default-graph quads about a graph name are grouped with that graph."""
        names = {graph for _, _, _, graph in self.statements}
        if "" not in names or len(names) == 1:
            keys = [graph for _, _, _, graph in self.statements]
        else:
            keys = [
                graph or (subject if subject in names else "") for subject, _, _, graph in self.statements
            ]
        members: dict[str, list[int]] = {}
        for place, key in enumerate(keys):
            members.setdefault(key, []).append(place)
        contents = {}
        for key, places in members.items():
            group = tuple([self.statements[place] for place in places])
            same = self.as_written is self.statements
            as_written = group if same else tuple([self.as_written[place] for place in places])
            contents[key] = Content(group, self.blank, as_written)
        return contents


def read_content(
    text: str,
    rdf_format: RdfFormat,
    part: TextPosition = WHOLE,
    *,
    base_iri: str,
    written_form_of: str | None,
    max_nesting: int,
    most: int,
) -> Content:
    """Return the quads of a text with values in the store's canonical form; blank nodes keep their labels.

    Args:
        text: the text.
        rdf_format: its format.
        part: the position of the text in its document.
        base_iri: the IRI against which relative IRIs are resolved.
        written_form_of: a predicate whose values are needed as written in the text.
        max_nesting: the maximum nesting depth.
        most: the maximum number of quads; the result has one more quad if the text has too many.

    Raises:
        RdfSyntaxError: the RDF text is malformed.
        LimitError: the RDF text nests too deeply.
    """
    lines = rdf_format in LINE_FORMATS
    if lines:
        exact = written_form_of is not None and written_form_of in text
        plain = read_statements(text.strip(" \t\r\n"), rdf_format, exact=exact)
        if plain is not None:
            rows = tuple(plain[0])
            return Content(rows, plain[1], rows)
    if rdf_format is RdfFormat.JSON_LD or "<<" in text:
        guard_nesting(text, max_nesting, json_text=rdf_format is RdfFormat.JSON_LD)
    if rdf_format is RdfFormat.RDF_XML:
        check_rdf_xml(text.encode(), XmlLimits(), part.first_line)
    try:
        quads = parse_quads(text.encode(), rdf_format, base_iri=None if lines else base_iri)
        # A text with few characters cannot have too many quads, so they are not counted.
        as_written = statements_of(quads if len(text) < most else islice(quads, most + 1))
    except MemoryError:
        raise term_too_long(rdf_format.name) from None
    except SyntaxError as error:
        raise _placed(error, rdf_format, part) from None
    except UnicodeEncodeError:
        what = f"line {part.within}, in its data" if part.within is not None else rdf_format.name
        raise RdfSyntaxError(f"{what}: half of a surrogate pair is no character", line=part.within) from None
    except ValueError as error:
        raise RdfSyntaxError(f"{rdf_format.name}: {error}", line=part.within) from None
    return Content(*as_stored(as_written), as_written)


def _placed(error: SyntaxError, rdf_format: RdfFormat, part: TextPosition) -> RdfSyntaxError:
    """Return a parser's error about a part of a document with its position in the document."""
    line, column = error.lineno, error.offset
    message, hint = explain_parser_message(
        re.sub(r"^Parser error at line [^:]*: ", "", error.msg or str(error))
    )
    if line is None:
        known = part.within if part == WHOLE or part.within is not None else part.first_line
        return RdfSyntaxError(f"{rdf_format.name}: {message}", line=known, hint=hint)
    if part.within is not None:
        where = f"line {part.within}, in its data at line {line}, column {column}"
        return RdfSyntaxError(f"{where}: {message}", line=part.within, hint=hint)
    if line == 1 and column is not None:
        column = max(1, column - part.lead)
    line += part.first_line - 1
    where = f"line {line}, column {column}"
    return RdfSyntaxError(f"{where}: {message}", line=line, column=column, hint=hint)


def explain_parser_message(message: str) -> tuple[str, str | None]:
    """Return a parser's message in words for the client, and a hint if there is one for this message."""
    if "LoadDocumentCallback" in message:
        return "a context of another server is not fetched", "Put the context itself in place of its address."
    if "IRI" in message and "scheme" in message:
        return message, "relative IRIs need a base"
    return message, None


def guard_nesting(text: str, limit: int, *, json_text: bool) -> None:
    """Refuse texts so deeply nested that a recursive parser would exhaust the stack; raise LimitError."""
    if sum(map(text.count, ("<<", "{", "[", "("))) <= limit:
        return
    line = deep_line_of_json(text, limit) if json_text else deep_line_of_turtle(text, limit)
    if line is not None:
        raise LimitError(
            f"nesting at line {line} is deeper than {limit}", code="nesting-too-deep", limit=limit, line=line
        )
