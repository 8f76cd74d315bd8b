"""Errors of shapes: ill-formed shapes graphs (HTTP 400), and validations that fail (HTTP 422)."""

from __future__ import annotations

from pyoxigraph import NamedNode

from quadrill.store.errors import ConflictError, InputError, RefusedChangeError
from quadrill.store.terms import Term, term_text

from .vocabulary import short


class ShapesInvalidError(InputError):
    """A shapes graph is ill-formed; ``details`` name the shape, the property and what SHACL asks for."""

    code = "shapes-invalid"

    def __init__(self, shape: Term, predicate: NamedNode | None, expected: str, *, found: str = "") -> None:
        """Describe one broken rule.

        Args:
            shape: the node of the shape, constraint or path.
            predicate: the property of the node whose values are wrong.
            expected: what SHACL asks for, as the rest of a sentence, for instance ``must be an IRI``.
            found: what the shapes graph has instead.
        """
        subject = f"the shape {term_text(shape)}"
        if predicate is not None:
            subject = f"{short(predicate)} of {subject}"
        details = {"shape": term_text(shape), "expected": expected}
        if predicate is not None:
            details["property"] = predicate.value
        super().__init__(f"{subject} {expected}{f', not {found}' if found else ''}", **details)


class ValidationStoppedError(RefusedChangeError):
    """A validation ended without a report: HTTP 422."""

    def of_shapes(self, name: str) -> ValidationStoppedError:
        """Return this error with the name of the shapes in its message and its details."""
        message = f"the shapes {name}: {self.message}"
        return type(self)(message, hint=self.hint, **{**self.details, "shapes": name})


class ShapesBudgetError(ValidationStoppedError):
    """A validation takes longer, or has more results, than the budget of its shapes allows."""

    code = "shapes-budget"


class ShapesFailureError(ValidationStoppedError):
    """The query of a SPARQL-based constraint binds ?failure to true, because it cannot decide."""

    code = "shapes-failure"


class ShapesFailedError(ConflictError):
    """Shapes have no report, because one of their validations was stopped: HTTP 409."""

    code = "shapes-failed"
