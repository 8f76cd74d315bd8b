"""The house stays one that can be walked: few files on a floor, no large file, no circle of imports."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

from tests.walk import reached

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for top in ("app", "continuous", "store")
    for path in (ROOT / top).rglob("*.py")
)
LONG_FILE_LINES = 450
MOST_METHODS = 25


@pytest.mark.parametrize(("folder", "most"), [("continuous", 10), ("app", 15), ("store", 12)])
def test_few_files_stand_on_the_top_level(folder: str, most: int) -> None:
    files = [path.name for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= most, sorted(files)


@pytest.mark.filterwarnings("default:long files")
def test_long_files_are_listed_in_the_summary_of_warnings() -> None:
    """A file is split where a second idea begins, not at a number: this reports, and fails for none."""
    lines = {module: len((ROOT / module).read_text("utf-8").splitlines()) for module in MODULES}
    assert all(lines[module] for module in MODULES if not module.endswith("__init__.py"))
    if long := {module: count for module, count in lines.items() if count > LONG_FILE_LINES}:
        warnings.warn(f"long files: {long}", stacklevel=1)


def test_no_class_has_too_many_methods() -> None:
    """A builder of the language has a method for each rule of the grammar: those are not counted."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = {
        f"{module}:{node.name}": sum(isinstance(each, functions) for each in node.body)
        for module in MODULES
        if not module.startswith("continuous/language/build_")
        for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: count for name, count in methods.items() if count > MOST_METHODS} == {}


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for type checkers count: a reader follows them as well."""
    assert [module for module in MODULES if module in reached(module)] == []
