"""The wheel holds every package, and the check for it can fail."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOP_FOLDERS = ("app", "continuous", "store", "migrations", "static")


def _packages_on_disk() -> set[str]:
    found = set()
    for top in TOP_FOLDERS:
        for marker in (ROOT / top).rglob("__init__.py"):
            found.add("quadrill." + ".".join(marker.parent.relative_to(ROOT).parts))
    # The client is a package of its own, which imports nothing of the server; docs/ has no modules.
    return found - {"quadrill.app.client"} | {"quadrill.client", "quadrill.docs"}


def test_pyproject_lists_every_folder_that_is_a_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = settings["tool"]["setuptools"]["packages"]
    assert len(listed) == len(set(listed)), "a package is listed twice"
    assert set(listed) == _packages_on_disk()


def test_every_folder_with_python_files_is_a_package() -> None:
    for top in TOP_FOLDERS:
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module.parent} has no __init__.py"


def test_all_documents_name_the_least_python() -> None:
    required = {
        tomllib.loads((ROOT / name).read_text("utf-8"))["project"]["requires-python"]
        for name in ("pyproject.toml", "app/client/pyproject.toml")
    }
    assert len(required) == 1
    least = required.pop().removeprefix(">=")
    for name in ("README.md", "CONTRIBUTING.md", "docs/tutorial.md"):
        assert f"need Python {least} or later" in " ".join((ROOT / name).read_text("utf-8").split()), name
