"""Reading of SPARQL-based constraint components (SHACL section 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from pyoxigraph import NamedNode

from quadrill.store.terms import Term

from ...algebra.nodes import PathExpr
from ..errors import ShapesInvalidError
from ..paths_in_rdf import PATH
from ..shape import Constraint
from ..vocabulary import SH, sh
from .graph import NodeValues, ShapesGraph
from .sparql import ASK, SELECT, SparqlReader, ValidatorText

_CONSTRAINT_COMPONENT, _PARAMETER, _OPTIONAL = sh("ConstraintComponent"), sh("parameter"), sh("optional")
_VALIDATOR = sh("validator")
_NODE_VALIDATOR, _PROPERTY_VALIDATOR = sh("nodeValidator"), sh("propertyValidator")
_LOCAL_NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_]\w*\Z")
_RESERVED = frozenset(("this", "shapesGraph", "currentShape", "path", "PATH", "value"))


@dataclass(frozen=True, slots=True)
class CustomComponent:
    """One SPARQL-based constraint component, which a shapes graph defines.

    Attributes:
        iri: the IRI of the component.
        parameters: the variables of the mandatory parameters, by the property with which shapes set them.
        optional: the variables of the optional parameters, by the property with which shapes set them.
        validators: the query for each of sh:validator, sh:nodeValidator and sh:propertyValidator.
    """

    iri: NamedNode
    parameters: dict[NamedNode, str]
    optional: dict[NamedNode, str]
    validators: dict[NamedNode, ValidatorText]

    def constraints(
        self, shape: NodeValues, path: PathExpr | None, reader: SparqlReader
    ) -> Iterator[Constraint]:
        """Yield the constraints of a shape that has values for all mandatory parameters."""
        own = _NODE_VALIDATOR if path is None else _PROPERTY_VALIDATOR
        query = self.validators.get(own) or self.validators.get(_VALIDATOR)
        mandatory = [[(name, value) for value in shape.all(iri)] for iri, name in self.parameters.items()]
        if query is None or not all(mandatory):
            return
        optional = [[(name, value) for value in shape.all(iri)] for iri, name in self.optional.items()]
        columns = [*mandatory, *(values for values in optional if values)]
        if len(self.parameters) + len(self.optional) > 1:
            for iri in (*self.parameters, *self.optional):
                shape.one(iri)
        potential = (*self.parameters.values(), *self.optional.values())
        for values in product(*columns):
            given: dict[str, Term] = dict(values)
            yield reader.validator(query, shape.node, path, self.iri, given, potential=potential)


def read_components(graph: ShapesGraph, reader: SparqlReader) -> list[CustomComponent]:
    """Return the SPARQL-based constraint components of a shapes graph.

    Raises:
        ShapesInvalidError: a component is ill-formed.
    """
    return [
        _component(NodeValues(graph, node), reader)
        for node in graph.instances(_CONSTRAINT_COMPONENT)
        if not (isinstance(node, NamedNode) and node.value.startswith(SH))
    ]


def _component(values: NodeValues, reader: SparqlReader) -> CustomComponent:
    if not isinstance(values.node, NamedNode):
        raise ShapesInvalidError(values.node, None, "is a constraint component, so it must be an IRI")
    mandatory: dict[NamedNode, str] = {}
    optional: dict[NamedNode, str] = {}
    for node in values.all(_PARAMETER):
        parameter = NodeValues(values.graph, node)
        iri = parameter.iri(PATH)
        if iri is None:
            raise ShapesInvalidError(node, PATH, "must be an IRI, because the node is a parameter")
        into = optional if parameter.boolean(_OPTIONAL) else mandatory
        into[iri] = _variable(values.node, iri)
    if not mandatory:
        raise ShapesInvalidError(values.node, _PARAMETER, "must have a value that is not optional")
    names = [*mandatory.values(), *optional.values()]
    if len(set(names)) < len(names):
        raise ShapesInvalidError(values.node, _PARAMETER, "must have different local names")
    validators = {}
    for predicate, forms in (
        (_VALIDATOR, (ASK,)),
        (_NODE_VALIDATOR, (SELECT, ASK)),
        (_PROPERTY_VALIDATOR, (SELECT, ASK)),
    ):
        node_of = values.one(predicate)
        if node_of is not None:
            validators[predicate] = reader.query(NodeValues(values.graph, node_of), forms)
    return CustomComponent(values.node, mandatory, optional, validators)


def _variable(owner: Term, iri: NamedNode) -> str:
    """Return the local name of a parameter, which is the name of its variable (section 6.2.1)."""
    found = _LOCAL_NAME.search(iri.value)
    name = found[0] if found else ""
    if not _VARIABLE.match(name) or name in _RESERVED:
        expected = "must have a local name that is a free variable name of SPARQL"
        raise ShapesInvalidError(owner, _PARAMETER, expected, found=str(iri))
    return name
