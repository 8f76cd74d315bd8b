"""Reading of sh:sparql constraints and of the queries of validators (SHACL sections 5.2 and 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.terms import Term, term_text

from ...algebra import nodes as n
from ...algebra.build import all_nodes, expressions, sub_expressions
from ...algebra.query import ContinuousQuery
from ...algebra.variables import in_scope, mentioned
from ...expressions.functions import VOLATILE
from ...language.context import NOISE
from ...language.parser import parse
from ...rules.terms import RuleTerms
from ..errors import ShapesInvalidError
from ..paths_in_rdf import path_text
from ..shape import Constraint
from ..sparql.bound_query import BoundQuery
from ..sparql.constraints import AskValidator, SelectValidator, Validator
from ..sparql.shapes_facts import ShapesFacts
from ..vocabulary import ANY_URI, component, sh, short
from .graph import NodeValues, ShapesGraph

SPARQL, SELECT, ASK = sh("sparql"), sh("select"), sh("ask")
_PREFIXES, _DECLARE, _PREFIX, _NAMESPACE = sh("prefixes"), sh("declare"), sh("prefix"), sh("namespace")
_MESSAGE, _DEACTIVATED = sh("message"), sh("deactivated")
_IMPORTS = NamedNode("http://www.w3.org/2002/07/owl#imports")
_COMPONENT = component("SPARQL")
_OPTIONAL = frozenset(("shapesGraph", "currentShape"))
"""Pre-bound variables that a sub-select need not return."""
_BASE = "http://localhost/"
_PATH = re.compile(rf"({NOISE.pattern})|[?$]PATH\b")


@dataclass(frozen=True, slots=True)
class ValidatorText:
    """The query of a constraint or validator in a shapes graph.

    Attributes:
        node: the node that has the property sh:select or sh:ask.
        text: the text of the query, with its prefixes.
        ask: True for sh:ask, False for sh:select.
        messages: the values of sh:message.
    """

    node: Term
    text: str
    ask: bool
    messages: tuple[Literal, ...]

    @property
    def predicate(self) -> NamedNode:
        """The property whose value is the query: sh:select or sh:ask."""
        return ASK if self.ask else SELECT


@dataclass(frozen=True, slots=True)
class SparqlReader:
    """Reads the queries of a shapes graph, and creates constraints that evaluate them."""

    graph: ShapesGraph
    terms: RuleTerms
    _shapes: list[ShapesFacts] = field(default_factory=list)

    def constraints(self, shape: NodeValues, path: n.PathExpr | None) -> Iterator[Constraint]:
        """Yield the sh:sparql constraints of a shape.

        Raises:
            ShapesInvalidError: a constraint is ill-formed.
            UnsupportedError: a query uses a feature of SPARQL that constraints do not support.
        """
        for node in shape.all(SPARQL):
            constraint = NodeValues(self.graph, shape.as_node(SPARQL, node))
            query = self.query(constraint, (SELECT,))
            if not constraint.boolean(_DEACTIVATED):
                yield self.validator(query, shape.node, path, _COMPONENT, {}, source=node)

    def query(self, values: NodeValues, forms: Iterable[NamedNode]) -> ValidatorText:
        """Return the query of a constraint or validator; ``forms`` are the properties that may have it."""
        found = [(form, text) for form in forms if (text := values.text(form)) is not None]
        if len(found) != 1:
            names = " or ".join(map(short, forms))
            raise ShapesInvalidError(values.node, None, f"must have one value of {names}")
        form, text = found[0]
        return ValidatorText(
            values.node, f"{self._prologue(values)}\n{text}", form == ASK, values.messages(_MESSAGE)
        )

    def validator(
        self,
        query: ValidatorText,
        shape: Term,
        path: n.PathExpr | None,
        component_iri: NamedNode,
        parameters: Mapping[str, Term],
        *,
        source: Term | None = None,
        potential: Iterable[str] = (),
    ) -> Constraint:
        """Return the constraint of a shape that evaluates a query.

        Args:
            query: the query.
            shape: the node of the shape.
            path: the path of the shape, for $PATH.
            component_iri: the IRI of the constraint component.
            parameters: the values of the parameters of the component, by variable.
            source: the node of an sh:sparql constraint; None for a constraint component.
            potential: the names of all parameters of the component, also of those without a value.
        """
        text = query.text if path is None else _with_path(query.text, path)
        parsed = self._parsed(query, text)
        expected = "ask" if query.ask else "select"
        if parsed.form != expected:
            raise _ill(query, f"must be a query of the form {expected.upper()}", parsed.form.upper())
        values = dict(parameters)
        names = {"this", *potential, *values} | ({"value"} if query.ask else set())
        _check(query, parsed, frozenset(names))
        used = mentioned(parsed.root)
        values["currentShape"] = shape
        reads_shapes = "shapesGraph" in used
        ids = {name: self.terms.id_of(value) for name, value in values.items()}
        facts = self._shapes_facts() if reads_shapes else None
        if facts is not None:
            ids["shapesGraph"] = facts.name
        prebound = frozenset(("this", *ids)) | ({"value"} if query.ask else frozenset())
        kind: type[Validator] = AskValidator if query.ask else SelectValidator
        bound = BoundQuery(parsed, prebound, self.terms)
        return kind(bound, component_iri, source, ids, query.messages, facts)  # type: ignore[return-value]

    def _shapes_facts(self) -> ShapesFacts:
        if not self._shapes:
            self._shapes.append(ShapesFacts(self.graph.triples(), self.terms))
        return self._shapes[0]

    def _parsed(self, query: ValidatorText, text: str) -> ContinuousQuery:
        try:
            return parse(text, base_iri=self.terms.context.base_iri or _BASE)
        except UnsupportedError as error:
            error.details.setdefault("shape", term_text(query.node))
            raise
        except QueryTextError as error:
            raise _ill(query, f"must be a SPARQL query: {error.message}") from error

    def _prologue(self, values: NodeValues) -> str:
        """Return the PREFIX declarations of a query (section 5.2.1), on one line."""
        found: dict[str, str] = {}
        for node in values.all(_PREFIXES):
            for owner in self._imported(node):
                for each in self.graph.objects(owner, _DECLARE):
                    declaration = NodeValues(self.graph, each)
                    prefix, namespace = declaration.text(_PREFIX), declaration.literal(_NAMESPACE)
                    if prefix is None or namespace is None or namespace.datatype != ANY_URI:
                        expected = "must have an xsd:string sh:prefix and an xsd:anyURI sh:namespace"
                        raise ShapesInvalidError(owner, _DECLARE, expected)
                    if found.setdefault(prefix, namespace.value) != namespace.value:
                        expected = f"must not have two namespaces for the prefix {prefix!r}"
                        raise ShapesInvalidError(values.node, _PREFIXES, expected)
        return " ".join(f"PREFIX {prefix}: <{iri}>" for prefix, iri in found.items())

    def _imported(self, node: Term) -> list[Term]:
        found = [node]
        for each in found:
            found += [other for other in self.graph.objects(each, _IMPORTS) if other not in found]
        return found


def _with_path(text: str, path: n.PathExpr) -> str:
    """Return a query text with the path of a property shape in place of $PATH."""
    shown = f" {path_text(path)} "
    return _PATH.sub(lambda found: found[1] or shown, text)


def _check(query: ValidatorText, parsed: ContinuousQuery, potential: frozenset[str]) -> None:
    """Raise an error for features that constraint queries must not use (SHACL 5.2.1 and appendix A)."""
    if not query.ask and "this" not in in_scope(parsed.root):
        raise _ill(query, "must return the variable this")
    if parsed.windows or parsed.dataset.default or parsed.dataset.named:
        raise _ill(query, "must not name windows or datasets", "FROM or a window")
    outer = _outermost(parsed.root)
    for node in all_nodes(parsed.root):
        match node:
            case n.Minus():
                raise _ill(query, "must not use MINUS")
            case n.Values():
                raise _ill(query, "must not use VALUES")
            case n.Service():
                raise _ill(query, "must not use SERVICE")
            case n.Extend(_, var, _) if var.name in potential | _OPTIONAL:
                raise _ill(query, f"must not assign the pre-bound variable {var.name}")
            case n.Project(_, variables) if node is not outer:
                missing = sorted(potential - {each.name for each in variables})
                if missing:
                    expected = "must return the pre-bound variables from each sub-select"
                    raise _ill(query, expected, f"one without {missing[0]}")
            case n.Slice() if node is not parsed.root:
                raise UnsupportedError("LIMIT in a sub-select", shape=term_text(query.node))
        for expression in expressions(node):
            for each in sub_expressions(expression):
                if isinstance(each, n.Call) and each.name in VOLATILE:
                    raise UnsupportedError(
                        f"{each.name}() in a constraint",
                        hint="results must be a function of the data and the shapes",
                        shape=term_text(query.node),
                    )


def _outermost(root: n.Algebra) -> n.Algebra:
    while isinstance(root, n.Slice | n.Distinct):
        root = root.input
    return root


def _ill(query: ValidatorText, expected: str, found: str = "") -> ShapesInvalidError:
    return ShapesInvalidError(query.node, query.predicate, expected, found=found)
