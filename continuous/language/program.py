"""What tells this state of the program from every other one: what it works out is kept for it alone."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

import lark
import pyoxigraph

from quadrill import store


@cache
def program() -> bytes | None:
    """A digest of its sources and libraries; None where its sources are not at hand."""
    folders = [Path(__file__).parent.parent, Path(store.__file__).parent]
    sources = [
        (f"{folder.name}/{each.relative_to(folder)}", each)
        for folder in folders
        for each in sorted([*folder.rglob("*.py"), *folder.rglob("*.lark")])
    ]
    if not sources:
        return None
    found = hashlib.blake2b(f"{sys.version} {lark.__version__} {pyoxigraph.__version__}".encode())
    for name, each in sources:
        found.update(name.encode() + b"\0" + each.read_bytes())
    return found.digest()
