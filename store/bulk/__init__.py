"""Bulk loads: many and large files become one commit, bad lines go to a quarantine file."""

from .direct import prepare_direct
from .load import BulkLoader, LoadOptions, LoadSummary, Progress
from .purge import Kept
from .work import LoadCancelledError, LoadError

__all__ = [
    "BulkLoader",
    "Kept",
    "LoadCancelledError",
    "LoadError",
    "LoadOptions",
    "LoadSummary",
    "Progress",
    "prepare_direct",
]
