"""Generated Python functions for JSON-LD mappings; one function serves all node objects with the same keys.

    def node(writing, fields):          # adds the statements of a node, returns the node's text
        x0, x1 = fields.values()
        subject = reference(x0)         # the value of the key @id, or else a new blank node
        kind = type(x1)
        if kind is str: value = texts[x1]
        ...
        found.append((subject, p1, value, ""))

A generated function for JSON-LD node objects converts strings, numbers and nested objects itself and leaves
other JSON values to the module `jsonld`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from quadrill.store.documents.subject_columns import Statement

from ...expressions.emitter import Emitter
from .context import Term, node_text
from .limits import LONG
from .texts import INTEGER


class StatementWriter(Protocol):
    """Collector of the statements of one record, as functions generated for a JSON-LD context call it."""

    found: list[Statement]

    def long(self, text: str) -> bool: ...  # noqa: D102

    def blank(self) -> str:
        """Return the text of a new blank node."""

    def property(self, subject: str | None, term: Term, value: Any) -> None:
        """Add the statements of a record's property with a value of any JSON type."""

    def types(self, subject: str | None, value: Any) -> None:
        """Add an rdf:type statement for each type of a node."""

    def reference(self, value: Any) -> str | None:
        """Return the text of an IRI that a record contains."""


Node: TypeAlias = Callable[[StatementWriter, Mapping[str, Any]], str | None]
_MOST_KEYS = 64
_SMALL = 10**18
"""Whole numbers of a record between -10^18 and 10^18 become xsd:integer without further checks."""


def node_function(terms: Sequence[Term | None], names: Mapping[str, Any]) -> Node | None:
    """Generate the function for node objects whose keys mean ``terms``; None if only `jsonld` fits.

    ``names`` holds the globals of the function: ``texts``, ``numbers``, ``references`` and ``vocabulary`` map
    a value to its text, ``typed`` and ``in_language`` are called for a text, ``node_of`` returns the `Node`
    of an object or None.
    """
    read = [(place, term) for place, term in enumerate(terms) if term is not None and term.iri is not None]
    if len(terms) > _MOST_KEYS or any(_is_strange(term) for _, term in read):
        return None
    out = Emitter(names)
    out.depth = 1
    out.line(f"{''.join(f'x{place}, ' for place in range(len(terms))) or '()'} = fields.values()")
    ids = [place for place, term in read if term.iri == "@id"]
    out.line(f"subject = writing.reference(x{ids[0]})" if ids else "subject = writing.blank()")
    out.line("add = writing.found.append")
    for place, term in read:
        if term.iri == "@type":
            out.line(f"writing.types(subject, x{place})")
        elif term.iri != "@id":
            out.line(*_property(place, term, out.names))
    out.line("return subject")
    made: Node = out.build("def node(writing, fields):", "node")
    return made


def _is_strange(term: Term) -> bool:
    return str(term.iri).startswith("@") and term.iri not in ("@id", "@type")


def _property(place: int, term: Term, given: dict[str, Any]) -> list[str]:
    """Return the lines of code that add the statements for the values of one key."""
    value, predicate, of = f"x{place}", f"p{place}", f"t{place}"
    given |= {predicate: node_text(term.iri or ""), of: term, f"c{place}": term.coercion or term.language}
    if str(term.iri).startswith("_:"):
        return []
    long_way = f"writing.property(subject, {of}, {value})"
    if term.container or term.reverse or given[predicate] is None:
        return [f"if {value} is not None: {long_way}"]
    add = f"subject is not None and add((subject, {predicate}, {{}}, ''))"
    within = f"(len(text) <= {LONG} or writing.long(text))"
    checked = f"(text := {{}}) is not None and {within} and {add.format('text')}"
    plain = term.coercion is None or term.coercion[0] == "@"
    if plain:
        words = {"@id": f"references[{value}]", "@vocab": f"vocabulary[{value}]"}.get(str(term.coercion))
        tongue = f"texts[{value}]" if term.language is None else f"in_language({value}, c{place})"
    else:
        words, tongue = f"typed({value}, c{place})", ""
    lines = [f"kind = type({value})", f"if kind is str: {checked.format(words or tongue)}"]
    if plain:
        whole = f"f'\"{{{value}}}{INTEGER}'"
        lines.append(f"elif kind is int and {-_SMALL} < {value} < {_SMALL}: {add.format(whole)}")
        lines.append(f"elif kind is float: {add.format(f'numbers[{value}]')}")
    lines.append(f"elif kind is dict and (node := node_of({value})) is not None:")
    lines.append(f"    {checked.format(f'node(writing, {value})')}")
    lines.append(f"elif {value} is not None: {long_way}")
    return lines
