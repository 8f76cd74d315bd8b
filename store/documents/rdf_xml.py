"""Limits of RDF/XML documents: depth, attributes, namespaces and expansion of entities.

Oxigraph's parser takes time proportional to the square of the depth, of the attributes of an element and of
its namespaces in scope. The limits count the same tags of an RDF/XML document as Oxigraph's parser reads.
Where two parsers could find different tags (in a document type declaration, in unusual comments and
processing instructions), only plain forms are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import attrgetter

from ..errors import LimitError, RdfSyntaxError

_INSIDE = rb"(?>[^<>\"'/]++|/(?!>)|\"[^\"]*+\"|'[^']*+')"
_TAG = re.compile(
    b"|".join(
        [
            rb"<!--(?>[^-]++|-(?!->))*+",
            rb"(?i:<!\[CDATA\[)(?>[^\]]++|\](?!\]>))*+",
            # The alternatives of this expression: an end tag, an empty-element tag, a start tag, a start tag
            # with too many attributes.
            rb"(</)",
            rb"<[^\s<>!?/\"'](?:" + _INSIDE + rb"{0,2000}+(?:(/>)|(>))|(" + _INSIDE + rb"{2001}))",
        ]
    ),
    re.DOTALL,
)
_ODD = re.compile(rb"<!---?>|<\?[^>]*+(?<!\?)>")
_DECLARATION = re.compile(rb"<!D", re.IGNORECASE)
_QUOTED = rb"(?:\"[^\"<>]*+\"|'[^'<>]*+')"
_PLAIN_DECLARATION = re.compile(
    rb"<!DOCTYPE(?>[^\[\]<>\"']++|"
    + _QUOTED
    + rb")*+(?>\[(?>[^\[\]<>\"']++|<!ENTITY(?>[^<>\"']++|"
    + _QUOTED
    + rb")*+>|<!--(?>[^<>\"'\[\]-]++|-(?!->))*+-->)*+\]\s*+)?+>"
)
_END, _EMPTY, _BEGIN, _WIDE = 1, 2, 3, 4
_TOO_MUCH = 1 << 40
_STEPS = {_END: -1, _BEGIN: 1, _WIDE: _TOO_MUCH}
_NAMESPACE = b"xmlns"
_ENTITY = re.compile(rb"<!ENTITY\s++(?>(%\s++)?)([^\s%]++)\s++(?:\"([^\"]*+)\"|'([^']*+)'|(\S++))", re.DOTALL)
_REFERENCE = re.compile(rb"&([A-Za-z_:][\w:.\-]*+);")


@dataclass(frozen=True, slots=True)
class XmlLimits:
    """Limits on one RDF/XML document.

    Attributes:
        depth: maximum depth of nested elements.
        namespaces: maximum number of namespaces declared by an element and its ancestors.
        entities: maximum number of declared entities.
        entity_growth: maximum length of all expanded entities in bytes, as a multiple of the document's
            length; a million bytes are always allowed.
    """

    depth: int = 1_000
    namespaces: int = 1_000
    entities: int = 10_000
    entity_growth: int = 10


def check_rdf_xml(body: bytes, limits: XmlLimits, first_line: int = 1) -> None:
    """Raise an error for an RDF/XML document that the parser could not read in linear time.

    Raises:
        LimitError: the document exceeds a limit.
        RdfSyntaxError: two parsers could find different elements in the document.
    """
    for declaration in _DECLARATION.finditer(body):
        if not _PLAIN_DECLARATION.match(body, declaration.start()):
            raise LimitError(
                "the document type declaration of an RDF/XML document may declare plain entities only"
            )
    odd = _ODD.search(body)
    if odd is not None:
        line = body.count(b"\n", 0, odd.start()) + first_line
        raise RdfSyntaxError(
            f"malformed RDF/XML: a comment or instruction is not closed, at line {line}", line=line
        )
    _check_entities(body, limits)
    if body.count(_NAMESPACE) > limits.namespaces:
        _check_namespaces(body, limits)
    kinds = map(attrgetter("lastindex"), _TAG.finditer(body))
    steps: Iterator[int] = map(_STEPS.get, kinds, repeat(0))
    # End tags without a start tag are malformed; they must not reduce the depth of later elements.
    depths = accumulate(steps, lambda depth, step: depth + step if depth or step > 0 else 0, initial=0)
    deepest = max(depths)
    if deepest >= _TOO_MUCH:
        raise LimitError("an element of the RDF/XML document has more than 1,000 attributes")
    if deepest > limits.depth:
        raise LimitError(f"elements of the RDF/XML document nest deeper than {limits.depth:,} levels")


def _check_namespaces(body: bytes, limits: XmlLimits) -> None:
    in_scope = [0]
    for tag in _TAG.finditer(body):
        if tag.lastindex == _END and len(in_scope) > 1:
            in_scope.pop()
        elif tag.lastindex in (_BEGIN, _EMPTY):
            declared = in_scope[-1] + tag[0].count(_NAMESPACE)
            if declared > limits.namespaces:
                raise LimitError(
                    f"more than {limits.namespaces:,} namespaces hold for one element of the RDF/XML document"
                )
            if tag.lastindex == _BEGIN:
                in_scope.append(declared)


def _check_entities(body: bytes, limits: XmlLimits) -> None:
    if b"<!ENTITY" not in body:
        return
    sizes: dict[bytes, int] = {}
    for declared in _ENTITY.finditer(body):
        parameter, name, double, single, outside = declared.groups(b"")
        if len(sizes) >= limits.entities:
            raise LimitError(f"the RDF/XML document declares more than {limits.entities:,} entities")
        if parameter or outside:
            raise LimitError(
                "the RDF/XML document declares an external or parameter entity, which is refused"
            )
        value = double or single
        inner = sum(sizes.get(used[1], 0) for used in _REFERENCE.finditer(value))
        sizes.setdefault(name, len(value) + inner)
    expanded = sum(sizes.get(used[1], 0) for used in _REFERENCE.finditer(body))
    allowed = max(1_000_000, limits.entity_growth * len(body))
    if expanded > allowed:
        raise LimitError(
            f"the entities of the RDF/XML document expand to {expanded:,} bytes, the limit is {allowed:,}"
        )
