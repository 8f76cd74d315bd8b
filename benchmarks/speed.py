"""How fast this machine is for Python just now: a fixed loop, to judge figures of different days by.

No figure is multiplied by it: what a machine would reach that is not here is not known.
"""

from __future__ import annotations

import time

LOOPS = 200_000
ROUNDS = 5


def loops_per_second() -> float:
    """Millions of steps a CPU second of a loop over a dictionary, integers and text; the best round."""
    return max(_round() for _ in range(ROUNDS)) / 1e6


def _round() -> float:
    held: dict[int, str] = {}
    begin = time.thread_time()
    for number in range(LOOPS):
        key = number * 7919 & 4095
        before = held.get(key)
        held[key] = f"{number}:{key}" if before is None else before
    return LOOPS / (time.thread_time() - begin)
