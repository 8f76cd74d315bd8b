"""Reading of shapes: which nodes of a shapes graph are shapes, their targets, and their other properties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyoxigraph import Literal, NamedNode, Quad, Triple

from quadrill.store.errors import LimitError, UnsupportedError
from quadrill.store.terms import term_text

from ...algebra.nodes import Link, PathExpr, Term
from ...rules.paths import PathSteps
from ...rules.terms import RuleTerms
from ..errors import ShapesInvalidError
from ..paths_in_rdf import PATH, read_path
from ..shape import Constraint, Shape
from ..targets import Target, TargetClass, TargetNode, TargetObjectsOf, TargetSubjectsOf
from ..vocabulary import CLASS, VIOLATION, sh, short
from .components import read_components
from .core import PARAMETERS, CoreReader
from .graph import NodeValues, ShapesGraph
from .sparql import SparqlReader

_NODE_SHAPE, _PROPERTY_SHAPE = sh("NodeShape"), sh("PropertyShape")
_TARGET_NODE, _TARGET_CLASS = sh("targetNode"), sh("targetClass")
_SUBJECTS_OF, _OBJECTS_OF = sh("targetSubjectsOf"), sh("targetObjectsOf")
_TARGETS = (_TARGET_NODE, _TARGET_CLASS, _SUBJECTS_OF, _OBJECTS_OF)
_UNSUPPORTED = {
    sh("entailment"): "create a rule set with PUT /rules, and name its graph in data",
    sh("js"): "write the constraint in SPARQL, with sh:sparql",
    sh("jsFunctionName"): "write the constraint in SPARQL, with sh:sparql",
    sh("jsLibrary"): "write the constraint in SPARQL, with sh:sparql",
    sh("target"): "use sh:targetClass, sh:targetNode, sh:targetSubjectsOf or sh:targetObjectsOf",
    sh("expression"): "write the constraint in SPARQL, with sh:sparql",
}
"""Properties that would change the results and are not evaluated, with what to use instead."""
_MOST_SHAPES = 20_000
"""Maximum number of shapes of one graph, property shapes included; each takes time at every commit."""
_DEEPEST = 50
"""Maximum number of levels of shapes inside shapes, because calls nest as deep as the shapes at a
validation."""


def read_shapes(triples: Iterable[Quad | Triple], terms: RuleTerms) -> list[Shape]:
    """Return the shapes of a shapes graph that have targets.

    Shapes without targets are checked, too, even if no other shape refers to them.

    Raises:
        ShapesInvalidError: a shape is ill-formed, or refers to itself.
        UnsupportedError: the shapes use sh:entailment, JavaScript or advanced features.
        LimitError: there are too many shapes, or shapes or paths are nested too deeply.
    """
    graph = ShapesGraph(triples)
    for predicate, hint in _UNSUPPORTED.items():
        nodes = graph.subjects_of(predicate)
        if nodes:
            message = f"{short(predicate)} of {term_text(nodes[0])} is not supported"
            raise UnsupportedError(short(predicate), message, hint=hint, shape=term_text(nodes[0]))
    reader = ShapeReader(graph, terms)
    nodes = reader.nodes()
    if len(nodes) > _MOST_SHAPES:
        raise LimitError(
            f"the shapes graph has {len(nodes):,} shapes, {_MOST_SHAPES:,} at most",
            hint="put the shapes in parts, under several names",
        )
    return [shape for shape in map(reader.shape, nodes) if shape.targets]


class ShapeReader:
    """Reads the shapes of one graph; each node is read once."""

    def __init__(self, graph: ShapesGraph, terms: RuleTerms) -> None:
        self._graph, self._terms = graph, terms
        self._shapes: dict[Term, Shape] = {}
        self._open: list[Term] = []
        self._core = CoreReader(graph, terms, self._referred)
        self._sparql = SparqlReader(graph, terms)
        self._components = read_components(graph, self._sparql)
        self._classes = frozenset(graph.instances(CLASS))
        self._node_shapes = frozenset(graph.instances(_NODE_SHAPE))
        self._property_shapes = frozenset(graph.instances(_PROPERTY_SHAPE))

    def nodes(self) -> list[Term]:
        """Return the nodes that are shapes by their class, a target or a parameter (SHACL section 2.1).

        A node that is a shape only because another shape refers to it is read together with the other shape.
        """
        graph = self._graph
        found: dict[Term, None] = {}
        for class_iri in (_NODE_SHAPE, _PROPERTY_SHAPE):
            found.update(dict.fromkeys(graph.instances(class_iri)))
        custom = [iri for each in self._components for iri in each.parameters]
        for predicate in (*_TARGETS, *sorted(PARAMETERS, key=str), *custom):
            found.update(dict.fromkeys(graph.subjects_of(predicate)))
        return list(found)

    def shape(self, node: Term) -> Shape:
        """Return the shape at a node.

        Raises:
            ShapesInvalidError: the shape or a shape that it uses is ill-formed, or the shape uses itself.
        """
        known = self._shapes.get(node)
        if known is None:
            self._open.append(node)
            known = self._shapes[node] = self._read(node)
            self._open.pop()
        return known

    def _referred(self, node: Term, parameter: NamedNode, user: Term) -> Shape:
        if node in self._open:
            cycle = [term_text(each) for each in self._open[self._open.index(node) :]]
            raise ShapesInvalidError(
                user,
                parameter,
                f"must not lead back to the shape: {' → '.join((*cycle, cycle[0]))} is recursive",
            )
        if len(self._open) >= _DEEPEST:
            raise LimitError(
                f"the shape {term_text(self._open[0])} has more than {_DEEPEST} levels of shapes inside it",
                hint="give the inner shapes targets of their own",
            )
        return self.shape(node)

    def _read(self, node: Term) -> Shape:
        values = NodeValues(self._graph, node)
        path = None
        described = values.all(PATH)
        if described:
            if len(described) > 1:
                raise ShapesInvalidError(node, PATH, "must have one value", found=str(len(described)))
            path = read_path(self._graph, node, described[0])
        elif node in self._property_shapes:
            raise ShapesInvalidError(
                node, PATH, "must have one value, because the shape is an sh:PropertyShape"
            )
        if path is not None and node in self._node_shapes:
            raise ShapesInvalidError(node, PATH, "must have no value, because the shape is an sh:NodeShape")
        return Shape(
            node,
            tuple(self._targets(values)),
            path,
            None if path is None else PathSteps(path, self._terms),
            self._terms.id_of(path.iri) if isinstance(path, Link) else None,
            tuple(self._constraints(values, path)),
            values.iri(sh("severity")) or VIOLATION,
            values.messages(sh("message")),
            values.boolean(sh("deactivated")),
        )

    def _constraints(self, values: NodeValues, path: PathExpr | None) -> Iterator[Constraint]:
        yield from self._core.constraints(values, has_path=path is not None)
        yield from self._sparql.constraints(values, path)
        for each in self._components:
            yield from each.constraints(values, path, self._sparql)

    def _targets(self, values: NodeValues) -> Iterator[Target]:
        id_of = self._terms.id_of
        for node in values.all(_TARGET_NODE):
            if not isinstance(node, NamedNode | Literal):
                raise values.wrong(_TARGET_NODE, "must be an IRI or a literal", node)
            yield TargetNode(id_of(node))
        for iri in values.iris(_TARGET_CLASS):
            yield TargetClass(id_of(iri))
        for iri in values.iris(_SUBJECTS_OF):
            yield TargetSubjectsOf(id_of(iri), Link(iri))
        for iri in values.iris(_OBJECTS_OF):
            yield TargetObjectsOf(id_of(iri), Link(iri))
        if values.node in self._classes:
            if not isinstance(values.node, NamedNode):
                raise ShapesInvalidError(values.node, None, "is also an rdfs:Class, so it must be an IRI")
            yield TargetClass(id_of(values.node))
