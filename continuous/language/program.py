"""Digest of the program's sources that determine the meaning of query texts.

Cached analyses and grammars are valid for one digest of the program's sources only. The digest of the program
covers the sources of the languages, the sources that they use, Python, lark and pyoxigraph. A release that
changes only other source files keeps the caches of analyses and grammars.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

import lark
import pyoxigraph

from quadrill import store

_OURS = ("algebra", "expressions", "language", "uncertainty", "errors.py")
_STORE = ("documents", "sparql", "errors.py", "terms.py")


def sources() -> list[tuple[str, Path]]:
    """Return the names and paths of the source files in the digest; empty if there are no source files."""
    found = []
    for folder, parts in ((Path(__file__).parent.parent, _OURS), (Path(store.__file__).parent, _STORE)):
        for path in (folder / part for part in parts):
            under = [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.lark")]
            found += [(f"{folder.name}/{each.relative_to(folder).as_posix()}", each) for each in under]
    return sorted(found)


@cache
def program() -> bytes | None:
    """Return the digest of the program's sources and libraries; None if the sources are not available."""
    found = hashlib.blake2b(f"{sys.version} {lark.__version__} {pyoxigraph.__version__}".encode())
    for name, path in (files := sources()):
        found.update(name.encode() + b"\0" + path.read_bytes())
    return found.digest() if files else None
