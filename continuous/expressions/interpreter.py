"""What of Python's interpreters makes answers wrong."""

from __future__ import annotations

import sys
from typing import Any

from quadrill.store.errors import UnsupportedError


def require_sound_jit(version: tuple[object, ...] = sys.version_info, jit: Any = None) -> None:
    """Refuse the experimental compiler of CPython 3.14: it makes answers of queries wrong.

    What it compiled for one function serves every other that has the same code, and reads the globals of the
    first: those of two queries or engines, by `compile._compiled`. ``jit`` is what tells of it, by default
    Python's.

    Raises:
        UnsupportedError: it is on.
    """
    jit = jit or getattr(sys, "_jit", None)
    if version[:2] == (3, 14) and jit is not None and jit.is_enabled():
        raise UnsupportedError(
            "the experimental JIT compiler of CPython 3.14",
            "continuous queries lose rows under the experimental JIT compiler of CPython 3.14",
            hint="start without it: PYTHON_JIT=0",
        )
