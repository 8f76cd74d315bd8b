"""JSON-LD contexts of mappings, read when a stream is declared.

Only the features of JSON-LD contexts that records need are implemented: prefixes, ``@vocab``, ``@base``,
``@language``, aliases of keywords, coercion to types and IRIs, ``@container`` of lists, sets and languages,
``@reverse``. Every other JSON-LD keyword is rejected by name, and a remote context is never fetched.
Source: https://www.w3.org/TR/json-ld11-api/#context-processing-algorithm
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.errors import InputError

from ...expressions.oxigraph import ask_with_base

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_KEYWORD = re.compile(r"@[A-Za-z]+\Z")
_ALIASES = frozenset({"@id", "@type", "@value", "@language", "@list", "@set", "@reverse"})
"""The JSON-LD keywords that a record may use as keys, directly or through an alias."""
_REFUSED = frozenset({"@graph", "@included", "@nest", "@context", "@direction", "@json", "@annotation"})
"""JSON-LD keywords that are rejected because they change a record's meaning; `@index` adds no statements."""
_CONTEXT_MEMBERS = frozenset({"@vocab", "@base", "@language", "@version", "@protected"})
_TERM_MEMBERS = frozenset({"@id", "@type", "@language", "@container", "@reverse", "@prefix", "@protected"})
_CONTAINERS = frozenset({"@list", "@set", "@language"})
_UNSET = object()


@dataclass(frozen=True, slots=True)
class Term:
    """The meaning of a record's key in a JSON-LD context: a keyword or IRI, and a conversion of values.

    If ``iri`` is None, the JSON-LD context ignores the key. ``coercion`` is ``@id``, ``@vocab`` or the IRI of
    a datatype, to which the values of a key are converted.
    """

    iri: str | None
    coercion: str | None = None
    language: str | None = None
    container: frozenset[str] = frozenset()
    reverse: bool = False
    prefix: bool = False


@dataclass
class JsonLdContext:
    """A JSON-LD context, compiled for the conversion of records.

    The method `term` returns the meaning of a record's key, and `expand` the IRI of a text.
    """

    base_iri: str | None
    vocab: str | None = None
    language: str | None = None
    terms: dict[str, Term | None] = field(default_factory=dict)

    def term(self, name: str) -> Term | None:
        """Return the meaning of a record's key; None if the context ignores the key."""
        if name in self.terms:
            return self.terms[name]
        if name.startswith("@"):
            return Term(name) if name in _ALIASES | _REFUSED else None
        iri = self.expand(name, vocab=True)
        return None if iri is None or not _ABSOLUTE.match(iri) else Term(iri, language=self.language)

    def expand(self, value: str, *, vocab: bool = False, document: bool = False) -> str | None:
        """Expand a text to an IRI, blank node or keyword.

        Returns the text itself if no rule of the JSON-LD context applies. Returns None if the context maps
        the text to null, or the text has the form of an unknown keyword.
        """
        known = self.terms.get(value, _UNSET) if vocab else _UNSET
        if isinstance(known, Term):
            return known.iri
        if known is None or (known is _UNSET and _KEYWORD.match(value) and value not in _ALIASES):
            return None
        if value in _ALIASES:
            return value
        prefix, colon, rest = value.partition(":")
        if colon and prefix:
            term = self.terms.get(prefix)
            if prefix != "_" and not rest.startswith("//") and term is not None and term.prefix and term.iri:
                return term.iri + rest
            if prefix == "_" or _ABSOLUTE.match(value):
                return value
        if vocab and self.vocab is not None:
            return self.vocab + value
        if document and self.base_iri is not None:
            found = ask_with_base("IRI", self.base_iri, value)
            return found.value if isinstance(found, NamedNode) else value
        return value


def read_context(context: Any, base_iri: str) -> JsonLdContext:
    """Read a JSON-LD context: an object, or an array of objects of which later ones take precedence.

    Raises:
        InputError: the context is wrong or has an unsupported keyword, which the message names.
    """
    made = JsonLdContext(base_iri)
    for part in context if isinstance(context, list) else [context]:
        if isinstance(part, str):
            raise InputError(
                f"the context {part!r} is an address; no context is fetched",
                hint="Write out its members.",
            )
        if not isinstance(part, dict):
            raise InputError("@context of the mapping must be an object, or an array of them")
        _read_part(made, part)
    return made


