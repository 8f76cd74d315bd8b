"""Violations that a commit would add: their number, and the error that refuses the commit."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from pyoxigraph import RdfFormat, Triple, serialize

from quadrill.store.errors import RefusedChangeError

from .kept_results import KeptResults, ResultChange, difference
from .report import report_triples
from .result import Result
from .vocabulary import RDF, SH, VIOLATION, XSD

_MOST_REPORTED = 1_000
"""Maximum number of violations in the report of an error; the member ``results`` of the error counts all."""
PREFIXES = {"sh": SH, "xsd": XSD, "rdf": RDF}


class ViolationError(RefusedChangeError):
    """A write adds violations of shapes with mode reject: HTTP 422."""

    code = "shacl-violation"


def added_violations(kept: KeptResults, change: ResultChange) -> list[Result]:
    """Return the results of severity sh:Violation that a change adds to ``kept``."""
    added, _ = difference(kept, change)
    return violations_of(added.elements())


def violations_of(results: Iterable[Result]) -> list[Result]:
    """Return the results of severity sh:Violation."""
    return [result for result in results if result.severity == VIOLATION]


def violation_error(name: str, violations: Sequence[Result], what: str = "change") -> ViolationError:
    """Return the error for a write that adds violations of the shapes ``name``; ``what`` names the write."""
    first = violations[0]
    message = first.messages[0].value if first.messages else f"{first.component}"
    more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
    listed = "all" if len(violations) <= _MOST_REPORTED else f"the first {_MOST_REPORTED:,}"
    return ViolationError(
        f"the {what} violates the shapes {name}: {message} (focus node {first.focus}{more})",
        hint=f"correct the data, or put the shapes with mode=warn; the member report has {listed} violations",
        shapes=name,
        results=len(violations),
        report=report_turtle(violations[:_MOST_REPORTED]),
    )


def report_turtle(results: Sequence[Result]) -> str:
    """Return a validation report in Turtle."""
    triples = [Triple(*each) for each in report_triples(results)]
    text = io.BytesIO()
    serialize(triples, text, RdfFormat.TURTLE, prefixes=PREFIXES)
    return text.getvalue().decode()
