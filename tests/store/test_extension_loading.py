"""Extensions are loaded by name and by entry points, once, and a failure says which one and why."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from quadrill.store.sparql import extensions
from quadrill.store.sparql.extensions import ExtensionError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(extensions, "_loaded", {})
    (tmp_path / "counted.py").write_text("loads = 0\ndef begin():\n    global loads\n    loads += 1\n")
    (tmp_path / "lacking.py").write_text("import no_such_library")
    (tmp_path / "raising.py").write_text("raise RuntimeError('not today')")
    return tmp_path


def test_each_is_loaded_once(folder: Path) -> None:
    extensions.load(["counted", "counted:begin"])
    extensions.load(["counted:begin"])
    assert sys.modules["counted"].loads == 1
    assert extensions.loaded()[-2:] == ["counted", "counted:begin"]
    environment = extensions.worker_environment()
    assert environment is not None and str(folder) in environment["PYTHONPATH"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module", "There is no module no_such_module, which the setting extensions names"),
        ("counted.inner", "counted.inner"),
        ("lacking", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raising", "RuntimeError: not today"),
        ("counted:no_such_function", "AttributeError"),
        ("not a module", "There is no module not a module"),
        ("", "The setting extensions has an empty name"),
    ],
)
def test_a_failure_says_which_one_and_why(folder: Path, name: str, reason: str) -> None:
    with pytest.raises(ExtensionError, match=reason) as error:
        extensions.load([name])
    assert error.value.hint
    assert name not in extensions.loaded()


def test_entry_points_of_distributions_are_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> list[EntryPoint]:
        return [EntryPoint("measures", "counted:begin", group)]

    monkeypatch.setattr(extensions, "entry_points", points)
    extensions.load([])
    assert extensions.loaded() == ["counted:begin"]
    monkeypatch.setattr(extensions, "entry_points", lambda *, group: [EntryPoint("wrong", "raising", group)])
    with pytest.raises(ExtensionError, match="the entry point wrong"):
        extensions.load([])
