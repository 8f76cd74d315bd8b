"""Generated Python functions: lines, the objects that they use, and the one place that compiles them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from textwrap import dedent
from types import CodeType
from typing import Any

from quadrill.store.errors import UnsupportedError

_PART = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_WHOLE_LINE = re.compile(r"( *)\$(\w+)")


class Emitter:
    """Collects the lines and the named objects of a generated function."""

    def __init__(self, names: Mapping[str, Any], *, commented: bool = False) -> None:
        """``commented``: lines have comments, which name constants, and no string with their sign.

        Comments are not compiled, so that functions that differ in constants alone share their code.
        """
        self._commented = commented
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[str, Any] = dict(names)
        self._count = 0
        self._objects: dict[int, str] = {}

    def line(self, *texts: str) -> None:
        """Add a line, or some, at the present depth."""
        self.lines += ["    " * self.depth + text for text in texts]

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collect lines in a separate list, at depth 0, for a part of a template."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        try:
            yield self.lines
        finally:
            self.lines, self.depth = lines, depth

    def fresh(self, stem: str = "v") -> str:
        """A local name that is not taken."""
        self._count += 1
        return f"{stem}{self._count}"

    def name_of(self, thing: Any, stem: str = "c") -> str:
        """A global name for an object that the code uses."""
        known = self._objects.get(id(thing))
        if known is None:
            known = f"{stem}_{len(self._objects)}"
            self._objects[id(thing)] = known
            self.names[known] = thing
        return known

    def build(self, head: str, name: str) -> Any:
        """Execute ``head`` followed by the lines and return the object called ``name``."""
        namespace, lines = dict(self.names), self.lines
        if self._commented:
            lines = [line.partition("# ")[0].rstrip() for line in lines]
        try:
            exec(_compiled("\n".join([head, *lines]) + "\n", name), namespace)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise UnsupportedError("an expression nested this deep", hint=str(error)) from None
        return namespace[name]


@lru_cache(maxsize=512)
def _compiled(source: str, name: str) -> CodeType:
    """Texts are the same for queries that differ in constants: these are objects with names."""
    return compile(source, f"<plan {name}>", "exec")


def fill(template: str, **parts: object) -> str:
    r"""The lines of a template with its parts, which are not searched for parts again.

    A part that has a line for itself may have several lines, or none: an empty part leaves no line.

    >>> print(fill('''
    ...     for row in $rows:
    ...         $body
    ... ''', rows="found", body="a = row[0]\nb = row[1]"))
    for row in found:
        a = row[0]
        b = row[1]
    """
    lines: list[str] = []
    for text, part in _lines_of(template):
        if not part:
            lines.append(text % parts)
        elif block := str(parts[part]).strip("\n"):
            lines.append(text + block.replace("\n", "\n" + text))
    return "\n".join(lines)


@lru_cache(maxsize=512)
def _lines_of(template: str) -> list[tuple[str, str]]:
    """The lines as formats of ``%``; of one that is a part, its indentation and the part's name."""
    found = []
    for line in dedent(template).strip("\n").split("\n"):
        whole = _WHOLE_LINE.fullmatch(line)
        text = _PART.sub(lambda part: f"%({part[1] or part[2]})s", line.replace("%", "%%"))
        found.append((text, "") if whole is None else (whole[1], whole[2]))
    return found


def block(parts: Iterable[str]) -> str:
    """Parts one below the other, without the empty ones."""
    return "\n".join(filter(None, parts))
