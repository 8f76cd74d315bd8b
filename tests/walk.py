"""Follows calls through the house with a profile hook: modules, calls, depth and climbs."""

from __future__ import annotations

import ast
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("app", "continuous", "store", "migrations")
GENERATED = "<generated>"


@dataclass
class Walk:
    """What one piece of work passed in the project's own code.

    Attributes:
        modules: paths below the root, in the order in which they were entered first.
        calls: how many functions were entered; a generator counts each time it goes on.
        depth: the longest chain of callers within the project.
        climbs: calls by (from, to) of a module that imports the caller and is not imported by it.
    """

    modules: dict[str, None] = field(default_factory=dict)
    functions: Counter[str] = field(default_factory=Counter)
    depth: int = 0
    climbs: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(self.functions.values())


def follow(work: Callable[[], Any]) -> Walk:
    """Do some work in this thread; what it passed."""
    walk = Walk()
    stack: list[str | None] = []

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            module = module_of(frame.f_code.co_filename)
            stack.append(module)
            if module is None:
                return
            name = f"{module}:{frame.f_code.co_qualname}"
            walk.modules.setdefault(module)
            walk.functions[name] += 1
            own = [each for each in stack if each is not None]
            walk.depth = max(walk.depth, len(own))
            walk.lines.append("  " * (len(own) - 1) + name)
            if len(own) > 1 and climbs(own[-2], module):
                walk.climbs[own[-2], module] += 1
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return walk


class ThreadsWalk:
    """Follows the calls of all threads that were started within `following_threads`."""

    def __init__(self) -> None:
        self._walk: Walk | None = None
        self._lock = threading.Lock()

    def follow(self, work: Callable[[], Any], is_over: Callable[[], bool] = lambda: True) -> Walk:
        """Do some work that other threads process; what they passed until ``is_over`` is true."""
        walk = self._walk = Walk()
        try:
            work()
            while not is_over():
                pass
        finally:
            self._walk = None
        return walk

    def hook(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; the profile function of each thread."""
        if self._walk is None or event != "call":
            return
        module = module_of(frame.f_code.co_filename)
        if module is None or module.startswith(AROUND):
            return
        chain = [module, *_callers(frame)]
        with self._lock:
            walk = self._walk
            if walk is None:
                return
            name = f"{module}:{frame.f_code.co_qualname}"
            walk.modules.setdefault(module)
            walk.functions[name] += 1
            walk.depth = max(walk.depth, len(chain))
            walk.lines.append("  " * (len(chain) - 1) + name)
            if len(chain) > 1 and climbs(chain[1], module):
                walk.climbs[chain[1], module] += 1


AROUND = ("app/upkeep/", "app/http/request_metrics.py", "store/threads.py")
"""Work that has nothing to do with a request and may run at any time."""


def _callers(frame: FrameType) -> Iterator[str]:
    back = frame.f_back
    while back is not None:
        module = module_of(back.f_code.co_filename)
        if module is not None:
            yield module
        back = back.f_back


@contextmanager
def following_threads() -> Iterator[ThreadsWalk]:
    """Let the threads that are started within be followed."""
    found = ThreadsWalk()
    threading.setprofile(found.hook)
    try:
        yield found
    finally:
        threading.setprofile(None)


@cache
def module_of(filename: str) -> str | None:
    """The path of a module of the project below its root; None for other code."""
    try:
        path = Path(filename).resolve().relative_to(ROOT)
    except (OSError, ValueError):
        return None
    return path.as_posix() if path.parts[0] in FOLDERS else None


def climbs(caller: str, callee: str) -> bool:
    """True when a call goes up: the callee's module imports the caller's, which does not import it."""
    return callee != caller and caller in reached(callee) and callee not in reached(caller)


@cache
def reached(module: str) -> frozenset[str]:
    """The modules that one imports, and those that they import."""
    found: set[str] = set()
    front = [module]
    while front:
        for each in imports(front.pop()) - found:
            found.add(each)
            front.append(each)
    return frozenset(found)


@cache
def imports(module: str) -> frozenset[str]:
    """The modules that one imports itself, those for type checkers included."""
    path = ROOT / module
    package = ("quadrill", *path.relative_to(ROOT).parent.parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = (*base, *(node.module.split(".") if node.module else ()))
            for name in node.names:
                found |= _files((*origin, name.name)) or _files(origin)
        elif isinstance(node, ast.Import):
            for name in node.names:
                found |= _files(tuple(name.name.split(".")))
    return frozenset(found - {module})


def _files(dotted: tuple[str, ...]) -> set[str]:
    if not dotted or dotted[0] != "quadrill" or len(dotted) < 2:
        return set()
    path = ROOT.joinpath(*dotted[1:])
    for found in (path.with_suffix(".py"), path / "__init__.py"):
        if found.is_file():
            return {found.relative_to(ROOT).as_posix()}
    return set()
