"""Bulk loads: one commit adds the quads of RDF files; malformed lines go to a quarantine file."""

from .direct import prepare_direct
from .load import BulkLoader, LoadOptions, LoadProgress, LoadSummary
from .purge import RetentionLimits
from .work import LoadCancelledError, LoadError

__all__ = [
    "BulkLoader",
    "RetentionLimits",
    "LoadCancelledError",
    "LoadError",
    "LoadOptions",
    "LoadSummary",
    "LoadProgress",
    "prepare_direct",
]
