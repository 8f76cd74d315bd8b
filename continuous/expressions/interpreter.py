"""Check for a Python interpreter that computes wrong answers."""

from __future__ import annotations

import sys
from typing import Any

from quadrill.store.errors import UnsupportedError


def require_sound_jit(version: tuple[object, ...] = sys.version_info, jit: Any = None) -> None:
    """Reject the experimental JIT compiler of CPython 3.14, because under it queries get wrong answers.

    The JIT compiler shares machine code between functions with the same code object, and the machine code
    reads the globals of the first function. The function `emitter._compiled` shares code objects between
    queries. ``jit`` is the object that reports whether the JIT compiler is on, by default ``sys._jit``.

    Raises:
        UnsupportedError: the JIT compiler is on.
    """
    jit = jit or getattr(sys, "_jit", None)
    if version[:2] == (3, 14) and jit is not None and jit.is_enabled():
        raise UnsupportedError(
            "the experimental JIT compiler of CPython 3.14",
            "continuous queries lose rows under the experimental JIT compiler of CPython 3.14",
            hint="start without it: PYTHON_JIT=0",
        )
