"""Validation of the elements of a push by the shapes that the stream's declaration names."""

from __future__ import annotations

import time
from dataclasses import replace

from quadrill.store.documents.element_terms import relabel_blank_nodes
from quadrill.store.documents.statements import quads_of
from quadrill.store.errors import ReportedError
from quadrill.store.pushes.decode import BadElement, DecodedElement, DecodedPush, MisshapenElement
from quadrill.store.registry.records import StreamRecord

from ..shapes.conformance import Conformance
from ..shapes.errors import ShapesBudgetError, ShapesFailedError, ValidationStoppedError
from ..shapes.result import Result
from ..shapes.violations import ViolationError, violation_error, violations_of


def with_conforming_elements(
    decoded: DecodedPush,
    record: StreamRecord,
    shapes: str,
    conformance: Conformance,
    *,
    partial: bool,
    most_ms: int | None = None,
) -> DecodedPush:
    """Return a push without the elements that would add a violation to the data.

    The elements left out are in the member ``misshapen`` of the returned push, or in ``bad`` if the stream
    refuses elements that do not conform. Once a validation exceeds its budget, the remaining elements are not
    validated, and count as elements that do not conform.

    Args:
        decoded: the push.
        record: the record of the stream.
        shapes: the name of the shapes.
        conformance: the registered shapes.
        partial: True if the answer lists bad elements.
        most_ms: a time limit for all elements together, in milliseconds; None for none. An element may take a
            tenth of it, or ``max_time`` of the shapes if this is lower.

    Raises:
        ViolationError: an element does not conform, the stream refuses such elements, and the push is not
            partial.
        ShapesFailedError, ValidationStoppedError: an element could not be validated, the stream refuses such
            elements, and the push is not partial.
        NotFoundError: there are no such shapes.
    """
    refused = record.on_violation == "refuse"
    whole = refused and not partial
    good: list[DecodedElement] = []
    bad = list(decoded.bad)
    misshapen: list[MisshapenElement] = []
    violations: list[Result] = []
    refusals = 0
    stopped: ReportedError | None = None
    until = time.monotonic() + (most_ms or 0) / 1_000
    for element in decoded.elements:
        error = stopped
        if error is None:
            try:
                limit = None if most_ms is None else _element_ms(most_ms, until)
                found = _violations(element, record.iri, shapes, conformance, limit)
                if not found:
                    good.append(element)
                    continue
                if whole:
                    violations += found
                error = violation_error(shapes, found, "element")
            except (ShapesFailedError, ValidationStoppedError) as failure:
                error = stopped = _named(failure, shapes)
        if whole:
            if isinstance(error, ViolationError):
                continue
            raise error
        source = decoded.records.pop(element.place, None)
        if not refused:
            misshapen.append(MisshapenElement(element, error.message, error.details.get("report")))
        if partial:
            text = source.excerpt() if refused and source is not None else None
            refusals += refused
            bad.append(BadElement(element.place, error.message, element.line, None, text))
    if violations:
        raise violation_error(shapes, violations, "push")
    bad.sort(key=lambda each: each.line or 0)
    return replace(decoded, elements=good, bad=bad, misshapen=misshapen, refused=refusals)


def require_conforming(element: DecodedElement, stream: str, shapes: str, conformance: Conformance) -> None:
    """Raise ViolationError if an element of a stream would add a violation to the data."""
    found = _violations(element, stream, shapes, conformance, None)
    if found:
        raise violation_error(shapes, found, "element")


def _violations(
    element: DecodedElement, stream: str, shapes: str, conformance: Conformance, most_ms: int | None
) -> list[Result]:
    statements = element.statements
    if element.blank:  # a blank node of the document must not be one of the data
        statements = relabel_blank_nodes(statements, stream, 0)
    return violations_of(conformance.added_by(shapes, quads_of(statements), most_ms=most_ms))


def _element_ms(most_ms: int, until: float) -> int:
    """Return the time limit for the next element: a tenth of that of all, or what is left of it."""
    left = int((until - time.monotonic()) * 1_000)
    if left <= 0:
        raise ShapesBudgetError(
            f"the validation of the elements of one message takes longer than {most_ms} ms",
            hint="send fewer elements in a message, or push them in the body of a request",
            max_time_ms=most_ms,
        )
    return max(1, min(most_ms // 10, left))


def _named(error: ReportedError, shapes: str) -> ReportedError:
    return error.of_shapes(shapes) if isinstance(error, ValidationStoppedError) else error
