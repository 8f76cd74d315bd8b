"""Conversion of names and literals of a query text to RDF terms, including resolution of relative IRIs."""

from __future__ import annotations

import re
from typing import Any

from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Triple

from . import syntax as s
from .context import Context
from .window_mistakes import iri_without_brackets

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDF_TYPE = NamedNode(RDF + "type")
RDF_FIRST = NamedNode(RDF + "first")
RDF_REST = NamedNode(RDF + "rest")
RDF_NIL = NamedNode(RDF + "nil")
RDF_REIFIES = NamedNode(RDF + "reifies")
XSD_INTEGER = NamedNode(XSD + "integer")
XSD_DECIMAL = NamedNode(XSD + "decimal")
XSD_DOUBLE = NamedNode(XSD + "double")
XSD_BOOLEAN = NamedNode(XSD + "boolean")

WELL_KNOWN = {
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "owl": "http://www.w3.org/2002/07/owl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "prov": "http://www.w3.org/ns/prov#",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "schema": "https://schema.org/",
    "rspu": "http://w3id.org/rsp/rspu#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
}

_PARAMETER = re.compile(r"\$([^$]+)\$", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[\s\S])")
_CODE_POINT = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_SIMPLE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_LOCAL_ESCAPE = re.compile(r"\\(.)")
_DECIMAL = re.compile(r"[+-]?[0-9]*\.[0-9]+")
# The non-ASCII characters that names may have (PN_CHARS of the grammar). The non-ASCII characters of names
# are checked outside of the lexer, because as part of every terminal they would make the first parse one
# second slower.
_BEYOND = (
    "\u00b7\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u200c-\u200d\u203f-\u2040\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NOT_IN_NAMES = re.compile(f"[^\x00-\x7f{_BEYOND}]")


class Terms:
    """Converter from syntax nodes to RDF terms, under the BASE and PREFIX declarations of one query."""

    def __init__(self, context: Context, declarations: tuple[s.Declaration, ...]) -> None:
        self.context = context
        self.base = context.base_iri
        self.has_base = False
        self.prefixes: dict[str, str] = {}
        self._iris: dict[str, NamedNode] = {}
        for declaration in declarations:
            self._declare(declaration)

    def _declare(self, declaration: s.Declaration) -> None:
        if declaration.kind == "version":
            return
        iri = resolve(self.base, self._unescape_iri(declaration.value, declaration.at))
        if declaration.kind == "base":
            self.base, self.has_base = iri, True
        else:
            self.prefixes[declaration.prefix] = iri

    # --- IRIs

    def iri(self, node: s.Iri) -> NamedNode:
        """Return the absolute IRI of a syntax node; for an undeclared prefix, add a fault.

        A name with an undeclared prefix gets a substitute IRI.
        """
        if isinstance(node, s.AKeyword):
            return RDF_TYPE
        known = self._iris.get(node.text) if isinstance(node, s.PrefixedName) else None
        if known is not None:
            return known
        if isinstance(node, s.IriReference):
            return self._named(resolve(self.base, self._unescape_iri(node.text, node.at)), node.at)
        iri = self._named(self._expand(node), node.at)
        self._iris[node.text] = iri
        return iri

    def _expand(self, node: s.PrefixedName) -> str:
        prefix, _, local = node.text.partition(":")
        self.check_name(node.text, node.at)
        namespace = self.prefixes.get(prefix)
        if namespace is None:
            known = WELL_KNOWN.get(prefix)
            hint = iri_without_brackets(prefix, self.context.text, node.at)
            if hint is None:
                hint = f"Add PREFIX {prefix}: <{known or '…'}>" + ("" if known else " before the query.")
            self.context.fault(f"the prefix {prefix}: is not declared", node.at, hint)
            namespace = f"urn:undeclared:{prefix}:"
        return namespace + _LOCAL_ESCAPE.sub(r"\1", local)

    def _named(self, iri: str, at: int) -> NamedNode:
        try:
            return NamedNode(iri)
        except ValueError:
            self.context.fault(f"<{iri}> is not a valid IRI", at)
            return NamedNode("urn:invalid:iri")

    def _unescape_iri(self, text: str, at: int) -> str:
        if "\\" not in text:
            return text
        plain = _CODE_POINT.sub(lambda found: self._code_point(found.group(1) or found.group(2), at), text)
        if re.search(r"[\x00-\x20<>\"{}|^`\\]", plain):
            self.context.fault("an escape in this IRI stands for a character that IRIs cannot have", at)
            return "urn:invalid:iri"
        return plain

    def check_name(self, text: str, at: int) -> None:
        """Add a fault if a name has a character that names cannot have."""
        if text.isascii():
            return
        found = _NOT_IN_NAMES.search(text)
        if found is not None:
            hint = None
            if found.group() in "“”„‟‘’‚‛«»":
                hint = "Use straight quotes: \" or '."
            self.context.fault(
                f"the character {found.group()} cannot be part of a name", at + found.start(), hint
            )

    # --- literals

    def string(self, token: s.StringToken) -> str:
        """Return the value of a quoted string, without quotes and escapes."""
        quote = 3 if token.text[:3] in ('"""', "'''") and len(token.text) >= 6 else 1
        inner = token.text[quote:-quote]
        if "\\" not in inner:
            return inner
        return _ESCAPE.sub(
            lambda found: self._escape(found.group(1), token.at + quote + found.start()), inner
        )

    def _escape(self, code: str, at: int) -> str:
        if len(code) > 1:
            return self._code_point(code[1:], at)
        value = _SIMPLE.get(code)
        if value is None:
            hint = "Write the backslash twice: \\\\" + code
            self.context.fault(f"\\{code} is not an escape of strings", at, hint)
            return code
        return value

    def _code_point(self, digits: str, at: int) -> str:
        number = int(digits, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            self.context.fault(f"U+{digits.upper()} is not a character", at)
            return "\ufffd"
        return chr(number)

    def number(self, node: s.Number) -> Literal:
        """Return the literal of a number; the form of the text determines the datatype."""
        if "e" in node.text or "E" in node.text:
            return Literal(node.text, datatype=XSD_DOUBLE)
        if _DECIMAL.fullmatch(node.text):
            return Literal(node.text, datatype=XSD_DECIMAL)
        return Literal(node.text, datatype=XSD_INTEGER)

    def literal(self, node: s.LiteralText | s.Number | s.Boolean) -> Literal | NamedNode | Triple:
        """Return the RDF term of a literal in the query text.

        A ``"$name$"`` of a registration parameter gives the parameter's term.
        """
        if isinstance(node, s.Number):
            return self.number(node)
        if isinstance(node, s.Boolean):
            return Literal(node.text, datatype=XSD_BOOLEAN)
        value = self.string(node.string)
        if node.tag is not None:
            return self._tagged(value, node.tag, node.at)
        if node.datatype is not None:
            return Literal(value, datatype=self.iri(node.datatype))
        found = _PARAMETER.fullmatch(value)
        if found is not None:
            bound = self._parameter(found.group(1), node.at)
            if bound is not None:
                return bound
        return Literal(value)

    def _tagged(self, value: str, tag: str, at: int) -> Literal:
        language, mark, direction = tag.partition("--")
        try:
            if not mark:
                return Literal(value, language=language)
            if direction in ("ltr", "rtl"):
                return Literal(value, language=language, direction=BaseDirection(direction))
            self.context.fault(f"a base direction is ltr or rtl, not {direction}", at)
        except ValueError:
            self.context.fault(f"@{language} is not a language tag", at)
        return Literal(value)

    # --- registration parameters

    def _parameter(self, name: str, at: int) -> Literal | NamedNode | Triple | None:
        given = self.context.parameters
        key = name if name in given else name.strip()
        if key not in given:
            if not self.context.continuous:
                # In plain SPARQL, a string with dollar signs is an ordinary string and no parameter.
                return None
            self.context.found_parameters[key] = None
            near = ", ".join(sorted(given))
            hint = f'Register with "parameters": {{"{key}": …}}' + (f"; given: {near}" if near else "")
            self.context.fault(f"the parameter {key} has no value", at, hint, "missing-parameter")
            return Literal(f"${name}$")
        self.context.found_parameters[key] = None
        term = parameter_term(given[key])
        if isinstance(term, str):
            self.context.fault(f"the value of the parameter {key} {term}", at)
            return Literal(f"${name}$")
        return term


def parameter_term(value: Any) -> Literal | NamedNode | Triple | str:
    """Return the term of a registration parameter's JSON value, or a text that says why it is wrong.

    A parameter's JSON string becomes an xsd:string; a number or boolean becomes the literal of its type. A
    parameter's JSON object is a term in the SPARQL JSON results format
    (https://www.w3.org/TR/sparql11-results-json/).
    """
    if isinstance(value, (Literal, NamedNode, Triple)):
        return value
    if isinstance(value, bool):
        return Literal("true" if value else "false", datatype=XSD_BOOLEAN)
    if isinstance(value, int):
        return Literal(str(value), datatype=XSD_INTEGER)
    if isinstance(value, float):
        return Literal(repr(value).replace("inf", "INF").replace("nan", "NaN"), datatype=XSD_DOUBLE)
    try:
        if isinstance(value, str):
            return Literal(value)
        if isinstance(value, dict):
            return _json_term(value)
    except (ValueError, TypeError, UnicodeEncodeError) as error:
        return f"is not a term: {error}"
    return "must be a string, a number, true, false or a SPARQL JSON term"


def _json_term(value: dict[str, Any]) -> Literal | NamedNode | Triple | str:
    kind, content = value.get("type"), value.get("value")
    if kind == "uri" and isinstance(content, str):
        return NamedNode(content)
    if kind in ("literal", "typed-literal") and isinstance(content, str):
        language = value.get("xml:lang")
        if language:
            direction = value.get("its:dir")
            return Literal(
                content, language=language, direction=None if direction is None else BaseDirection(direction)
            )
        datatype = value.get("datatype")
        return Literal(content) if datatype is None else Literal(content, datatype=NamedNode(datatype))
    if kind == "triple" and isinstance(content, dict):
        parts = [_json_term(content.get(name) or {}) for name in ("subject", "predicate", "object")]
        for part in parts:
            if isinstance(part, str):
                return part
        subject, predicate, obj = parts
        if isinstance(subject, NamedNode) and isinstance(predicate, NamedNode) and not isinstance(obj, str):
            return Triple(subject, predicate, obj)
        return "is a triple whose subject or predicate is not an IRI"
    if kind == "bnode":
        return "is a blank node, which names nothing in a query"
    return 'must have "type" uri, literal or triple and a "value"'


def is_ground(term: object) -> bool:
    """Return True for an RDF term without variables."""
    return isinstance(term, (NamedNode, Literal, Triple, BlankNode))


_PARTS = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


def resolve(base: str, reference: str) -> str:
    """Resolve an IRI reference against a base IRI.

    >>> resolve("http://example.org/a/b", "#c"), resolve("http://example.org/a/b", "../d?e")
    ('http://example.org/a/b#c', 'http://example.org/d?e')
    """
    scheme, authority, path, query, fragment = _split(reference)
    if scheme is not None:
        return reference
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is None:
        authority = base_authority
        if not path:
            path = base_path
            query = base_query if query is None else query
        elif path.startswith("/"):
            path = _without_dots(path)
        else:
            path = _without_dots(_merged(base_authority, base_path, path))
    else:
        path = _without_dots(path)
    return _join(base_scheme, authority, path, query, fragment)


def _split(iri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    found = _PARTS.fullmatch(iri)
    assert found is not None  # The pattern of IRIs always matches, because every part of it is optional.
    scheme, authority, path, query, fragment = found.groups()
    return scheme, authority, path, query, fragment


def _merged(authority: str | None, base_path: str, path: str) -> str:
    if authority is not None and not base_path:
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """Remove dot segments from a path (RFC 3986, section 5.2.4)."""
    if "." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/".join(kept)


def _join(
    scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None
) -> str:
    text = "" if scheme is None else f"{scheme}:"
    if authority is not None:
        text += f"//{authority}"
    text += path
    if query is not None:
        text += f"?{query}"
    return text if fragment is None else f"{text}#{fragment}"
