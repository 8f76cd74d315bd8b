"""The client that waits is the one with an event loop, without its event loop."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest

from .unasync import FOLDER, WRITTEN, synchronous


def comments_of(source: str) -> list[str]:
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in found if token.type == tokenize.COMMENT]


def imports_sorted(tree: ast.Module) -> str:
    """The module as text, its imports in one order, whatever its layout."""
    lines = ast.unparse(tree).splitlines()
    head = [line for line in lines if line.startswith(("from ", "import "))]
    return "\n".join([*sorted(head), *[line for line in lines if line not in head]])


@pytest.mark.parametrize(("source", "written"), WRITTEN.items())
def test_the_written_module_is_up_to_date(source: str, written: str) -> None:
    wanted = synchronous(source)
    present = (FOLDER / f"{written}.py").read_text(encoding="utf-8")
    hint = "run `make client`"
    assert imports_sorted(ast.parse(present)) == imports_sorted(ast.parse(wanted)), hint
    assert comments_of(present) == comments_of(wanted), hint


@pytest.mark.parametrize(("source", "written"), WRITTEN.items())
def test_nothing_asynchronous_is_left(source: str, written: str) -> None:
    present = (FOLDER / f"{written}.py").read_text(encoding="utf-8").lower().replace(f"`{source}`", "")
    assert not [word for word in ("async", "await") if word in present]
