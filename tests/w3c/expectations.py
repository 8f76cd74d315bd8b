"""The strict list of cases that are known to fail, each with its reason."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.w3c.manifests import Case

LIST = Path(__file__).parent / "expected_failures.toml"


@cache
def expected_failures() -> dict[str, str]:
    """Case key -> reason."""
    return {
        key: entry
        for table in tomllib.loads(LIST.read_text("utf-8")).values()
        for key, entry in table.items()
    }


def params(selected: list[Case]) -> list[object]:
    """Parametrisation of a test over cases; a listed case must fail, and says why."""
    failures = expected_failures()
    marked = []
    for case in selected:
        marks = [pytest.mark.xfail(strict=True, reason=failures[case.key])] if case.key in failures else []
        marked.append(pytest.param(case, id=case.key, marks=marks))
    return marked
