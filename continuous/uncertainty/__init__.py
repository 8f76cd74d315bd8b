"""Uncertain values: distribution literals and the rspu functions of the RSP-QL* papers."""

from .distributions import DISTRIBUTION, NAMESPACE, Normal, Uniform, distribution_literal, parse_distribution
from .functions import custom_aggregates, custom_functions

__all__ = [
    "DISTRIBUTION",
    "NAMESPACE",
    "Normal",
    "Uniform",
    "custom_aggregates",
    "custom_functions",
    "distribution_literal",
    "parse_distribution",
]
