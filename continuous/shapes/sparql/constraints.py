"""SPARQL-based constraints: queries whose answers become validation results (SHACL section 5.3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.terms import Term, term_text

from ...algebra.nodes import Link, PathExpr
from ...rules.facts import Facts
from ..data_graph import DataGraph
from ..dependencies import Dependencies
from ..errors import ShapesFailureError
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import BOOLEAN, STRING
from .bound_query import BoundQuery
from .dependencies import query_dependencies
from .shapes_facts import ShapesFacts

_PLACE = re.compile(r"\{[?$](\w+)\}")
_FAILED = Literal("true", datatype=BOOLEAN)


@dataclass(frozen=True, slots=True)
class Validator:
    """The common base of SELECT and ASK validators.

    Attributes:
        query: the query.
        component: the IRI of the constraint component.
        constraint: the node of an sh:sparql constraint; None for a validator of a component.
        values: the ids of the pre-bound variables that are the same for all focus nodes.
        messages: templates of messages, with the names of variables as ``{?name}`` or ``{$name}``.
        shapes_graph: the shapes graph, if the query reads it.
    """

    query: BoundQuery
    component: NamedNode
    constraint: Term | None
    values: Mapping[str, int]
    messages: tuple[Literal, ...]
    shapes_graph: ShapesFacts | None = None

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the triples that the answer of the query depends on."""
        return query_dependencies(self.query, path)

    def candidates(self, values: ValueSets) -> None:
        """Return None: the query is evaluated at each focus node."""
        return

    def facts(self, data: DataGraph) -> Facts:
        """Return the facts that the query reads: the data, and the shapes graph if the query names it."""
        return data.facts if self.shapes_graph is None else self.shapes_graph.added_to(data.facts)

    def result(
        self,
        shape: Shape,
        data: DataGraph,
        focus: int,
        value: int | None,
        row: Mapping[str, int],
        path: PathExpr | None = None,
    ) -> Result:
        """Return the validation result for one solution; its messages can contain the values of variables."""
        return Result(
            data.term(focus),
            shape.path if path is None else path,
            None if value is None else data.term(value),
            shape.node,
            self.component,
            self.constraint,
            shape.severity,
            self._messages(shape, data, row),
        )

    def _messages(self, shape: Shape, data: DataGraph, row: Mapping[str, int]) -> tuple[Literal, ...]:
        own = data.literal(row["message"]) if "message" in row else None
        if own is not None and (own.language is not None or own.datatype == STRING):
            return (own,)
        templates = self.messages or shape.messages
        if not templates:
            where = term_text(self.constraint or self.component)
            return (Literal(f"{term_text(data.term(row['this']))} violates the SPARQL constraint {where}"),)
        texts = {name: _text(data.term(term_id)) for name, term_id in row.items()}
        return tuple(_filled(template, texts) for template in templates)


class SelectValidator(Validator):
    """A SELECT query of ``sh:sparql`` or of a constraint component; each solution is one result."""

    __slots__ = ()

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each solution.

        Raises:
            ShapesFailureError: a solution binds ?failure to true.
        """
        for row in self.query.rows(self.facts(data), {**self.values, "this": focus}):
            if "failure" in row and data.term(row["failure"]) == _FAILED:
                where = term_text(self.constraint or self.component)
                raise ShapesFailureError(
                    f"the query of {where} reports a failure at the node {term_text(data.term(focus))}",
                    hint="the query binds ?failure to true; see its text",
                    shape=term_text(shape.node),
                )
            path = data.term(row["path"]) if "path" in row else None
            value = row.get("value", focus if shape.path is None else None)
            found = Link(path) if isinstance(path, NamedNode) else None
            yield self.result(shape, data, row.get("this", focus), value, row, found)


class AskValidator(Validator):
    """An ASK query of a constraint component, which is true for each value node that conforms."""

    __slots__ = ()

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each value node for which the query is false."""
        facts = self.facts(data)
        for value in values:
            row = {**self.values, "this": focus, "value": value}
            if not self.query.holds(facts, row):
                yield self.result(shape, data, focus, value, row)


def _filled(template: Literal, texts: Mapping[str, str]) -> Literal:
    """Return a message in which values replace variables; variables without a value stay as they are."""
    text = _PLACE.sub(lambda found: texts.get(found[1], found[0]), template.value)
    return Literal(text) if template.language is None else Literal(text, language=template.language)


def _text(term: Term) -> str:
    return term.value if isinstance(term, Literal | NamedNode | BlankNode) else term_text(term)