def _read_part(made: JsonLdContext, part: dict[str, Any]) -> None:
    for name in part:
        if name.startswith("@") and name not in _CONTEXT_MEMBERS:
            raise _unsupported(name)
    if "@base" in part:
        made.base_iri = _text(part["@base"], "@base", nothing=True)
    if "@language" in part:
        made.language = _language(part["@language"])
    if "@vocab" in part:
        vocab = _text(part["@vocab"], "@vocab", nothing=True)
        made.vocab = None if vocab is None else made.expand(vocab, vocab=True, document=True)
    pending = {name: value for name, value in part.items() if not name.startswith("@")}
    for name in pending:
        made.terms.pop(name, None)
    defined: dict[str, bool] = {}
    for name in pending:
        _define(made, name, pending, defined)


def _define(made: JsonLdContext, name: str, pending: dict[str, Any], defined: dict[str, bool]) -> None:
    """Define a term of a context; terms that are prefixes of its IRIs are defined before it."""
    if name in defined:
        if not defined[name]:
            raise InputError(f"the term {name} of the context is defined by itself")
        return
    defined[name] = False
    value = pending[name]
    members = {"@id": value} if value is None or isinstance(value, str) else value
    if not isinstance(members, dict):
        raise InputError(f"the term {name} of the context must be a text or an object")
    for member in members:
        if member not in _TERM_MEMBERS:
            raise _unsupported(member, name)

    def expand(text: Any, member: str) -> str | None:
        text = _text(text, f"{member} of {name}")
        if _KEYWORD.match(text) and text not in _ALIASES:
            raise _unsupported(text, name)
        for other in {text, text.partition(":")[0]} & pending.keys() - {name}:
            _define(made, other, pending, defined)
        return made.expand(text, vocab=True)

    reverse = "@reverse" in members
    if reverse and ("@id" in members or members.get("@container", "@set") not in ("@set", None)):
        raise InputError(
            f"the term {name} of the context has @reverse, so it can have no @id and no @container but @set"
        )
    given = members.get("@reverse" if reverse else "@id", name)
    if given is None:
        made.terms[name] = None
    elif given == name and ":" not in name:
        iri = None if made.vocab is None else made.vocab + name
        made.terms[name] = _term(made, name, members, iri, expand, reverse)
    else:
        iri = made.expand(name, vocab=True) if given == name else expand(given, "@id")
        made.terms[name] = _term(made, name, members, iri, expand, reverse)
    defined[name] = True


def _term(
    made: JsonLdContext, name: str, members: dict[str, Any], iri: str | None, expand: Any, reverse: bool
) -> Term:
    if iri is None or not (iri in _ALIASES or _ABSOLUTE.match(iri)):
        raise InputError(f"the term {name} of the context has no absolute IRI", hint="Set @vocab.")
    coercion = members.get("@type")
    if coercion is not None and coercion not in ("@id", "@vocab"):
        if isinstance(coercion, str) and coercion.startswith("@"):
            raise _unsupported(coercion, name)
        coercion = expand(coercion, "@type")
        if coercion is None or not _ABSOLUTE.match(coercion):
            raise InputError(f"@type of the term {name} is no absolute IRI")
    container = members.get("@container")
    names = [] if container is None else container if isinstance(container, list) else [container]
    for each in names:
        if each not in _CONTAINERS:
            raise _unsupported(str(each), name)
    if "@list" in names and len(names) > 1:
        raise InputError(f"@container of the term {name}: a list is nothing else")
    language = _language(members["@language"]) if "@language" in members else made.language
    simple = set(members) == {"@id"} and iri[-1] in ":/?#[]@"
    return Term(iri, coercion, language, frozenset(names), reverse, members.get("@prefix", simple) is True)


def _text(value: Any, what: str, *, nothing: bool = False) -> Any:
    if isinstance(value, str) or (nothing and value is None):
        return value
    raise InputError(f"{what} in the context must be a text")


def _language(value: Any) -> str | None:
    language: str | None = _text(value, "@language", nothing=True)
    if language is not None:
        try:
            Literal("", language=language)
        except ValueError:
            raise InputError(f"@language {language!r} in the context is no language tag") from None
    return language


def _unsupported(keyword: str, term: str | None = None) -> InputError:
    where = "the context" if term is None else f"the term {term} of the context"
    return InputError(
        f"{where} has {keyword}, which mappings do not read",
        hint="Leave it out, or write the mapping as a CONSTRUCT.",
    )


def node_text(iri: str) -> str | None:
    """Return the N-Triples text of an absolute IRI or a blank node of a record; None for other texts."""
    try:
        return str(BlankNode(f"u{iri[2:]}") if iri.startswith("_:") else NamedNode(iri))
    except ValueError:
        return None
