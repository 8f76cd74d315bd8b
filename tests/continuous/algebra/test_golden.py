"""Golden pairs: a query, a line of dashes, its algebra as it is evaluated and its static parts.

``QUADRILL_WRITE_GOLDEN=1`` writes the second halves anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quadrill.continuous.algebra.rewrites import prepare
from quadrill.continuous.algebra.show import show
from quadrill.continuous.algebra.static import split_static
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.language import parse

GOLDEN = Path(__file__).parents[2] / "golden"
RULE = "\n----\n"


def algebra_of(text: str) -> str:
    query = parse(text, parameters={"Name": "Ann"})
    root = prepare(query)
    rest, parts = split_static(root, in_scope(root))
    shown = [f"; query\n{show(query.root)}", f"; evaluated\n{show(rest)}"]
    for part in parts:
        columns = " ".join(f"?{var.name}" for var in part.vars)
        shown.append(f"; static {part.name}: {columns}\n{show(part.pattern)}")
    return "\n".join(shown) + "\n"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("algebra-*.txt")), ids=lambda path: path.stem)
def test_the_algebra_of(path: Path) -> None:
    text, _, expected = path.read_text().partition(RULE)
    found = algebra_of(text)
    if os.environ.get("QUADRILL_WRITE_GOLDEN"):
        path.write_text(text + RULE + found)
    assert found == expected
