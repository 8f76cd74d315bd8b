"""Distribution literals and the ``rspu`` functions of the RSP-QL* papers on uncertain values."""

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
