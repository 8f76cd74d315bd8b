"""Validation results: what a shape found wrong at one focus node (SHACL section 3.6.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode

from ..algebra.nodes import PathExpr, Term


@dataclass(frozen=True, slots=True)
class Result:
    """One validation result. Results are equal if all members except the messages are equal.

    The results of a validation are a multiset: equal results may occur more than once.

    Attributes:
        focus: the focus node.
        path: the path of a property shape, or the path that a constraint reports; None for none.
        value: the value node that is wrong; None if no single value is.
        shape: the node of the shape that has the constraint.
        component: the IRI of the constraint component.
        constraint: the node of a SPARQL-based constraint; None for other constraints.
        severity: the IRI of the severity.
        messages: plain or language-tagged strings; at least one for built-in constraints.
    """

    focus: Term
    path: PathExpr | None
    value: Term | None
    shape: Term
    component: NamedNode
    constraint: Term | None
    severity: NamedNode
    messages: tuple[Literal, ...] = field(default=(), compare=False)
