"""The syntax tree below graph patterns: terms, triples, property paths, expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# --- terms --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """``?name`` or ``$name``."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class IriReference:
    """``<text>``, perhaps relative, escapes not yet undone."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class PrefixedName:
    """``prefix:local``."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class AKeyword:
    """``a``, which is rdf:type."""

    at: int


Iri: TypeAlias = IriReference | PrefixedName | AKeyword


@dataclass(frozen=True, slots=True)
class StringToken:
    """A quoted string as written, quotes included."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class LiteralText:
    """A string with its language tag (``@en--ltr`` as written) or datatype."""

    string: StringToken
    tag: str | None
    datatype: Iri | None
    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written; its form gives the datatype."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false``."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Blank:
    """``_:label``, or ``[]`` without a label."""

    label: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Undef:
    """``UNDEF`` in inline data."""

    at: int


@dataclass(frozen=True, slots=True)
class TripleTermText:
    """``<<( s p o )>>``."""

    subject: Node
    verb: Variable | Iri
    object: Node
    at: int
    depth: int


@dataclass(frozen=True, slots=True)
class Reifier:
    """``~ name``, or ``~`` without one."""

    name: Variable | Iri | Blank | None
    at: int


@dataclass(frozen=True, slots=True)
class Reified:
    """``<< s p o ~ name >>``."""

    subject: Node
    verb: Variable | Iri
    object: Node
    reifier: Reifier | None
    at: int


@dataclass(frozen=True, slots=True)
class Collection:
    """``( a b c )``; empty for ``()``."""

    items: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PropertyList:
    """``[ p o ; … ]``."""

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
    """``{| p o ; … |}``."""

    properties: tuple[Property, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Object:
    """One object with its reifiers and annotation blocks in text order."""

    node: Node
    annotations: tuple[Reifier | AnnotationBlock, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """A verb with its objects."""

    verb: Variable | PathText
    objects: tuple[Object, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its properties: one or more triples."""

    node: Node
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class Triples:
    """A run of triples between other graph patterns."""

    subjects: tuple[Subject, ...]


@dataclass(frozen=True, slots=True)
class PathAlternative:
    """``a | b``."""

    options: tuple[PathText, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PathSequence:
    """``a / b``."""

    steps: tuple[PathText, ...]
    at: int


@dataclass(frozen=True, slots=True)
class PathInverse:
    """``^a``."""

    path: PathText
    at: int


@dataclass(frozen=True, slots=True)
class PathRepeat:
    """``a*``, ``a+``, ``a?``."""

    path: PathText
    modifier: str
    at: int


@dataclass(frozen=True, slots=True)
class PathNegated:
    """``!(a|^b)``: pairs of an IRI and whether it is inverse."""

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
    """An operator or built-in by its upper case name; ``!``-less signs are ``UNARY+`` and ``UNARY-``."""

    name: str
    args: tuple[Expression, ...]
    at: int
    depth: int
    operator: bool


@dataclass(frozen=True, slots=True)
class FunctionCallText:
    """``iri(args)``."""

    iri: Iri
    args: tuple[Expression, ...]
    distinct: bool
    at: int
    depth: int


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate; ``argument`` is None for ``COUNT(*)``."""

    name: str
    argument: Expression | None
    distinct: bool
    separator: StringToken | None
    parameter: Expression | None
    at: int
    depth: int


class Braces:
    """A group graph pattern where an expression has one; `syntax.Group` is the only kind."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ExistsText:
    """``EXISTS {…}`` or ``NOT EXISTS {…}``."""

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
