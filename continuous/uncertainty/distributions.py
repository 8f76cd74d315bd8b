"""Probability distributions as RDF literals: ``"N(mean, variance)"`` and ``"U(low, high)"``.

The datatype of distribution literals is ``rspu:distribution``; the second parameter of N is the variance, not
the standard deviation (Keskisärkkä, Blomqvist and Hartig, Optimizing RDF Stream Processing for Uncertainty
Management, section 2). Where a distribution is expected, a plain number is treated as a normal distribution
with variance 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from pyoxigraph import Literal, NamedNode

from ..algebra import uncertain
from ..algebra.nodes import Term
from ..algebra.set_functions import NotNumericError, double_text, numeric_value

NAMESPACE = uncertain.NAMESPACE
DISTRIBUTION = NamedNode(NAMESPACE + "distribution")

_NUMBER = r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
_FORM = re.compile(rf"\s*([A-Za-z]+)\s*\({_NUMBER},{_NUMBER}\)\s*\Z")


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution; variance 0 stands for the exact value ``mean``."""

    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Uniform:
    """A uniform distribution on [low, high]; equal bounds stand for an exact value."""

    low: float
    high: float


Distribution: TypeAlias = Normal | Uniform


def certain(value: float) -> Normal:
    """Return the distribution of an exact number: a normal distribution with variance 0."""
    return Normal(value, 0.0)


def certain_value(distribution: Distribution) -> float | None:
    """Return the exact value of a distribution without spread, else None."""
    match distribution:
        case Normal(mean, variance):
            return mean if variance == 0 else None
        case Uniform(low, high):
            return low if low == high else None


@lru_cache(maxsize=65536)
def parse_distribution(term: Term) -> Distribution | None:
    """Parse an ``rspu:distribution`` literal; return None for any other term and for a malformed literal.

    >>> parse_distribution(Literal("N(19.7, 1)", datatype=DISTRIBUTION))
    Normal(mean=19.7, variance=1.0)
    """
    if not isinstance(term, Literal) or term.datatype != DISTRIBUTION:
        return None
    found = _FORM.match(term.value)
    if found is None:
        return None
    first, second = float(found[2]), float(found[3])
    if not (math.isfinite(first) and math.isfinite(second)):
        return None
    match found[1]:
        case "N" if second >= 0:
            return Normal(first, second)
        case "U" if first <= second:
            return Uniform(first, second)
    return None


def parse_operand(term: Term) -> Distribution | None:
    """Return the distribution of an ``rspu:distribution`` literal or finite number; None for other terms."""
    distribution = parse_distribution(term)
    if distribution is not None:
        return distribution
    try:
        value = float(numeric_value(term)[0])
    except (NotNumericError, OverflowError):
        return None
    return certain(value) if math.isfinite(value) else None


def distribution_literal(distribution: Distribution) -> Literal | None:
    """Return the literal of a distribution; None if a parameter is infinite or NaN.

    >>> distribution_literal(Normal(0.5, 2.0)).value
    'N(0.5, 2)'
    """
    match distribution:
        case Normal(first, second):
            letter = "N"
        case Uniform(first, second):
            letter = "U"
    if not (math.isfinite(first) and math.isfinite(second)):
        return None
    return Literal(f"{letter}({double_text(first)}, {double_text(second)})", datatype=DISTRIBUTION)
