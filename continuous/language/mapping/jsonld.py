"""Conversion of records to statements by a JSON-LD context, in one pass over the record.

The conversion of a record equals JSON-LD's expansion followed by its conversion to RDF, with literals in the
store's forms. The meaning of each key of a record in the JSON-LD context is cached.
Source: https://www.w3.org/TR/json-ld11-api/#expansion-algorithm, #object-to-rdf-conversion
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from math import isfinite
from typing import Any

from pyoxigraph import Literal, NamedNode

from quadrill.store.documents.subject_columns import Statement
from quadrill.store.errors import InputError
from quadrill.store.terms import store_form, term_text

from ...expressions.values import XSD
from .context import JsonLdContext, Term, node_text
from .jsonld_nodes import Node, node_function
from .limits import LONG, STATEMENT_BYTES, RecordWork
from .memoised import MemoisedFunction
from .texts import TEXTS, text_of

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TYPE, _FIRST, _REST, _NIL = (f"<{_RDF}{name}>" for name in ("type", "first", "rest", "nil"))
_DOUBLE = f"{XSD}double"
_MOST_KEYS = 10_000
_LONG = 1_000
"""Length in characters of keys, IRIs and literals from which conversions are not cached."""
_MOST_NODES = 256
"""Maximum number of generated functions of a JSON-LD context; each tuple of keys has one function."""
_NODES_BETWEEN_TICKS = 64
_WHOLE_LIMIT = 10**21
"""Whole numbers from this size on become xsd:double (JSON-LD, conversion of objects to RDF)."""


def statements_by(context: JsonLdContext, work: RecordWork) -> Callable[[Mapping[str, Any]], list[Statement]]:
    """Return a function that converts a record to statements by a JSON-LD context.

    The returned function raises InputError, and LimitError if a record takes too much work.
    """
    understood: dict[str, Term | None] = {}
    nodes: dict[tuple[str, ...], Node | None] = {}

    def term_of(key: str) -> Term | None:
        try:
            return understood[key]
        except KeyError:
            found = context.term(key)
            if len(understood) < _MOST_KEYS and len(key) < _LONG:
                understood[key] = found
            return found

    def reference(vocab: bool, iri: str) -> str | None:
        return node_text_of(context.expand(iri, vocab=vocab, document=True))

    def node_of(fields: Mapping[str, Any]) -> Node | None:
        keys = tuple(fields)
        try:
            return nodes[keys]
        except KeyError:
            if len(nodes) >= _MOST_NODES or sum(map(len, keys)) >= _LONG:
                return None
            return nodes.setdefault(keys, node_function([term_of(key) for key in keys], names))

    references = MemoisedFunction(partial(reference, False)), MemoisedFunction(partial(reference, True))
    names = {
        "texts": TEXTS,
        "numbers": MemoisedFunction(lambda value: text_of(_native(value))),
        "references": references[0],
        "vocabulary": references[1],
        "typed": _typed,
        "in_language": _in_language,
        "node_of": node_of,
    }
    return lambda record: _RecordStatements(context, term_of, references, node_of, work).of(record)


class _RecordStatements:
    """Builder of the statements of one record by a JSON-LD context."""

    __slots__ = (
        "_asked",
        "_blanks",
        "_context",
        "_node_of",
        "_references",
        "_term_of",
        "found",
        "long",
        "work",
    )

    def __init__(
        self,
        context: JsonLdContext,
        term_of: Callable[[str], Term | None],
        references: tuple[MemoisedFunction[str, str | None], MemoisedFunction[str, str | None]],
        node_of: Callable[[Mapping[str, Any]], Node | None],
        work: RecordWork,
    ) -> None:
        """The two ``references`` resolve texts against the base IRI and against the vocabulary."""
        self._context = context
        self._term_of = term_of
        self._references = references
        self._node_of = node_of
        self.work, self.long = work, work.long
        self.found: list[Statement] = []
        self._blanks = self._asked = 0

    def of(self, record: Mapping[str, Any]) -> list[Statement]:
        """Return all statements of the JSON record ``record``."""
        self._node(record)
        if len(self.found) > _NODES_BETWEEN_TICKS:
            self.work.take(len(self.found) * STATEMENT_BYTES)
        return self.found

    def _node(self, fields: Mapping[str, Any]) -> str | None:
        """Add the statements of a JSON-LD node object and return the text of its subject.

        Returns None if the @id of the node object is no absolute IRI.
        """
        quick = self._node_of(fields)
        if quick is not None:
            return quick(self, fields)
        members = [(term, value) for key, value in fields.items() if (term := self._term_of(key)) is not None]
        ids = [value for term, value in members if term.iri == "@id"]
        subject = self.reference(ids[0]) if ids else self.blank()
        for term, value in members:
            iri = term.iri
            if iri == "@id" or value is None or iri is None:
                continue
            if iri == "@type":
                self.types(subject, value)
            elif iri == "@reverse":
                self._reversed(subject, value)
            elif iri.startswith("@"):
                raise InputError(f"the record has {iri} where a mapping does not read it")
            elif not iri.startswith("_:"):
                self.property(subject, term, value)
        return subject

    def types(self, subject: str | None, value: Any) -> None:
        """Add an rdf:type statement for each @type of a node; a null value adds no statement."""
        for each in () if value is None else _members(value):
            self._add(subject, _TYPE, self.reference(each, vocab=True))

    def _reversed(self, subject: str | None, properties: Any) -> None:
        if not isinstance(properties, dict):
            raise InputError("@reverse of the record must be an object")
        for key, value in properties.items():
            term = self._term_of(key)
            if term is not None and term.iri is not None and not term.iri.startswith("@"):
                for each in _members(value):
                    self._add(self._value(term, each), f"<{term.iri}>", subject)

    def property(self, subject: str | None, term: Term, value: Any) -> None:
        """Add the statements of one property with all its values."""
        predicate, kind = node_text_of(term.iri), type(value)
        if kind is not dict and kind is not list and not term.container and not term.reverse:
            self._add(subject, predicate, self._value(term, value))
            return
        if "@language" in term.container and isinstance(value, dict):
            for language, texts in value.items():
                for each in _members(texts):
                    self._add(subject, predicate, self._text_in(language, each))
        elif "@list" in term.container and not (isinstance(value, dict) and self._has(value, "@list")):
            self._add(subject, predicate, self._list(term, _members(value, flat=False)))
        else:
            for each in _members(value):
                if isinstance(each, dict) and self._has(each, "@set"):
                    self.property(subject, term, self._has(each, "@set")[0])
                elif term.reverse:
                    self._add(self._value(term, each), predicate, subject)
                else:
                    self._add(subject, predicate, self._value(term, each))

    def _value(self, term: Term, value: Any) -> str | None:
        """Return the text of one value of a property; None if the value gives no statement."""
        kind = type(value)
        if kind is dict:
            return self._object(term, value)
        coercion = term.coercion
        if kind is str:
            if coercion is None:
                return TEXTS[value] if term.language is None else _in_language(value, term.language)
            if coercion == "@id":
                return self.reference(value)
            if coercion == "@vocab":
                return self.reference(value, vocab=True)
            return _typed(value, coercion)
        if value is None:
            return None
        if coercion is None or coercion[0] == "@":
            return text_of(_native(value))
        return _typed(_lexical(value, coercion), coercion)

    def _object(self, term: Term, value: dict[str, Any]) -> str | None:
        literal = self._has(value, "@value")
        if literal:
            return self._literal(value, literal[0])
        listed = self._has(value, "@list")
        return self._list(term, _members(listed[0], flat=False)) if listed else self._node(value)

    def _literal(self, fields: dict[str, Any], value: Any) -> str | None:
        """Return the text of a JSON-LD value object (an object with @value); None if @value is null."""
        if value is None:
            return None
        if isinstance(value, dict | list):
            raise InputError("@value of the record must be a text, a number or a truth value")
        kind, language = self._has(fields, "@type"), self._has(fields, "@language")
        if language and language[0] is not None:
            return self._text_in(language[0], value)
        if not kind or kind[0] is None:
            return text_of(_native(value))
        datatype = self._context.expand(str(kind[0]), vocab=True, document=True)
        if datatype is None or node_text_of(datatype) is None:
            raise InputError(f"@type {kind[0]!r} of a value in the record is no IRI")
        return _typed(value if isinstance(value, str) else _lexical(value, datatype), datatype)

    def _has(self, fields: Mapping[str, Any], keyword: str) -> list[Any]:
        """Return the values of those keys of an object that mean ``keyword``, as a new list."""
        return [
            value
            for key, value in fields.items()
            if (term := self._term_of(key)) is not None and term.iri == keyword
        ]

    def _list(self, term: Term, values: Iterator[Any]) -> str:
        cells = []
        for value in values:
            cell = self._list(term, iter(value)) if isinstance(value, list) else self._value(term, value)
            if cell is not None:
                if len(cell) > LONG:
                    self.long(cell)
                cells.append(cell)
        rest = _NIL
        for cell in reversed(cells):
            blank = self.blank()
            self.found += [(blank, _FIRST, cell, ""), (blank, _REST, rest, "")]
            rest = blank
        return rest

    def reference(self, value: Any, *, vocab: bool = False) -> str | None:
        """Return the text of an IRI that the record contains; None if it is not absolute."""
        if not isinstance(value, str):
            raise InputError(f"{value!r} in the record must be the text of an IRI")
        self._asked += 1
        if not self._asked % _NODES_BETWEEN_TICKS:
            self.work.tick()
        found = self._references[vocab][value]
        if found is not None and len(found) > LONG:
            self.long(found)
        return found

    def _text_in(self, language: Any, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or not isinstance(language, str):
            raise InputError("a value with a language must be a text")
        if language in ("@none", "") or self._context.expand(language, vocab=True) == "@none":
            return text_of(value)
        return _in_language(value, language)

    def _add(self, subject: str | None, predicate: str | None, value: str | None) -> None:
        if subject is not None and predicate is not None and value is not None and subject[0] != '"':
            if len(value) > LONG or len(predicate) > LONG:
                self.long(value)
                self.long(predicate)
            self.found.append((subject, predicate, value, ""))

    def blank(self) -> str:
        """Return the text of a new blank node."""
        self._blanks += 1
        if not self._blanks % _NODES_BETWEEN_TICKS:
            self.work.tick()
        return f"_:n{self._blanks}"


_known_node = lru_cache(maxsize=65_536)(node_text)


def node_text_of(iri: str | None) -> str | None:
    """Return the node text of an IRI (`context.node_text`), cached for short IRIs."""
    if iri is None:
        return None
    return node_text(iri) if len(iri) > _LONG else _known_node(iri)


def _members(value: Any, *, flat: bool = True) -> Iterator[Any]:
    """Iterate over the items of an array, with nested arrays if ``flat``.

    A value that is no array is the only item of the iteration.
    """
    if not isinstance(value, list):
        yield value
        return
    for each in value:
        if flat and isinstance(each, list):
            yield from _members(each)
        else:
            yield each


def _native(value: Any) -> Any:
    """Convert a number to the Python type of its JSON-LD datatype: whole numbers below 10²¹ become int."""
    kind = type(value)
    if kind is float and not isfinite(value):
        raise InputError(f"the record has the number {value}, which JSON does not have")
    if kind is float and value == int(value) and abs(value) < _WHOLE_LIMIT:
        return int(value)
    return float(value) if kind is int and abs(value) >= _WHOLE_LIMIT else value


def _lexical(value: Any, datatype: str) -> str:
    """Return the lexical form of a number or truth value that the context coerces to ``datatype``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _native(value)
    if type(number) is int and datatype != _DOUBLE:
        return str(number)
    sign, figures, exponent = Decimal(repr(float(number))).as_tuple()
    digits = "".join(map(str, figures))
    behind = digits[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{digits[0]}.{behind}E{int(exponent) + len(digits) - 1}"


def _typed(value: str, datatype: str) -> str:
    if len(value) + len(datatype) > _LONG:
        return _typed_text(value, datatype)
    return _known_typed(value, datatype)


def _typed_text(value: str, datatype: str) -> str:
    return term_text(store_form(Literal(value, datatype=NamedNode(datatype))))


_known_typed = lru_cache(maxsize=65_536)(_typed_text)


def _in_language(value: str, language: str) -> str:
    try:
        return str(Literal(value, language=language))
    except ValueError:
        raise InputError(f"{language!r} in the record is no language tag") from None
