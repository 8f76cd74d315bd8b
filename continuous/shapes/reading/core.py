"""Reading of the constraint components of SHACL Core: the parameters of a shape, checked (appendix A)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ...algebra.nodes import Link, Term
from ...expressions.functions import regex
from ...rules.terms import RuleTerms
from ..constraints.cardinality import MaxCount, MinCount
from ..constraints.logical import And, Not, Or, Xone
from ..constraints.others import Closed, HasValue, In
from ..constraints.pairs import Disjoint, Equals, LessThan
from ..constraints.shape_based import Node, PropertyConstraint, Qualified
from ..constraints.strings import LanguageIn, MaxLength, MinLength, Pattern, UniqueLang
from ..constraints.value_range import COMPARISONS, ValueRange
from ..constraints.value_type import NODE_KINDS, Class, Datatype, NodeKind
from ..errors import ShapesInvalidError
from ..paths_in_rdf import PATH
from ..shape import Constraint, Shape
from ..vocabulary import SH, sh
from .graph import NodeValues, ShapesGraph

NODE, PROPERTY, NOT, QUALIFIED = sh("node"), sh("property"), sh("not"), sh("qualifiedValueShape")
LISTS = {sh("and"): And, sh("or"): Or, sh("xone"): Xone}
_MIN_COUNT, _MAX_COUNT, _UNIQUE_LANG = sh("minCount"), sh("maxCount"), sh("uniqueLang")
_LESS_THAN, _LESS_OR_EQUAL = sh("lessThan"), sh("lessThanOrEquals")
_QUALIFIED_MIN, _QUALIFIED_MAX = sh("qualifiedMinCount"), sh("qualifiedMaxCount")
_DISJOINT_SIBLINGS = sh("qualifiedValueShapesDisjoint")
_PATTERN, _FLAGS, _CLOSED, _IGNORED = sh("pattern"), sh("flags"), sh("closed"), sh("ignoredProperties")
_WITH_PATH_ONLY = (_MIN_COUNT, _MAX_COUNT, _UNIQUE_LANG, _LESS_THAN, _LESS_OR_EQUAL, QUALIFIED)

_NAMES = """
and class closed datatype disjoint equals flags hasValue ignoredProperties in languageIn lessThan
lessThanOrEquals maxCount maxExclusive maxInclusive maxLength minCount minExclusive minInclusive minLength
node nodeKind not or pattern property qualifiedMaxCount qualifiedMinCount qualifiedValueShape
qualifiedValueShapesDisjoint sparql uniqueLang xone
"""
PARAMETERS = frozenset(map(sh, _NAMES.split()))
"""The parameters of the components of SHACL Core, and sh:sparql; a node with one of them is a shape."""


@dataclass(frozen=True, slots=True)
class CoreReader:
    """Reads the constraints of shapes.

    Attributes:
        graph: the shapes graph.
        terms: the ids of terms.
        shape_of: returns the shape at a node; the arguments are this node, the property that refers to it,
            and the node of the shape that has the property.
    """

    graph: ShapesGraph
    terms: RuleTerms
    shape_of: Callable[[Term, NamedNode, Term], Shape]

    def constraints(self, values: NodeValues, *, has_path: bool) -> Iterator[Constraint]:
        """Yield the constraints of the shape at a node.

        Raises:
            ShapesInvalidError: a parameter is ill-formed.
        """
        if not has_path:
            for parameter in _WITH_PATH_ONLY:
                if values.all(parameter):
                    expected = "is for property shapes only, which have sh:path"
                    raise ShapesInvalidError(values.node, parameter, expected)
        for read in (
            self._value_types,
            self._cardinality,
            self._ranges,
            self._strings,
            self._pairs,
            self._logic,
            self._shapes,
            self._qualified,
            self._others,
        ):
            yield from read(values)

    def _value_types(self, values: NodeValues) -> Iterator[Constraint]:
        for iri in values.iris(sh("class")):
            yield Class(self.terms.id_of(iri))
        datatype = values.iri(sh("datatype"))
        if datatype is not None:
            yield Datatype(datatype, self.terms.in_store_form)
        kind = values.one(sh("nodeKind"))
        if kind is not None:
            name = kind.value.removeprefix(SH) if isinstance(kind, NamedNode) else ""
            if name not in NODE_KINDS:
                allowed = ", ".join(f"sh:{each}" for each in NODE_KINDS)
                raise values.wrong(sh("nodeKind"), f"must be one of {allowed}", kind)
            yield NodeKind(name)

    def _cardinality(self, values: NodeValues) -> Iterator[Constraint]:
        least, most = values.integer(_MIN_COUNT), values.integer(_MAX_COUNT)
        if least is not None:
            yield MinCount(least)
        if most is not None:
            yield MaxCount(most)

    def _ranges(self, values: NodeValues) -> Iterator[Constraint]:
        for name, comparison in COMPARISONS.items():
            limit = values.literal(sh(name))
            if limit is not None:
                yield ValueRange(comparison, self.terms.id_of(limit))

    def _strings(self, values: NodeValues) -> Iterator[Constraint]:
        least, most = values.integer(sh("minLength")), values.integer(sh("maxLength"))
        if least is not None:
            yield MinLength(least)
        if most is not None:
            yield MaxLength(most)
        pattern, flags = values.text(_PATTERN), values.text(_FLAGS)
        if pattern is not None:
            if regex("", pattern, flags or "") is None:
                expected = "must be a regular expression of SPARQL's REGEX, without back-references"
                raise values.wrong(_PATTERN, expected, values.all(_PATTERN)[0])
            yield Pattern(pattern, flags or "")
        languages = values.list(sh("languageIn"))
        if languages is not None:
            yield LanguageIn(tuple(values.as_text(sh("languageIn"), each) for each in languages))
        if values.boolean(_UNIQUE_LANG):
            yield UniqueLang()

    def _pairs(self, values: NodeValues) -> Iterator[Constraint]:
        for iri in values.iris(sh("equals")):
            yield Equals(Link(iri), self.terms.id_of(iri))
        for iri in values.iris(sh("disjoint")):
            yield Disjoint(Link(iri), self.terms.id_of(iri))
        for iri in values.iris(_LESS_THAN):
            yield LessThan(Link(iri), self.terms.id_of(iri))
        for iri in values.iris(_LESS_OR_EQUAL):
            yield LessThan(Link(iri), self.terms.id_of(iri), or_equal=True)

    def _logic(self, values: NodeValues) -> Iterator[Constraint]:
        for node in values.all(NOT):
            yield Not(self._shape(values, NOT, node))
        for parameter, kind in LISTS.items():
            for head in values.all(parameter):
                members = self.graph.members(values.node, parameter, head)
                yield kind(tuple(self._shape(values, parameter, each) for each in members))

    def _shapes(self, values: NodeValues) -> Iterator[Constraint]:
        for node in values.all(NODE):
            shape = self._shape(values, NODE, node)
            if shape.path is not None:
                raise values.wrong(NODE, "must be a node shape, which has no sh:path", node)
            yield Node(shape)
        for node in values.all(PROPERTY):
            if not self.graph.objects(node, PATH):
                raise values.wrong(PROPERTY, "must be a property shape, which has sh:path", node)
            yield PropertyConstraint(self._shape(values, PROPERTY, node))

    def _qualified(self, values: NodeValues) -> Iterator[Constraint]:
        node = values.one(QUALIFIED)
        least, most = values.integer(_QUALIFIED_MIN), values.integer(_QUALIFIED_MAX)
        disjoint = values.boolean(_DISJOINT_SIBLINGS)
        if node is None:
            return
        shape = self._shape(values, QUALIFIED, node)
        if least is None and most is None:
            return
        siblings = self._siblings(values.node) if disjoint else ()
        others = tuple(self._shape(values, QUALIFIED, each) for each in siblings if each != node)
        yield Qualified(shape, least, most, others)

    def _siblings(self, node: Term) -> Iterable[Term]:
        """Return the qualified value shapes of a property shape and of its siblings (SHACL section 4.7.3).

        Siblings are the other property shapes of the shapes that have this property shape.
        """
        return dict.fromkeys(
            sibling
            for parent in self.graph.subjects(PROPERTY, node)
            for each in self.graph.objects(parent, PROPERTY)
            for sibling in self.graph.objects(each, QUALIFIED)
        )

    def _others(self, values: NodeValues) -> Iterator[Constraint]:
        closed, ignored = values.boolean(_CLOSED), values.list(_IGNORED) or ()
        allowed = [values.as_iri(_IGNORED, each) for each in ignored]
        if closed:
            allowed += [
                path
                for each in values.all(PROPERTY)
                for path in self.graph.objects(each, PATH)
                if isinstance(path, NamedNode)
            ]
            yield Closed(frozenset(map(self.terms.id_of, allowed)))
        for value in values.all(sh("hasValue")):
            yield HasValue(self.terms.id_of(value))
        members = values.list(sh("in"))
        if members is not None:
            ids = tuple(map(self.terms.id_of, members))
            yield In(frozenset(ids), ids)

    def _shape(self, values: NodeValues, parameter: NamedNode, node: Term) -> Shape:
        return self.shape_of(values.as_node(parameter, node), parameter, values.node)
