"""What tells the state of the program from every other that might understand a text otherwise.

What is worked out of texts is kept for it alone. It follows from the sources of the languages, from what they
stand on, and from two libraries: a release that changes something else finds all that the last one has kept.
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
    """The files that it follows from, with their names; none where they are not at hand."""
    found = []
    for folder, parts in ((Path(__file__).parent.parent, _OURS), (Path(store.__file__).parent, _STORE)):
        for path in (folder / part for part in parts):
            under = [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.lark")]
            found += [(f"{folder.name}/{each.relative_to(folder).as_posix()}", each) for each in under]
    return sorted(found)


@cache
def program() -> bytes | None:
    """A digest of its sources and libraries; None where its sources are not at hand."""
    found = hashlib.blake2b(f"{sys.version} {lark.__version__} {pyoxigraph.__version__}".encode())
    for name, path in (files := sources()):
        found.update(name.encode() + b"\0" + path.read_bytes())
    return found.digest() if files else None
