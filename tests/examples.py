"""How many random examples the heavy tests of laws try."""

from __future__ import annotations

import os

ALL = os.environ.get("TEST_QUADRILL_EXAMPLES") == "all"
"""Set by ``make test-all``."""


def examples(most: int) -> int:
    """The ``max_examples`` of a law: a fifth of ``most``, others in each run; all in ``make test-all``."""
    return most if ALL else (most + 4) // 5
