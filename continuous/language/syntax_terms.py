"""Syntax nodes below graph patterns: terms, triples, property paths and expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# --- terms --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: ``?name`` or ``$name``."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class IriReference:
    """An IRI ``<text>``, which may be relative and still contains its escapes."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class PrefixedName:
    """A prefixed name: ``prefix:local``."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class AKeyword:
    """The keyword ``a``, which stands for rdf:type."""

    at: int


Iri: TypeAlias = IriReference | PrefixedName | AKeyword


@dataclass(frozen=True, slots=True)
class StringToken:
    """A quoted string as it is written, including the quotes."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class LiteralText:
    """A string literal with its language tag (as it is written, such as ``en--ltr``) or datatype."""

    string: StringToken
    tag: str | None
    datatype: Iri | None
    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written; the form of the text determines the datatype."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Boolean:
    """A truth value: ``true`` or ``false``."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Blank:
    """A blank node: ``_:label``, or ``[]`` without a label."""

    label: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Undef:
    """The keyword ``UNDEF`` in inline data."""

    at: int


@dataclass(frozen=True, slots=True)
class TripleTermText:
    """A triple term: ``<<( s p o )>>``."""

    subject: Node
    verb: Variable | Iri
    object: Node
    at: int
    depth: int


@dataclass(frozen=True, slots=True)
class Reifier:
    """A reifier of a triple: ``~ name``, or ``~`` without a name."""

    name: Variable | Iri | Blank | None
    at: int


@dataclass(frozen=True, slots=True)
class Reified:
    """A reified triple: ``<< s p o ~ name >>``."""

    subject: Node
    verb: Variable | Iri
    object: Node
    reifier: Reifier | None
    at: int


@dataclass(frozen=True, slots=True)
class Collection:
    """An RDF collection: ``( a b c )``, with no items for ``()``."""

    items: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PropertyList:
    """A blank node with properties: ``[ p o ; … ]``."""

    properties: tuple[Property, ...]
    at: int


Node: TypeAlias = (
    Variable
    | IriReference
    | PrefixedName
    | AKeyword
    | LiteralText
    | Number
    | Boolean
    | Blank
    | TripleTermText
    | Reified
    | Collection
    | PropertyList
)

# --- triples ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnnotationBlock:
    """A block of annotations of a triple: ``{| p o ; … |}``."""

    properties: tuple[Property, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Object:
    """One object of a triple, with its reifiers and annotation blocks in text order."""

    node: Node
    annotations: tuple[Reifier | AnnotationBlock, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """A predicate or path with its objects."""

    verb: Variable | PathText
    objects: tuple[Object, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its properties, as in ``?s :p 1 ; :q 2``."""

    node: Node
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class Triples:
    """A run of triples between other graph patterns."""

    subjects: tuple[Subject, ...]


@dataclass(frozen=True, slots=True)
class PathAlternative:
    """An alternative of property paths: ``a | b``."""

    options: tuple[PathText, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PathSequence:
    """A sequence of property paths: ``a / b``."""

    steps: tuple[PathText, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PathInverse:
    """An inverse property path: ``^a``."""

    path: PathText
    at: int


@dataclass(frozen=True, slots=True)
class PathRepeat:
    """A repeated or optional property path: ``a*``, ``a+`` or ``a?``."""

    path: PathText
    modifier: str
    at: int


@dataclass(frozen=True, slots=True)
class PathNegated:
    """A negated property set ``!(a|^b)``; each member is an IRI, and True for an inverse."""

    members: tuple[tuple[Iri, bool], ...]
    at: int


PathText: TypeAlias = (
    IriReference
    | PrefixedName
    | AKeyword
    | PathAlternative
    | PathSequence
    | PathInverse
    | PathRepeat
    | PathNegated
)

# --- expressions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of an operator or built-in, by its upper-case name; signs are ``UNARY+`` and ``UNARY-``."""

    name: str
    args: tuple[Expression, ...]
    at: int
    depth: int
    operator: bool


@dataclass(frozen=True, slots=True)
class FunctionCallText:
    """A call of a function by its IRI: ``iri(args)``."""

    iri: Iri
    args: tuple[Expression, ...]
    distinct: bool
    at: int
    depth: int


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate; ``argument`` is None for ``COUNT(*)``."""

    name: str
    argument: Expression | None
    distinct: bool
    separator: StringToken | None
    parameter: Expression | None
    at: int
    depth: int


class Braces:
    """Base class of the pattern in EXISTS; its only subclass is `syntax.GroupPattern`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ExistsText:
    """An expression ``EXISTS {…}`` or ``NOT EXISTS {…}``."""

    group: Braces
    negated: bool
    at: int


Expression: TypeAlias = (
    Variable
    | IriReference
    | PrefixedName
    | AKeyword
    | LiteralText
    | Number
    | Boolean
    | TripleTermText
    | Operation
    | FunctionCallText
    | AggregateCall
    | ExistsText
)
