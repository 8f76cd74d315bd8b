"""Interpreters that would answer wrongly are refused before anything is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quadrill.continuous.expressions.interpreter import require_sound_jit
from quadrill.store.errors import UnsupportedError

ON, OFF = (SimpleNamespace(is_enabled=lambda on=on: on) for on in (True, False))
COUNT = """
def count(things):
    found = 0
    for thing in things:
        if thing is MARK: found += 1
    return found
"""


def test_the_jit_of_3_14_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedError, match="JIT compiler of CPython 3.14") as refused:
        require_sound_jit((3, 14, 10, "final", 0), ON)
    assert "PYTHON_JIT=0" in str(refused.value.hint)


@pytest.mark.parametrize("version", [(3, 11, 5), (3, 13, 5), (3, 14, 10), (3, 15, 2)])
def test_every_other_is_taken(version: tuple[int, ...]) -> None:
    require_sound_jit(version, OFF)
    if version[:2] != (3, 14):
        require_sound_jit(version, ON)


def test_functions_of_one_code_have_globals_of_their_own() -> None:
    """Queries that are alike share compiled code: here 3.14.10 with its JIT counts 500 for the second one."""
    code = compile(COUNT, "<shared>", "exec")
    for _ in range(8):
        mark = object()
        space: dict[str, Any] = {"MARK": mark}
        exec(code, space)
        assert [space["count"]([mark] * 1000) for _ in range(50)] == [1000] * 50
